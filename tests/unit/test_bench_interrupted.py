"""A bench that is to end early: nothing is begun, nothing is waited for, and what was seen is told."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from attncheck.backends.base import Launch
from attncheck.backends.callable import Callable
from attncheck.bench import awaiting
from attncheck.bench.awaiting import Interrupted, awaited
from attncheck.bench.contenders import Contender
from attncheck.bench.events import BenchFinished, BenchStarted, StationReady
from attncheck.bench.measure import Options, bench
from attncheck.scenario import from_command_line

RUNTIMES = Path(__file__).parent.parent / "runtimes"
RIGHT = Path(__file__).parent.parent / "callables" / "right.py"


class Busy(Callable):
    """A right function, in a worker that is never done with being timed."""

    def launch(self) -> Launch:
        return replace(super().launch(), runtime="busy", environment={"PYTHONPATH": str(RUNTIMES)})


def contender(folder: Path, name: str) -> Contender:
    (folder / f"{name}.py").write_text(RIGHT.read_text(encoding="utf-8"), encoding="utf-8")
    backend = Busy(folder / f"{name}.py", "attention")
    return Contender(backend.name, "", backend, backend.name)


def test_a_turn_is_not_waited_for_and_the_next_one_not_begun(tmp_path: Path) -> None:
    contenders = [contender(tmp_path, name) for name in ("first", "second")]
    options = Options(time_limit=250.0)

    def interrupt() -> None:
        while not (tmp_path / "first.timed").exists():
            time.sleep(0.05)
        options.cancelled.set()

    threading.Thread(target=interrupt, daemon=True).start()
    events = list(bench([from_command_line("op=gqa q_len=4 heads=2 kv_heads=1 head_dim=8")] * 2, contenders, options))
    assert (tmp_path / "first.timed").exists()
    assert not (tmp_path / "second.timed").exists()
    assert [type(event) for event in events] == [BenchStarted, StationReady, StationReady, BenchFinished]
    finished = events[-1]
    assert isinstance(finished, BenchFinished)
    assert finished.interrupted


def test_arithmetic_of_our_own_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaiting, "SHORTLY", 0.1)
    cancelled, never, ended = threading.Event(), threading.Event(), threading.Event()
    cancelled.set()
    with pytest.raises(Interrupted):
        awaited(never.wait, cancelled, ended.set)
    assert ended.is_set()


def test_a_caller_that_is_broken_off_takes_from_the_work_what_it_waits_for() -> None:
    never, ended = threading.Event(), threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        never.wait()

    with pytest.raises(KeyboardInterrupt):
        awaited(work, threading.Event(), ended.set)
    assert ended.is_set()


def test_what_comes_back_when_its_worker_is_ended_is_taken() -> None:
    cancelled, ended = threading.Event(), threading.Event()
    cancelled.set()
    assert awaited(ended.wait, cancelled, ended.set) is True


def test_what_the_work_raises_is_raised_and_else_its_result_is_given() -> None:
    cancelled = threading.Event()
    with pytest.raises(ZeroDivisionError):
        awaited(lambda: 1 // 0, cancelled, cancelled.set)
    assert awaited(lambda: 7, cancelled, cancelled.set) == 7
    assert not cancelled.is_set()
