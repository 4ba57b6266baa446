"""The judge: margins, places, exactness, NaN, overrides, dtypes, forms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from attncheck.compare import judge
from attncheck.compare.arithmetic import Compute
from attncheck.compare.difference import Place
from attncheck.graph import read, write
from attncheck.graph.case import Case, Output
from attncheck.oracle.answer import Answer
from attncheck.oracle.attention import answer
from attncheck.problem import Problem
from attncheck.scenario.command_line import from_command_line
from attncheck.scenario.model import Tolerance
from attncheck.tensors.dtypes import narrow
from attncheck.vocabulary import Verdict
from tests.drawing import scenario

Outputs = dict[str, NDArray[Any]]


def judged(**axes: Any) -> tuple[Case, Problem, tuple[Answer, ...], Outputs]:
    """A case with the oracle's own values, rounded to the dtype, as a backend's outputs."""
    case = write.build(scenario(**axes))
    problem = read.problem(case.model, case.inputs)
    answers = answer(problem, case.inputs)
    return case, problem, answers, {each.output: narrow(each.values, problem.dtype).copy() for each in answers}


def tolerance_at(found: Answer, index: tuple[int, ...], u_compute: float, u_storage: float, normal: float) -> float:
    """The documented formula at one element."""
    compute, storage = float(found.compute[index]), float(found.storage[index])
    bound = 10 * u_compute * compute + 2 * u_storage * storage
    return bound + (normal if abs(found.values[index]) <= normal + bound else 0.0)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("compute", ["f32", "native"])
def test_the_rounded_oracle_passes_on_every_output(dtype: str, compute: Compute) -> None:
    case, problem, answers, outputs = judged(dtype=dtype, q_len=(2, 4), rotary="half")
    assert judge.malformed(case.outputs, outputs) is None
    found = judge.differences(problem, answers, outputs, compute, "online")
    assert [each.role for each in found] == ["output", "present_key", "present_value"]
    assert all(each.passed and each.margin <= 0.5 and each.nonfinite == 0 for each in found)
    assert judge.verdict_of(found) is Verdict.PASS
    assert {(each.subject, each.against) for each in found} == {("online", "oracle")}
    assert [each.compared for each in found] == [6 * 64, 6 * 32, 6 * 32]


@given(
    b=st.integers(0, 1), head=st.integers(0, 3), row=st.integers(0, 2), dim=st.integers(0, 15), size=st.floats(1e-3, 10)
)
def test_the_worst_element_of_an_output_is_named_in_batch_head_row_dim(
    b: int, head: int, row: int, dim: int, size: float
) -> None:
    _, problem, answers, outputs = judged(q_len=(3, 3))
    index = (b, row, head * 16 + dim)
    outputs["output"][index] += np.float32(size)
    got, expected = float(outputs["output"][index]), float(answers[0].values[index])
    (found, *others) = judge.differences(problem, answers, outputs, "f32", "naive")
    assert found.place == Place("output", b, head, row, dim)
    assert (found.got, found.expected) == (got, expected)
    assert found.error == found.max_abs == abs(got - expected)
    assert found.tolerance == pytest.approx(tolerance_at(answers[0], index, 2**-24, 2**-24, 2**-126))
    assert found.margin == pytest.approx(found.error / found.tolerance)
    assert (found.failing, found.nonfinite, found.passed) == (1, 0, False)
    assert all(each.passed for each in others)
    assert judge.verdict_of((found, *others)) is Verdict.MISMATCH


def test_the_place_in_a_present_buffer_names_its_slot() -> None:
    _, problem, answers, outputs = judged(q_len=(2,), past_len=(3,))
    outputs["present_key"][0, 1, 4, 9] *= np.float32(1.01)
    found = judge.differences(problem, answers, outputs, "f32", "append")[1]
    assert found.place == Place("present_key", 0, 1, 4, 9)
    assert found.role == "present_key"


def test_the_largest_margin_wins_over_the_largest_error() -> None:
    _, problem, answers, outputs = judged(data="large-logits", q_len=(8,), scale=1.0)
    compute = answers[0].compute
    tight = np.unravel_index(np.argmin(compute), compute.shape)
    loose = np.unravel_index(np.argmax(compute), compute.shape)
    outputs["output"][loose] += np.float32(10 * 2**-24 * compute[loose] * 3)
    outputs["output"][tight] += np.float32(10 * 2**-24 * compute[tight] * 30)
    found = judge.differences(problem, answers, outputs, "f32", "x")[0]
    assert found.error < found.max_abs
    assert found.failing == 2
    assert found.expected == answers[0].values[tight]


@pytest.mark.parametrize("factor", [0.99, 1.01])
@pytest.mark.parametrize(("dtype", "u", "normal"), [("float32", 2**-24, 2**-126), ("float16", 2**-11, 2**-14)])
def test_the_tolerance_is_the_line_between_pass_and_mismatch(
    dtype: str, u: float, normal: float, factor: float
) -> None:
    _, problem, answers, _ = judged(dtype=dtype)
    there = (0, 2, 5)
    tolerance = tolerance_at(answers[0], there, 2**-24, u, normal)
    moved = answers[0].values.copy()
    moved[there] += factor * tolerance
    found = judge._difference(problem, answers[0], moved, answers[0].values, "f32", "x", "oracle", None)
    assert found.margin == pytest.approx(factor, rel=1e-6)
    assert found.passed is (factor < 1)


@pytest.mark.parametrize(
    ("value", "compute", "passes"),
    [(2**-14 + 2**-24, "f32", True), (2**-13, "f32", False), (2**-13, "native", True)],
)
def test_a_flushed_number_passes_where_the_arithmetic_may_flush_it(
    value: float, compute: Compute, passes: bool
) -> None:
    """Stored as float16: float32 loses what is subnormal there, float16 a part of any number."""
    _, problem, answers, _ = judged(dtype="float16")
    size, nothing = answers[0].values.shape, np.zeros(answers[0].values.shape)
    tiny = replace(answers[0], values=np.full(size, value), compute=nothing + 1e-4 * value, storage=nothing + value)
    off = {"output": np.full(size, value - 2**-14 + 2**-24 if passes else value - 2**-14, np.float16)}
    found = judge.differences(problem, [tiny], off, compute, "x")[0]
    assert found.passed is passes


def test_native_arithmetic_is_judged_by_the_dtypes_own_roundoff() -> None:
    _, problem, answers, outputs = judged(dtype="float16")
    outputs["output"] += (3 * 2**-11 * answers[0].compute).astype(np.float16)  # half of what native arithmetic may do
    assert not judge.differences(problem, answers, outputs, "f32", "x")[0].passed
    assert judge.differences(problem, answers, outputs, "native", "x")[0].passed


@pytest.mark.parametrize("output", ["present_key", "present_value"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_one_wrong_bit_in_a_copied_row_fails(output: str, dtype: str) -> None:
    _, problem, answers, outputs = judged(dtype=dtype, past_len=(3,))
    array = outputs[output]
    array[0, 1, 2, 3] = np.nextafter(array[0, 1, 2, 3], array.dtype.type(9), dtype=array.dtype)
    found = next(each for each in judge.differences(problem, answers, outputs, "native", "x") if each.role == output)
    assert (found.margin, found.tolerance, found.failing) == (np.inf, 0.0, 1)
    assert judge.verdict_of([found]) is Verdict.MISMATCH


def test_a_rotated_key_has_a_tolerance_and_the_past_before_it_has_none() -> None:
    _, problem, answers, outputs = judged(past_len=(3,), rotary="half", rotary_dim=8)
    outputs["present_key"][0, 0, 4, 0] = np.nextafter(outputs["present_key"][0, 0, 4, 0], np.float32(9))
    assert judge.differences(problem, answers, outputs, "f32", "x")[1].passed
    outputs["present_key"][0, 0, 4, 8] = np.nextafter(outputs["present_key"][0, 0, 4, 8], np.float32(9))
    assert judge.differences(problem, answers, outputs, "f32", "x")[1].failing == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("output", [0, 1, 2])
def test_what_is_not_finite_fails_even_under_a_wide_override(bad: float, output: int) -> None:
    _, problem, answers, outputs = judged(past_len=(2,))
    outputs[answers[output].output][0, 1, 1] = bad
    for override in (None, Tolerance(1e30)):
        found = judge.differences(problem, answers, outputs, "f32", "x", override)
        assert found[output].nonfinite == found[output].failing > 0
        assert found[output].max_abs == found[output].margin == np.inf
        assert judge.verdict_of(found) is Verdict.NONFINITE


def test_infinity_is_how_a_number_beyond_the_dtype_is_stored() -> None:
    case = write.build(from_command_line("op=attention dtype=float16 q_len=4 data=large-logits scale=1e4 scores=raw"))
    problem = read.problem(case.model, case.inputs)
    answers = answer(problem, case.inputs)
    with np.errstate(over="ignore"):
        outputs = {each.output: narrow(each.values, "float16").copy() for each in answers}
    scores = outputs[answers[-1].output]
    (at, *_) = np.argwhere(scores == np.inf)
    assert all(it.passed for it in judge.differences(problem, answers, outputs, "f32", ""))
    scores[tuple(at)] = -np.inf
    assert judge.verdict_of(judge.differences(problem, answers, outputs, "f32", "")) is Verdict.NONFINITE
    scores[tuple(at)] = np.inf
    (small, *_) = np.argwhere(np.abs(scores) < 1e4)
    scores[tuple(small)] = np.inf
    assert judge.verdict_of(judge.differences(problem, answers, outputs, "f32", "")) is Verdict.NONFINITE


def test_what_stands_where_nothing_is_stated_does_not_matter() -> None:
    _, problem, answers, outputs = judged(q_len=(2, 4), capacity=9)
    outputs["output"][0, 2:] = np.inf
    outputs["present_value"][:, :, 4:] = 77.0
    found = judge.differences(problem, answers, outputs, "f32", "x")
    assert judge.verdict_of(found) is Verdict.PASS
    assert max(each.max_abs for each in found) < 1e-6


def test_a_nan_of_the_oracle_must_be_met_by_nan() -> None:
    _, problem, answers, outputs = judged()
    values = answers[0].values.copy()
    values[0, 1, 3] = np.nan
    expecting = (replace(answers[0], values=values), *answers[1:])
    found = judge.differences(problem, expecting, outputs, "f32", "x", Tolerance(1.0))
    assert (found[0].nonfinite, found[0].failing) == (1, 1)
    assert found[0].place == Place("output", 0, 0, 1, 3)
    outputs["output"][0, 1, 3] = np.nan
    assert judge.verdict_of(judge.differences(problem, expecting, outputs, "f32", "x")) is Verdict.PASS


def test_an_override_is_an_absolute_bound_on_every_element() -> None:
    _, problem, answers, outputs = judged()
    outputs["output"] += np.float32(2e-3)
    outputs["present_key"] += np.float32(2e-3)
    passing = judge.differences(problem, answers, outputs, "f32", "x", Tolerance(2.1e-3))
    assert judge.verdict_of(passing) is Verdict.PASS
    assert {each.tolerance for each in passing} == {2.1e-3}
    failing = judge.differences(problem, answers, outputs, "f32", "x", Tolerance(1.9e-3))
    assert [each.failing for each in failing] == [256, 128, 0]


def test_an_override_of_0_asks_for_exact_results() -> None:
    _, problem, answers, outputs = judged(window=1)
    assert all(each.passed for each in judge.differences(problem, answers, outputs, "f32", "x", Tolerance(0.0)))


def test_an_empty_comparison_is_an_error() -> None:
    _, problem, answers, outputs = judged()
    nothing = (replace(answers[0], stated=np.zeros_like(answers[0].stated)),)
    with pytest.raises(judge.EmptyComparison, match="output output has no element that the operator states"):
        judge.differences(problem, nothing, outputs, "f32", "x")


def test_two_kernels_are_held_against_each_other_not_against_the_oracle() -> None:
    _, problem, answers, outputs = judged(q_len=(2, 3))
    wrong = {name: array + array.dtype.type(0.5) for name, array in outputs.items()}
    assert judge.verdict_of(judge.agreement(problem, answers, wrong, wrong, "f32", "online", "naive")) is Verdict.PASS
    found = judge.agreement(problem, answers, outputs, wrong, "f32", "online", "naive")
    assert {(each.subject, each.against) for each in found} == {("online", "naive")}
    assert all(each.failing == each.compared for each in found)
    assert found[0].expected == pytest.approx(found[0].got + 0.5)
    wide = judge.agreement(problem, answers, outputs, wrong, "f32", "online", "naive", Tolerance(0.6))
    assert judge.verdict_of(wide) is Verdict.PASS


def test_two_kernels_agree_in_what_is_not_finite_only_where_both_say_the_same() -> None:
    _, problem, answers, outputs = judged()
    broken = {name: array.copy() for name, array in outputs.items()}
    broken["output"][0, 0, 0] = np.inf
    found = judge.agreement(problem, answers, outputs, broken, "f32", "online", "naive")
    assert judge.verdict_of(found) is Verdict.NONFINITE
    assert judge.verdict_of(judge.agreement(problem, answers, broken, broken, "f32", "a", "b")) is Verdict.PASS


def test_a_malformed_output_is_said_with_what_was_expected() -> None:
    spec = (Output("output", "float16", (1, 2, 8)), Output("present_key", "float16", (1, 1, 2, 8)))
    right: Outputs = {"output": np.zeros((1, 2, 8), np.float16), "present_key": np.zeros((1, 1, 2, 8), np.float16)}
    assert judge.malformed(spec, right) is None
    assert judge.malformed(spec, {}) == (
        "output output is missing (outputs that came: none); output present_key is missing (outputs that came: none)"
    )
    assert judge.malformed(spec, right | {"output": np.zeros((1, 8, 2), np.float16)}) == (
        "output output has shape [1, 8, 2], expected [1, 2, 8]"
    )
    assert judge.malformed(spec, right | {"output": np.zeros((1, 2, 8), np.float32)}) == (
        "output output has dtype float32, expected float16"
    )


def test_bfloat16_is_expected_as_its_bits() -> None:
    spec = (Output("y", "bfloat16", (2,)),)
    assert judge.malformed(spec, {"y": np.zeros(2, np.uint16)}) is None
    assert judge.malformed(spec, {"y": np.zeros(2, np.float32)}) == (
        "output y has dtype float32, expected uint16 (the bits of bfloat16)"
    )


def test_a_tolerance_that_is_not_a_number_lets_nothing_pass() -> None:
    _, problem, answers, outputs = judged()
    for bound in (np.nan, np.inf):
        boundless = [replace(each, compute=np.full_like(each.compute, bound)) for each in answers]
        with pytest.raises(judge.Incomparable, match="no finite tolerance for"):
            judge.differences(problem, boundless, outputs, "f32", "kernel")


@pytest.mark.parametrize(("dtype", "u"), [("float32", 2.0**-24), ("float16", 2.0**-11)])
def test_a_tolerance_is_told_as_the_sum_that_it_is(dtype: str, u: float) -> None:
    _, problem, answers, outputs = judged(dtype=dtype, q_len=(2, 4), past_len=(3, 3))
    outputs["output"][1, 3, 17] += 1  # query 3, head 1, dim 1
    found, key, _ = judge.differences(problem, answers, outputs, "native", "x")
    at = (1, 3, 17)
    told = {term.of: term.value for term in found.terms}
    assert list(told) == ["arithmetic in native", f"storage in {dtype}", "smallest normal number"]
    assert told["arithmetic in native"] == pytest.approx(6 * u * answers[0].compute[at])
    assert told[f"storage in {dtype}"] == pytest.approx(2 * u * answers[0].storage[at])
    assert sum(told.values()) == pytest.approx(found.tolerance)
    assert (key.tolerance, key.terms) == (0.0, ())  # a copy has nothing to be wrong by
    (given, *_) = judge.differences(problem, answers, outputs, "f32", "x", Tolerance(0.5))
    assert [(term.of, term.value) for term in given.terms] == [("given", 0.5)]
