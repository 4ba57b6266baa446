"""The oracle's bounds with biases, sinks and score outputs: errors within them are let pass, larger ones are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from attncheck.compare import judge
from attncheck.compare.difference import Difference
from attncheck.oracle.answer import Answer
from attncheck.oracle.attention import answer
from attncheck.problem import split_heads
from attncheck.tensors.dtypes import dtype, narrow
from attncheck.vocabulary import Verdict
from tests.device import Work, work
from tests.drawing import scenario
from tests.dressing import STAGES, masked, scored, sunk

Float = NDArray[np.float64]
ROWS, KEYS, HEADS = 4, 9, 2


def small(**axes: Any) -> Work:
    """One KV head; query i sees the keys [0, 6 + i)."""
    return work(scenario(**({"q_len": (ROWS,), "past_len": (5,), "heads": HEADS, "kv_heads": 1, "head_dim": 8} | axes)))


def answers(given: Work) -> dict[str, Answer]:
    return {each.output: each for each in answer(given.problem, given.inputs)}


def featured(stage: Any) -> tuple[Work, Float]:
    """A bias with a hidden key, sinks and a score output."""
    bias = 3.0 * np.random.default_rng(1).standard_normal((HEADS, ROWS, KEYS))
    bias[:, 1, 2] = -np.inf
    given = scored(sunk(masked(small(softcap=4.0, data="large-logits", scale=0.1), bias), np.array([1.0, -2.0])), stage)
    return given, narrow(bias, "float32").astype(np.float64)


def parts(given: Work) -> tuple[Float, Float, Float]:
    """Scores after softcap, their bound / u before masks, and values: [heads, rows, keys] twice, [keys, dim]."""
    found = answers(given)
    query = split_heads(given.inputs["query"], "bsnh", HEADS)[0].astype(np.float64)
    keys, values = (found[name].values[0, 0] for name in ("present_key", "present_value"))
    scale, cap = given.problem.scale, given.problem.softcap
    score = scale * query @ keys.T
    bent = np.tanh(score / cap)
    rounded = scale * np.abs(query) @ np.abs(keys).T + np.sqrt(keys.shape[1] - 1) * np.abs(score)
    error = rounded * (1 - bent * bent) + 3 * np.abs(cap * bent)
    return cap * bent, error, values


def test_a_bias_adds_what_its_sum_rounds() -> None:
    given, bias = featured("biased")
    capped, error, _ = parts(given)
    found = answers(given)["scores"]
    shown = np.isfinite(found.values[0])
    expected = error + np.abs(capped) + np.abs(bias)
    np.testing.assert_allclose(found.compute[0][shown], expected[shown], rtol=1e-6)
    np.testing.assert_allclose(found.storage[0][shown], np.abs(capped + bias)[shown], rtol=1e-6)
    assert not found.compute[0][~shown].any()
    assert not found.storage[0][~shown].any()


def test_scores_before_masks_are_bounded_whether_they_are_seen_or_not() -> None:
    given, _ = featured("capped")
    capped, error, _ = parts(given)
    found = answers(given)["scores"]
    np.testing.assert_allclose(found.compute[0], error, rtol=1e-6)
    np.testing.assert_allclose(found.values[0], capped, rtol=1e-6)


def test_an_error_within_the_score_bound_moves_output_and_weights_by_no_more_than_their_bounds() -> None:
    """Scores and the sink's argument moved by +-u times their bounds, in whatever directions."""
    given, bias = featured("weights")
    capped, error, values = parts(given)
    found = answers(given)
    output = split_heads(found["output"].values, "bsnh", HEADS)[0]
    compute = split_heads(found["output"].compute, "bsnh", HEADS)[0]
    random, u = np.random.default_rng(2), 1e-7
    for head, row in np.ndindex(HEADS, ROWS):
        end = 6 + row
        seen = np.isfinite(bias[head, row, :end])
        score = np.where(seen, (capped + bias)[head, row, :end], -np.inf)
        sink = (1.0, -2.0)[head]
        top = max(float(score.max()), sink)
        room = np.where(seen, (error + np.abs(capped) + np.abs(bias))[head, row, :end] + top - score, 0.0)
        for _ in range(50):
            moved = score + u * room * random.choice((-1, 1), end)
            weight = np.exp(moved - top)
            share = weight / (weight.sum() + np.exp(sink + u * (top - sink) * random.choice((-1, 1)) - top))
            change = np.abs(share @ values[:end] - output[head, row])
            assert (change <= u * compute[head, row] * (1 + 1e-4) + 1e-12).all()
            change = np.abs(share - found["scores"].values[0, head, row, :end])
            assert (change <= u * found["scores"].compute[0, head, row, :end] * (1 + 1e-4) + 1e-12).all()


def test_a_sink_below_the_maximum_has_its_argument_rounded_too() -> None:
    """One key of score 0, which is exact, beside a sink of -3: all that rounding does to weights comes from there."""
    given = sunk(small(q_len=(1,), past_len=(0,)).with_problem(scale=0.0), np.full(HEADS, -3.0))
    value = given.inputs["value"].reshape(1, 8).astype(np.float64)
    key, sink = 1.0 / (1.0 + np.exp(-3.0)), 1.0 / (1.0 + np.exp(3.0))
    spread = np.abs(value) * np.sqrt(key - key * key)
    expected = spread * np.sqrt(sink * 3.0**2) + np.abs(value) * key * (2.0 + np.sqrt(2.0))
    found = answers(given)["output"].compute.reshape(HEADS, 8)
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-9)


def test_what_rotary_rounds_on_its_way_moves_weights() -> None:
    given = small(rotary="half", dtype="float16")
    raw, weights = (answers(scored(given, stage))["scores"] for stage in ("raw", "weights"))
    carried = raw.storage - np.abs(raw.values)
    p = weights.values
    mean = np.sqrt((p * carried * carried).sum(axis=-1, keepdims=True))
    visible = p > 0.0
    assert carried[visible].max() > 0.1
    np.testing.assert_allclose(weights.storage[visible], (p * (1.0 + carried + mean))[visible], rtol=1e-9)


def test_a_weight_too_small_for_any_format_may_be_given_as_0() -> None:
    """exp(-740) is subnormal in float64: a bound relative to it would be 0."""
    given = scored(masked(small(), np.where(np.arange(KEYS) == 2, -740.0, 0.0)), "weights")
    weights = right(given).copy()
    assert 0.0 < float(answers(given)["scores"].values[0, 0, 0, 2]) < 1e-300
    weights[..., 2] = 0.0
    assert judged(given, weights).passed


def judged(given: Work, scores: NDArray[Any]) -> Difference:
    """The score output held against the oracle; the other outputs are right."""
    outputs = {name: narrow(each.values, given.problem.dtype) for name, each in answers(given).items()}
    found = judge.differences(
        given.problem, answer(given.problem, given.inputs), outputs | {"scores": scores}, "f32", ""
    )
    (difference,) = (each for each in found if each.role == "scores")
    return difference


def right(given: Work) -> NDArray[Any]:
    return narrow(answers(given)["scores"].values, given.problem.dtype)


@pytest.mark.parametrize("stage", STAGES)
def test_a_wrong_score_is_found_where_it_is(stage: Any) -> None:
    given, _ = featured(stage)
    assert judged(given, right(given)).passed
    spoilt = right(given).copy()
    spoilt[0, 1, 2, 3] += 0.5
    found = judged(given, spoilt)
    assert (found.place.head, found.place.row, found.place.dim) == (1, 2, 3)
    assert (found.failing, found.compared) == (1, spoilt.size)
    assert judge.verdict_of([found]) is Verdict.MISMATCH


@pytest.mark.parametrize("storage", ["float32", "float16"])
@pytest.mark.parametrize("part", [1.0, 0.9, 0.51])
def test_a_hidden_score_may_be_the_lowest_number(storage: str, part: float) -> None:
    """As ONNX Runtime's CPU writes it at opsets 23 and 24, alone or with a score added."""
    given = scored(small(dtype=storage), "biased")
    scores = right(given).copy()
    hidden = np.isneginf(scores.astype(np.float64))
    assert hidden.any()
    scores[hidden] = -part * dtype(storage).largest
    assert judged(given, scores).passed


@pytest.mark.parametrize("instead", [-10000.0, 0.0, np.nan, np.inf])
def test_a_hidden_score_may_be_nothing_else(instead: float) -> None:
    given = scored(small(), "biased")
    scores = right(given).copy()
    scores[0, 0, 0, 7] = instead
    found = judged(given, scores)
    assert not found.passed
    assert found.nonfinite == 1
    assert judge.verdict_of([found]) is Verdict.NONFINITE


@pytest.mark.parametrize("stage", ["raw", "weights"])
@pytest.mark.parametrize("instead", [-np.inf, np.nan, float(np.finfo(np.float32).min)])
def test_at_other_stages_a_score_is_a_number(stage: Any, instead: float) -> None:
    given = scored(small(), stage)
    scores = right(given).copy()
    scores[0, 0, 0, 7] = instead
    assert not judged(given, scores).passed


def test_scores_of_no_key_state_nothing_and_the_rest_is_still_judged() -> None:
    given = scored(masked(small(), np.zeros(KEYS, np.bool_)), "biased")
    assert given.problem.scores is not None
    given = given.with_problem(scores=replace(given.problem.scores, hidden_stated=False))
    stated = answer(given.problem, given.inputs)
    outputs = {each.output: narrow(np.nan_to_num(each.values), "float32") for each in stated}
    found = judge.differences(given.problem, stated, outputs, "f32", "")
    assert [each.role for each in found] == ["output", "present_key", "present_value"]
    assert all(each.passed for each in found)


def test_two_backends_agree_on_a_hidden_score_in_either_spelling() -> None:
    given = scored(small(), "biased")
    outputs = {name: narrow(each.values, "float32") for name, each in answers(given).items()}
    lowest = np.where(np.isneginf(outputs["scores"].astype(np.float64)), np.finfo(np.float32).min, outputs["scores"])
    stated = answer(given.problem, given.inputs)
    found = judge.agreement(given.problem, stated, outputs, outputs | {"scores": lowest}, "f32", "one", "other")
    assert all(each.passed for each in found)


@given(sink=st.floats(-30, 30))
def test_a_share_that_a_sink_leaves_is_bounded_relative_to_itself(sink: float) -> None:
    """However little a sink leaves, an implementation that loses it altogether is told, down to the smallest normal."""
    given = sunk(small(), np.full(HEADS, sink))
    found = answers(given)["output"]
    room = judge.tolerances(found, dtype("float32"), "f32", None)
    assert (room[found.stated] < 0.01 * np.abs(found.values[found.stated]).max() + 1e-30).all()
