"""How much work a GPU is given before what counts, by when it has worked last."""

from __future__ import annotations

import time

import pytest

from attncheck.bench.adapter import Adapter
from attncheck.bench.waking import AWAKE, REST, RESTED, Waking

ONE, OTHER = Adapter("hardware", "NVIDIA H200"), Adapter("hardware", "Intel Arc")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The hour, to be set."""
    hour = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: hour[0])
    return hour


def test_a_gpu_is_woken_where_it_may_have_rested(now: list[float]) -> None:
    waking = Waking()
    assert waking.seconds(ONE) == RESTED
    waking.worked(ONE)
    now[0] += REST / 2
    assert waking.seconds(ONE) == AWAKE
    now[0] += REST
    assert waking.seconds(ONE) == RESTED


def test_contenders_on_one_adapter_share_it_whatever_they_call_it(now: list[float]) -> None:
    waking = Waking()
    waking.worked(Adapter("hardware", "NVIDIA H200 (driver 580)"))
    assert waking.seconds(ONE) == AWAKE
    assert waking.seconds(OTHER) == RESTED
    assert waking.seconds(Adapter("unknown")) == RESTED


def test_software_is_not_woken_and_a_processor_never_rests() -> None:
    assert Waking().seconds(Adapter("software", "llvmpipe")) == 0.0
    assert Waking().seconds(Adapter("processor")) == AWAKE


def test_what_the_processor_did_wakes_no_gpu_whose_name_nobody_tells() -> None:
    waking = Waking()
    waking.worked(Adapter("processor"))
    assert waking.seconds(Adapter("unknown")) == RESTED
