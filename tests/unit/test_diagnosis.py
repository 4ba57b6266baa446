"""Diagnosis: wrong numbers are named by the wrong kernel that gives them, or by where they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attncheck.compare.diagnosis import Diagnosis, diagnose
from attncheck.engine import sessions
from attncheck.graph import read, write
from attncheck.graph.session import session
from attncheck.oracle import attention
from attncheck.oracle.answer import Answer
from attncheck.oracle.wrong import masks
from attncheck.oracle.wrong.blocks import HYPOTHESES
from attncheck.oracle.wrong.catalogue import CATALOGUE
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.kernel import compute
from attncheck.oracle.wrong.recipe import Recipe
from attncheck.problem import Arrays, Problem, role_of
from attncheck.scenario.model import Scenario, Tolerance
from attncheck.tensors.dtypes import narrow
from tests.drawing import scenario
from tests.unit.test_shipped_scenarios import EVERY
from tests.unit.test_wrong import BY_NAME, EXTRAS, FEATURED, FEATURES, masked

Outputs = dict[str, NDArray[Any]]


def scene(it: Scenario) -> tuple[Problem, Arrays, tuple[Answer, ...]]:
    case = write.build(it)
    problem = read.problem(case.model, case.inputs)
    return problem, case.inputs, attention.answer(problem, case.inputs)


def rounded(values: NDArray[np.float64], answer: Answer, dtype: str) -> NDArray[Any]:
    """As a float32 kernel would give it: a few units in the last place off where it computes, exact where it copies."""
    noise = np.random.default_rng(7).uniform(-2.0, 2.0, values.shape) * 2.0**-24
    return narrow(np.where(answer.compute > 0.0, values * (1.0 + noise), values), dtype)


def right(problem: Problem, answers: tuple[Answer, ...]) -> Outputs:
    return {
        each.output: rounded(np.nan_to_num(each.values), each, role_of(problem.outputs, each.output).dtype)
        for each in answers
    }


def said_of(it: Scenario, wrong: Wrong) -> str:
    problem, inputs, answers = scene(it)
    given = wrong.outputs(problem, inputs)
    outputs = {
        each.output: rounded(given[each.output], each, role_of(problem.outputs, each.output).dtype) for each in answers
    }
    return diagnose(problem, inputs, answers, outputs, "f32").words


def first_case(wrong: Wrong) -> Scenario:
    """The first of the usual cases to which it is relevant, if there is one in which it does not give NaN alone."""
    cases = [it for it in (scenario(**axes) for axes in FEATURES.values()) if wrong.relevant(scene(it)[0])]
    return next((it for it in cases if _has_numbers(it, wrong)), cases[0])


def _has_numbers(it: Scenario, wrong: Wrong) -> bool:
    problem, inputs, answers = scene(it)
    return bool(np.isfinite(wrong.outputs(problem, inputs)[answers[0].output][answers[0].stated]).any())


@pytest.mark.parametrize("wrong", EXTRAS, ids=lambda wrong: wrong.name)
def test_the_numbers_of_a_wrong_kernel_of_masks_and_sinks_are_named(wrong: Wrong) -> None:
    problem, inputs = masked()
    answers = attention.answer(problem, inputs)
    said = diagnose(problem, inputs, answers, wrong.outputs(problem, inputs), "f32").words
    assert said.startswith("equals the result with ")
    assert wrong.words in said


@pytest.mark.parametrize("wrong", [it for it in CATALOGUE if it.name not in FEATURED], ids=lambda wrong: wrong.name)
def test_the_numbers_of_every_wrong_kernel_are_named(wrong: Wrong) -> None:
    said = said_of(first_case(wrong), wrong)
    assert said.startswith("equals the result with ")
    assert wrong.words in said


@pytest.mark.parametrize("axes", [{"op": "attention", "opset": 24, "mask": "SxT"}, {"op": "mha", "mask": "BxSxT"}])
def test_a_boolean_mask_read_the_other_way_round_is_named(axes: dict[str, Any]) -> None:
    (inverted,) = masks.HYPOTHESES
    said = said_of(scenario(q_len=(6,), past_len=(0,), causal=False, holes="keys", **axes), inverted)
    assert said.startswith("equals the result with a boolean mask read the other way round")


def test_the_sentence_gives_the_largest_difference_in_two_digits() -> None:
    problem, inputs, answers = scene(scenario(q_len=(1,), past_len=(100,), softcap=2.0))
    given = BY_NAME["softcap-ignored"].outputs(problem, inputs)
    given[problem.output.name] = given[problem.output.name].copy()
    given[problem.output.name][0, 0, 3] += 2.4e-7
    said = diagnose(problem, inputs, answers, given, "f32").words
    assert said == "equals the result with softcap ignored, within 2.4e-7"


def test_a_copy_that_is_wrong_in_the_same_way_is_equal_exactly() -> None:
    problem, inputs, answers = scene(scenario(q_len=(4,), past_len=(9,)))
    outputs = right(problem, answers)
    assert problem.present_key is not None
    assert problem.present_value is not None
    outputs[problem.present_key.name] = outputs[problem.present_value.name]
    assert diagnose(problem, inputs, answers, outputs, "f32").words.startswith(
        "equals the result with present_value written for present_key, within"
    )


def test_wrong_kernels_that_are_the_same_here_are_all_named() -> None:
    said = said_of(scenario(q_len=(1, 1), past_len=(100, 50)), BY_NAME["longest-length"])
    assert "the length of batch entry 0 used for all" in said
    assert "the longest length used for all batch entries" in said
    assert "here the same as" in said


def test_the_longest_length_is_told_from_the_length_of_entry_0() -> None:
    said = said_of(scenario(q_len=(1, 1), past_len=(50, 100)), BY_NAME["longest-length"])
    assert said == "equals the result with the longest length used for all batch entries, exactly" or said.startswith(
        "equals the result with the longest length used for all batch entries, within"
    )


@pytest.mark.parametrize(
    ("size", "first", "end", "words"),
    [
        (16, 4, 16, "only keys 0..3 of each block of 16 read"),
        (64, 16, 32, "keys 16..31 of each block of 64 skipped"),
        (32, 0, 8, "keys 0..7 of each block of 32 skipped"),
    ],
)
def test_the_keys_of_each_block_that_were_read_are_recovered(size: int, first: int, end: int, words: str) -> None:
    wrong = next(it for it in HYPOTHESES if it.name == f"keys-{first}-to-{end - 1}-of-{size}-skipped")
    assert words in said_of(scenario(q_len=(100,)), wrong)


def test_two_faults_at_once_are_both_named() -> None:
    problem, inputs, answers = scene(scenario(q_len=(16,), softcap=2.0))
    once = BY_NAME["softcap-ignored"].change(Recipe(problem, inputs))
    given = compute(BY_NAME["blocks-of-4-scored-as-8-kept"].change(once))
    said = diagnose(problem, inputs, answers, given, "f32").words
    assert "softcap ignored, and blocks of 4 keys scored as blocks of 8" in said


def test_right_numbers_have_no_diagnosis() -> None:
    problem, inputs, answers = scene(scenario())
    assert diagnose(problem, inputs, answers, right(problem, answers), "f32").words == ""


def test_rounding_beyond_a_tolerance_is_no_wrong_kernel() -> None:
    """Softcap 50 bends these scores by less than 1e-3 of themselves; an error of that size all over is not that."""
    problem, inputs, answers = scene(scenario(q_len=(9,), softcap=50.0))
    outputs = right(problem, answers)
    noise = np.random.default_rng(3).uniform(-1e-3, 1e-3, outputs[problem.output.name].shape)
    outputs[problem.output.name] = outputs[problem.output.name] + noise.astype(np.float32)
    assert diagnose(problem, inputs, answers, outputs, "f32").words == ""


def test_a_tolerance_of_the_scenario_decides_what_is_wrong() -> None:
    problem, inputs, answers = scene(scenario())
    outputs = right(problem, answers)
    assert diagnose(problem, inputs, answers, outputs, "f32", Tolerance(1e-12)).words == ""
    heads_of(outputs, problem)[:, :, 3] += 0.25
    assert diagnose(problem, inputs, answers, outputs, "f32", Tolerance(0.5)).words == ""
    assert diagnose(problem, inputs, answers, outputs, "f32").words == "output wrong in head 3"


def heads_of(outputs: Outputs, problem: Problem) -> NDArray[Any]:
    """The output as [batch, rows, heads, dim], a view."""
    shape = (problem.batch, problem.rows, problem.heads, problem.v_head_dim)
    view: NDArray[Any] = outputs[problem.output.name].reshape(shape)
    return view


def spoil(place: tuple[Any, ...], how: Callable[[NDArray[Any]], Any]) -> Callable[[Outputs, Problem], None]:
    def spoiled(outputs: Outputs, problem: Problem) -> None:
        array = heads_of(outputs, problem)
        array[place] = how(array[place])

    return spoiled


def off(array: NDArray[Any]) -> NDArray[Any]:
    moved: NDArray[Any] = array + np.float32(0.3) * np.arange(1, array.size + 1, dtype=np.float32).reshape(array.shape)
    return moved


def zero(array: NDArray[Any]) -> NDArray[Any]:
    return np.zeros_like(array)


def nan(array: NDArray[Any]) -> NDArray[Any]:
    return np.full_like(array, np.nan)


ALL = slice(None)
PLACES: list[tuple[str, tuple[Any, ...], Callable[[NDArray[Any]], Any]]] = [
    ("output wrong in dims 8..15 (the upper half of head_dim)", (ALL, ALL, ALL, slice(8, None)), off),
    ("output wrong in dims 0..7 (the lower half of head_dim)", (ALL, ALL, ALL, slice(0, 8)), off),
    ("output zero in dims 12..15 (the tail of head_dim)", (ALL, ALL, ALL, slice(12, None)), zero),
    ("output wrong in head 3", (ALL, ALL, 3), off),
    ("output wrong in the query heads of KV head 1", (ALL, ALL, slice(2, 4)), off),
    ("output wrong in every batch entry after the first", (slice(1, None),), off),
    ("output wrong in batch entry 1", (1,), off),
    ("output wrong in query rows from 16 on (the edge of a tile of 16)", (ALL, slice(16, None)), off),
    ("output NaN (stale poison, or arithmetic that has no result) in query rows 3 and 7", (ALL, [3, 7]), nan),
    ("output NaN (stale poison, or arithmetic that has no result) everywhere", (), nan),
    ("output wrong in a single element", (2, 5, 1, 9), lambda element: element + 1),
    ("output zero in dims 0..3 of query row 4 of head 2 of batch entry 0", (0, 4, 2, slice(0, 4)), zero),
]


@pytest.mark.parametrize(("words", "place", "how"), PLACES, ids=[words for words, *_ in PLACES])
def test_where_numbers_are_wrong_is_named(
    words: str, place: tuple[Any, ...], how: Callable[[NDArray[Any]], Any]
) -> None:
    problem, inputs, answers = scene(scenario(q_len=(18, 18, 18)))
    outputs = right(problem, answers)
    spoil(place, how)(outputs, problem)
    assert diagnose(problem, inputs, answers, outputs, "f32").words == words


@pytest.mark.parametrize("op", ["gqa", "mha"])
def test_an_output_of_nan_alone_is_no_proof_of_a_kernel_that_reads_what_nobody_filled(op: str) -> None:
    problem, inputs, answers = scene(scenario(op=op, past_len=(20,), capacity=64))
    outputs = right(problem, answers)
    outputs["output"] = np.full_like(outputs["output"], np.nan)
    found = diagnose(problem, inputs, answers, outputs, "f32")
    assert found.words.endswith("everywhere"), found.words


def test_nan_is_told_apart_from_what_is_merely_wrong() -> None:
    problem, inputs, answers = scene(scenario(q_len=(18, 18, 18)))
    outputs = right(problem, answers)
    spoil((0, slice(8, None)), nan)(outputs, problem)
    spoil((2, ALL, 1), off)(outputs, problem)
    assert diagnose(problem, inputs, answers, outputs, "f32").words == (
        "output NaN (stale poison, or arithmetic that has no result) in query rows from 8 on (the edge of a tile of 8) "
        "of batch entry 0, wrong in head 1 of batch entry 2"
    )


def test_errors_all_over_the_output_that_nothing_explains_are_left_without_a_word() -> None:
    problem, inputs, answers = scene(scenario(q_len=(18,)))
    outputs = right(problem, answers)
    spoil((), off)(outputs, problem)
    assert diagnose(problem, inputs, answers, outputs, "f32").words == ""


def test_presents_that_alone_are_wrong_are_said_to_be() -> None:
    problem, inputs, answers = scene(scenario(q_len=(3,), past_len=(8,)))
    outputs = right(problem, answers)
    for each in answers[1:]:
        outputs[each.output] = outputs[each.output].copy()
        outputs[each.output][:, :, 8:] += 0.5
    assert diagnose(problem, inputs, answers, outputs, "f32").words == (
        "present_key and present_value wrong in slots from 8 on (the edge of a tile of 8), the new rows; "
        "the output itself is right"
    )


def test_a_present_that_was_never_written_holds_nothing_of_the_inputs() -> None:
    problem, inputs, answers = scene(scenario(q_len=(3,), past_len=(8,)))
    outputs = right(problem, answers)
    assert problem.present_value is not None
    garbage = np.random.default_rng(5).normal(size=outputs[problem.present_value.name].shape)
    outputs[problem.present_value.name] = garbage.astype(np.float32)
    assert diagnose(problem, inputs, answers, outputs, "f32").words == (
        "present_value unlike anything that was put in (never written?); the output itself is right"
    )


def test_each_output_may_equal_a_wrong_kernel_of_its_own() -> None:
    problem, inputs, answers = scene(scenario(q_len=(1, 7, 4), rotary="half", softcap=2.0))
    outputs = right(problem, answers)
    for name, wrong in ((problem.output.name, "softcap-ignored"), ("present_key", "rotary-from-padding")):
        outputs[name] = narrow(np.nan_to_num(BY_NAME[wrong].outputs(problem, inputs)[name]), "float32")
    said = diagnose(problem, inputs, answers, outputs, "f32").words
    assert said.startswith("output equals the result with softcap ignored, within ")
    assert "; present_key equals the result with rotary positions that begin at kv_len minus the padded rows" in said


def test_an_output_of_a_wrong_kernel_beside_a_present_that_is_wrong_otherwise() -> None:
    problem, inputs, answers = scene(scenario(q_len=(4,), past_len=(9,), softcap=2.0))
    outputs = right(problem, answers)
    outputs[problem.output.name] = narrow(
        BY_NAME["softcap-ignored"].outputs(problem, inputs)[problem.output.name], "float32"
    )
    assert problem.present_key is not None
    outputs[problem.present_key.name][0, 1, 4, 2] += 1
    said = diagnose(problem, inputs, answers, outputs, "f32").words
    assert said.startswith("output equals the result with softcap ignored, within ")
    assert said.endswith("; present_key wrong in a single element")


def test_a_case_of_many_rows_is_diagnosed_from_a_few_of_them() -> None:
    it = scenario(q_len=(400,), heads=8, kv_heads=2)
    said = said_of(it, BY_NAME["kv-heads-tiled"])
    assert "KV heads tiled" in said


def test_a_native_float16_result_has_the_room_of_its_arithmetic() -> None:
    it = scenario(q_len=(16,), dtype="float16")
    problem, inputs, answers = scene(it)
    given = BY_NAME["causal-ignored"].outputs(problem, inputs)
    outputs = {each.output: narrow(given[each.output] * (1 + 2.0**-11), "float16") for each in answers[:1]}
    for each in answers[1:]:
        outputs[each.output] = narrow(given[each.output], "float16")
    said = diagnose(problem, inputs, answers, outputs, "native").words
    assert "the causal mask ignored" in said


def test_a_problem_whose_intervals_have_no_convention_is_diagnosed_all_the_same() -> None:
    """Intervals that are neither causal nor a window, as another operator's mask may give them."""
    problem, inputs, _ = scene(scenario(q_len=(6,)))
    visible = problem.visible.copy()
    visible[0, :, 1] = [3, 1, 6, 2, 5, 4]
    other = replace(problem, visible=visible)
    answers = attention.answer(other, inputs)
    outputs = right(other, answers)
    heads_of(outputs, other)[:, :, 2] = 0.0
    assert diagnose(other, inputs, answers, outputs, "f32").words == "output zero in head 2"


@pytest.mark.parametrize("case", ["gqa.yaml::window-cache-and-chunks:capacity=5", "paged.yaml::window:window=5"])
def test_a_fault_is_judged_where_a_suspected_kernel_keeps_nothing_of_what_a_row_looks_at(case: str) -> None:
    """A cache that has evicted it, or pages that end before it: a suspect then has no slots to weigh there."""
    (drawn,) = (it for it in EVERY if it.id == f"shipped/{case}")
    step = sessions.steps(session(drawn))[-1]
    outputs: Outputs = {it.output: narrow(np.nan_to_num(it.values), step.problem.dtype) for it in step.answers}
    outputs[step.problem.outputs[0].tensor.name].reshape(-1)[::3] += 1.0
    found = diagnose(step.problem, step.case.inputs, step.answers, outputs, "f32")
    assert found == Diagnosis(), "wrong everywhere, and like nothing known"
