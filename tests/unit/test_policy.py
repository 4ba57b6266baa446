from __future__ import annotations

import pytest

from attncheck.graph import read, write
from attncheck.kernels.policy import Policy
from attncheck.problem import Problem
from attncheck.scenario.model import DEFAULT_THRESHOLD
from tests.drawing import scenario


def problem(*kv_len: int) -> Problem:
    case = write.build(
        scenario(q_len=(1,) * len(kv_len), past_len=tuple(n - 1 for n in kv_len), heads=1, kv_heads=1, head_dim=4)
    )
    return read.problem(case.model, case.inputs)


def test_auto_takes_online_from_the_threshold_on() -> None:
    assert Policy().choose(problem(DEFAULT_THRESHOLD - 1)) == ("naive", "online")
    assert Policy().choose(problem(DEFAULT_THRESHOLD)) == ("online", "naive")


def test_the_default_threshold_is_1024_keys() -> None:
    assert Policy().choose(problem(1023))[0] == "naive"
    assert Policy().choose(problem(1024))[0] == "online"


def test_the_longest_of_a_batch_decides() -> None:
    assert Policy(threshold=30).choose(problem(2, 30, 5)) == ("online", "naive")
    assert Policy(threshold=31).choose(problem(2, 30, 5)) == ("naive", "online")


def test_a_threshold_of_zero_always_takes_online() -> None:
    assert Policy(threshold=0).choose(problem(1))[0] == "online"


@pytest.mark.parametrize("kernel", ["naive", "online"])
@pytest.mark.parametrize("keys", [1, 2000])
def test_a_forced_kernel_runs_alone(kernel: str, keys: int) -> None:
    assert Policy(kernel=kernel).choose(problem(keys)) == (kernel,)  # type: ignore[arg-type]


def test_an_unknown_kernel_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown kernel 'flash'; choose one of auto, naive, online"):
        Policy(kernel="flash")  # type: ignore[arg-type]


def test_a_negative_threshold_is_refused() -> None:
    with pytest.raises(ValueError, match="0 or more, not -1"):
        Policy(threshold=-1)
