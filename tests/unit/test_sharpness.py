"""Sharpness: which wrong kernels a case's tolerance rejects, and when a case proves nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from attncheck.compare.arithmetic import Compute
from attncheck.compare.sharpness import Sharpness, sharpness
from attncheck.graph import read, write
from attncheck.oracle import attention
from attncheck.oracle.wrong.catalogue import relevant
from attncheck.scenario.model import Scenario, Tolerance
from tests.drawing import scenario, scenarios


def found(it: Scenario, max_abs: float | None = None, first_only: bool = False, compute: Compute = "f32") -> Sharpness:
    case = write.build(it)
    problem = read.problem(case.model, case.inputs)
    override = None if max_abs is None else Tolerance(max_abs)
    answers = attention.answer(problem, case.inputs)
    return sharpness(problem, case.inputs, answers, compute, override, first_only=first_only)


@pytest.mark.parametrize(
    "axes",
    [
        {"q_len": (16,)},
        {"q_len": (4,), "past_len": (20,), "window": 3, "softcap": 2.0, "rotary": "half"},
        {"q_len": (1, 1), "past_len": (5, 40)},
        {"op": "mha", "q_len": (1, 7, 4), "causal": False},
        {"q_len": (9,), "heads": 6, "kv_heads": 2, "head_dim": 5},
    ],
)
def test_the_derived_tolerance_rejects_every_relevant_wrong_kernel(axes: dict[str, Any]) -> None:
    it = found(scenario(**axes))
    assert len(it.relevant) > 20
    assert it.rejected == it.relevant
    assert it.survivors == ()
    assert not it.vacuous


@given(it=scenarios(dtypes=("float32", "float16")))
@settings(deadline=None, max_examples=40)
def test_no_drawn_case_is_vacuous_with_the_derived_tolerance(it: Scenario) -> None:
    assert not found(it, first_only=True).vacuous


def test_float16_arithmetic_of_its_own_still_rejects_what_matters() -> None:
    it = found(scenario(q_len=(16,), dtype="float16"), compute="native")
    assert {"causal-ignored", "scale-missing", "uniform-weights", "last-key-dropped", "zeros"} <= set(it.rejected)


def test_a_tolerance_wider_than_every_value_is_vacuous() -> None:
    it = found(scenario(q_len=(16,)), max_abs=1e6)
    assert it.rejected == ()
    assert it.survivors == it.relevant
    assert it.vacuous


def test_a_nan_is_no_merit_of_the_tolerance() -> None:
    """A kernel that reads poison is rejected, but not by the tolerance: without poison it would pass."""
    it = found(scenario(q_len=(1, 1), past_len=(5, 40)), max_abs=1e6)
    assert "longest-length" in it.rejected
    assert set(it.rejected) == set(it.by_poison)
    assert it.vacuous


def test_zeros_of_queries_without_a_key_are_no_vacuous_answer() -> None:
    """What can be wrong there is a NaN, and the tolerance of 0 lets no other number pass either."""
    empty = scenario(op="attention", opset=24, q_len=(3,), past_len=(0,), kv_len=(0,), capacity=5)
    it = found(empty)
    assert it.rejected
    assert not it.vacuous
    assert found(empty, max_abs=1.0).vacuous


def test_an_output_of_zeros_that_passes_is_vacuous_whatever_else_is_noticed() -> None:
    """A present without the past is noticed, and says nothing of attention, whose values are all below the bound."""
    case = scenario(q_len=(16,), past_len=(20,), q_values=(0.0,), k_values=(1000.0, -1000.0))
    it = found(case, max_abs=4.0)
    assert "present-zero" in it.rejected
    assert "zeros" in it.survivors
    assert it.vacuous
    assert found(case, max_abs=4.0, first_only=True).vacuous
    assert not found(case).vacuous


def test_a_tolerance_between_two_wrong_kernels_rejects_the_worse_one() -> None:
    it = found(scenario(q_len=(16,), softcap=50.0), max_abs=0.05)
    assert "softcap-ignored" in it.survivors
    assert "zeros" in it.rejected
    assert not it.vacuous


@pytest.mark.parametrize("max_abs", [None, 1e-3, 0.5, 1e6])
def test_stopping_at_the_first_says_the_same_of_vacuous(max_abs: float | None) -> None:
    it = scenario(q_len=(3, 8), softcap=2.0)
    assert found(it, max_abs, first_only=True).vacuous == found(it, max_abs).vacuous


def test_one_wrong_kernel_is_enough_to_know_that_a_usual_case_is_not_vacuous() -> None:
    for axes in ({"q_len": (16,)}, {"q_len": (1, 1), "past_len": (5, 40)}, {"op": "mha", "q_len": (9,)}):
        assert len(found(scenario(**axes), first_only=True).relevant) == 1


def test_everything_that_is_relevant_is_tried_and_told() -> None:
    it = scenario(q_len=(6,), past_len=(20,), window=4)
    case = write.build(it)
    names = {wrong.name for wrong in relevant(read.problem(case.model, case.inputs))}
    told = found(it)
    assert set(told.relevant) == names
    assert set(told.rejected) | set(told.survivors) == names
    assert {"window-ignored", "window-one-long", "window-one-short"} <= names
    assert not {"softcap-ignored", "rotary-ignored", "causal-forced", "longest-length"} & names
