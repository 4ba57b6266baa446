"""The oracle on masks, sinks, packed roles and score outputs, against closed forms and the ONNX reference evaluator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from attncheck.oracle.answer import Answer, NoAnswer
from attncheck.oracle.attention import answer
from attncheck.problem import Mask, split_heads
from tests.device import Work, work
from tests.drawing import scenario
from tests.dressing import STAGES, dressings, masked, packed, packed_by_heads, scored, sunk

Float = NDArray[np.float64]
ROWS, KEYS, HEADS, KV_HEADS, DIM = 4, 9, 4, 2, 16


def small(**axes: Any) -> Work:
    """One entry, 4 queries after 5 keys: causal, so that query i sees the keys [0, 6 + i)."""
    return work(scenario(**({"q_len": (ROWS,), "past_len": (5,)} | axes)))


def answers(given: Work) -> dict[str, Answer]:
    return {each.output: each for each in answer(given.problem, given.inputs)}


def output(given: Work) -> Float:
    """[batch, heads, rows, dim]."""
    return split_heads(answers(given)["output"].values, "bsnh", given.problem.heads).astype(np.float64)


def score(given: Work, stage: Any = "raw") -> Float:
    return answers(scored(given, stage))["scores"].values


def by_hand(given: Work) -> tuple[Float, Float]:
    """Keys and values a query head sees, [heads, keys, dim], and the scores q.k / 4, [heads, rows, keys]."""
    keys, values = (
        np.concatenate([given.inputs[f"past_{role}"][0], split_heads(given.inputs[role], "bsnh", KV_HEADS)[0]], axis=1)
        for role in ("key", "value")
    )
    keys, values = (np.repeat(each.astype(np.float64), HEADS // KV_HEADS, axis=0) for each in (keys, values))
    query = split_heads(given.inputs["query"], "bsnh", HEADS)[0].astype(np.float64)
    return values, query @ keys.swapaxes(-1, -2) / np.sqrt(DIM)


@given(sink=st.floats(-20, 20), smooth=st.booleans())
def test_a_sink_takes_its_share_of_a_single_key(sink: float, smooth: bool) -> None:
    """One key of score 0 weighs 1 / (1 + exp(sink)), and 1 / (2 + exp(sink)) in a smooth softmax."""
    given = sunk(small(q_len=(1,), past_len=(0,)).with_problem(scale=0.0), np.full(HEADS, sink), smooth=smooth)
    stored = float(given.inputs["sink"].reshape(-1)[0])
    share = 1.0 / (1.0 + np.exp(stored) + smooth)
    value = np.repeat(given.inputs["value"].reshape(KV_HEADS, 1, DIM).astype(np.float64), 2, axis=0)
    np.testing.assert_allclose(output(given)[0], share * value, rtol=1e-12)
    np.testing.assert_allclose(score(given, "weights"), share, rtol=1e-12)


def test_each_head_has_its_own_sink() -> None:
    sinks = np.array([-np.inf, 0.0, 3.0, 1000.0])
    given = small()
    values, scores = by_hand(given)
    found = output(sunk(given, sinks))[0]
    for head, row in np.ndindex(HEADS, ROWS):
        weight = np.exp(scores[head, row, : 6 + row])
        expected = weight @ values[head, : 6 + row] / (weight.sum() + np.exp(min(float(sinks[head]), 700.0)))
        np.testing.assert_allclose(found[head, row], expected, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("smooth", [False, True])
def test_a_row_without_a_key_gives_zeros_sink_or_not(smooth: bool) -> None:
    for sink in (None, np.zeros(HEADS), np.full(HEADS, -np.inf)):
        given = sunk(masked(small(), np.zeros((ROWS, KEYS), np.bool_)), sink, smooth=smooth)
        assert not output(given).any()
        assert not score(given, "weights").any()
        assert np.isneginf(score(given, "biased")).all()
        assert not answers(given)["output"].compute.any()


def test_with_a_sink_an_empty_row_has_no_mean() -> None:
    given = masked(small(), np.zeros((ROWS, KEYS), np.bool_)).with_problem(empty_row="mean")
    values, _ = by_hand(given)
    np.testing.assert_allclose(output(given)[0], np.broadcast_to(values.mean(axis=1)[:, None], (4, 4, DIM)), rtol=1e-12)
    np.testing.assert_allclose(score(given, "weights"), 1.0 / KEYS, rtol=1e-12)
    assert np.isneginf(score(given, "biased")).all()
    assert not output(sunk(given, None, smooth=True)).any()


@given(shift=st.floats(-1000, 1000), rank=st.integers(1, 4))
def test_one_number_added_to_all_scores_changes_nothing(shift: float, rank: int) -> None:
    given = small()
    moved = masked(given, np.full((1,) * (rank - 1) + (KEYS,), shift))
    np.testing.assert_allclose(output(moved), output(given), rtol=1e-9, atol=1e-10)


def test_a_bias_is_added_after_softcap_and_before_softmax() -> None:
    given, bias = small(softcap=2.0), np.random.default_rng(0).standard_normal((HEADS, ROWS, KEYS)).astype(np.float32)
    values, scores = by_hand(given)
    biased = 2.0 * np.tanh(scores / 2.0) + bias
    for head, row in np.ndindex(HEADS, ROWS):
        weight = np.exp(biased[head, row, : 6 + row])
        expected = weight / weight.sum() @ values[head, : 6 + row]
        np.testing.assert_allclose(output(masked(given, bias))[0, head, row], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "shape", [(9,), (1, 9), (4, 1), (4, 9), (1, 4, 9), (4, 1, 9), (4, 4, 9), (1, 4, 4, 9), (1, 1, 1, 1)]
)
def test_masks_are_broadcast_from_the_right_as_numpy_does(shape: tuple[int, ...]) -> None:
    given = small()
    random = np.random.default_rng(1)
    bias = random.standard_normal(shape)
    shows = random.random(shape) > 0.3
    whole = (1, HEADS, ROWS, KEYS)
    for narrow, wide in ((bias, np.broadcast_to(bias, whole)), (shows, np.broadcast_to(shows, whole))):
        np.testing.assert_array_equal(output(masked(given, narrow)), output(masked(given, wide.copy())))


def test_a_boolean_mask_is_zero_and_minus_infinity_added() -> None:
    shows = np.random.default_rng(2).random((HEADS, ROWS, KEYS)) > 0.5
    given = small()
    added = masked(given, np.where(shows, 0.0, -np.inf))
    np.testing.assert_array_equal(output(masked(given, shows)), output(added))
    np.testing.assert_array_equal(score(masked(given, shows), "biased"), score(added, "biased"))


@pytest.mark.parametrize("slots", [0, 1, 5, 9])
def test_slots_behind_the_end_of_a_mask_are_hidden(slots: int) -> None:
    given = small()
    short = masked(given, np.ones(max(slots, 1), np.bool_))
    name = short.problem.masks[0].name
    short = replace(
        short.with_problem(masks=(Mask(name, "boolean", (slots,), slots),)),
        inputs={**short.inputs, name: np.ones(slots, np.bool_)},
    )
    np.testing.assert_array_equal(output(short), output(masked(given, np.arange(KEYS) < slots)))
    np.testing.assert_array_equal(
        output(short), output(masked(given, np.ones(1, np.bool_), slots=slots)) if slots else 0.0
    )


def test_hidden_keys_may_hold_anything() -> None:
    given = masked(small(), np.arange(KEYS) != 2)
    clean = output(given)
    spoilt = dict(given.inputs)
    for name in ("past_key", "past_value"):
        spoilt[name] = spoilt[name].copy()
        spoilt[name][:, :, 2] = np.nan
    np.testing.assert_array_equal(output(replace(given, inputs=spoilt)), clean)


def test_score_outputs_stage_by_stage() -> None:
    bias = np.random.default_rng(3).standard_normal((ROWS, KEYS)).astype(np.float32)
    bias[1, 4] = -np.inf
    given = masked(small(softcap=2.0), bias)
    values, scores = by_hand(given)
    capped = 2.0 * np.tanh(scores / 2.0)
    visible = np.arange(KEYS) < 6 + np.arange(ROWS)[:, None]
    biased = np.where(visible, capped + bias, -np.inf)
    weights = np.exp(biased) / np.exp(biased).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(score(given, "raw")[0], scores, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(score(given, "capped")[0], capped, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(score(given, "biased")[0], biased, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(score(given, "weights")[0], weights, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(output(given)[0], weights @ values, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("stage", STAGES)
def test_scores_are_stated_where_a_slot_holds_a_key_and_a_row_means_something(stage: Any) -> None:
    given = scored(small(q_len=(2, 4), past_len=(0, 0)), stage, slots=6)
    found = answers(given)["scores"]
    expected = np.zeros((2, 1, 4, 6), np.bool_)
    expected[0, :, :2, :2] = True
    expected[1, :, :4, :4] = True
    np.testing.assert_array_equal(found.stated, np.broadcast_to(expected, found.stated.shape))
    assert np.isnan(found.values[~found.stated]).all()
    assert not np.isnan(found.values[found.stated]).any()


def test_where_the_text_is_silent_on_hidden_keys_their_scores_are_not_stated() -> None:
    shows = np.random.default_rng(4).random((ROWS, KEYS)) > 0.3
    given = scored(masked(small(), shows), "biased")
    assert given.problem.scores is not None
    silent = given.with_problem(scores=replace(given.problem.scores, hidden_stated=False))
    found, full = answers(silent)["scores"], answers(given)["scores"]
    visible = shows & (np.arange(KEYS) < 6 + np.arange(ROWS)[:, None])
    np.testing.assert_array_equal(found.stated, np.broadcast_to(visible, found.stated.shape))
    np.testing.assert_array_equal(found.values[found.stated], full.values[found.stated])


def test_weights_of_fewer_slots_than_keys_still_share_with_the_rest() -> None:
    np.testing.assert_array_equal(
        answers(scored(small(), "weights", slots=3))["scores"].values, score(small(), "weights")[..., :3]
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_finite_bias_near_the_lowest_number_is_stated_as_minus_infinity(dtype: str) -> None:
    lowest = float(np.finfo(dtype).min)
    bias = np.zeros(KEYS)
    bias[1], bias[2] = lowest, -1000.0
    found = score(masked(small(dtype=dtype), bias), "biased")
    assert np.isneginf(found[..., 1]).all()
    assert np.isfinite(found[..., 2]).all()


@pytest.mark.parametrize("pack", [packed, packed_by_heads])
@pytest.mark.parametrize("rotary", [None, "half"])
def test_packed_roles_are_the_separate_ones(pack: Any, rotary: str | None) -> None:
    given = small(rotary=rotary)
    for name, each in answers(pack(given)).items():
        np.testing.assert_array_equal(each.values, answers(given)[name].values)


def test_a_forbidden_graph_has_no_answer() -> None:
    with pytest.raises(NoAnswer, match="nothing is stated of this graph's outputs: T exceeds the cache"):
        answer(small().with_problem(invalid="T exceeds the cache").problem, small().inputs)


@st.composite
def dressed(draw: st.DrawFn) -> Work:
    return draw(dressings(small(q_len=(9, 4, 7), past_len=(0, 0, 0), window=5, softcap=3.0, rotary="half")))


@given(drawn=dressed(), block=st.sampled_from((1, 50, 700)))
def test_how_the_work_is_cut_into_blocks_does_not_show(drawn: Work, block: int) -> None:
    whole = answers(drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attncheck.oracle.attention.BLOCK", block)
        for name, each in answers(drawn).items():
            np.testing.assert_allclose(each.values, whole[name].values, rtol=1e-9, atol=1e-11)
            # How far values spread is the root of a difference, sum p v^2 - o^2. Where one key has nearly all weight
            # its rounding is left, 1e-8 |v|, times how far scores move. It is this alone that shows: taken from v - o,
            # with rows x keys x dim numbers at once, the bounds agree to 7e-16 where they now do to 5e-7 (60 biases of
            # size 40).
            for field in ("compute", "storage"):
                np.testing.assert_allclose(getattr(each, field), getattr(whole[name], field), rtol=1e-6, atol=1e-8)


def attention(given: Work, opset: int, mode: int, causal: bool) -> tuple[bytes, dict[str, Any]]:
    """An ai.onnx Attention of `given`, whose masks are one: 4-D inputs of float64, and the scores at a mode."""
    (mask,) = given.problem.masks
    stored = given.inputs[mask.name]
    inputs: dict[str, Any] = {
        name: split_heads(given.inputs[role], "bsnh", heads).astype(np.float64)
        for name, role, heads in (("Q", "query", HEADS), ("K", "key", KV_HEADS), ("V", "value", KV_HEADS))
    }
    inputs["attn_mask"] = stored if mask.kind == "boolean" else stored.astype(np.float64)
    kinds = {"attn_mask": TensorProto.BOOL} if mask.kind == "boolean" else {}
    node = helper.make_node(
        "Attention", list(inputs), ["Y", "", "", "scores"], is_causal=int(causal), qk_matmul_output_mode=mode,
        softcap=given.problem.softcap, scale=given.problem.scale,
    )  # fmt: skip
    values = [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.DOUBLE), None) for name in inputs]
    outs = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in ("Y", "scores")]
    graph = helper.make_graph([node], "graph", values, outs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return bytes(model.SerializeToString()), inputs


@st.composite
def masked_attention(draw: st.DrawFn) -> tuple[Work, bool]:
    """Six queries and keys of two entries under a mask of any broadcast, causal or not.

    A mask that is broadcast over the queries stays away from causality: the reference evaluator of onnx 1.23 takes the
    number of queries from the mask (`_apply_causal`), and hides from all of them what it should hide from the first.
    """
    causal, boolean = draw(st.booleans()), draw(st.booleans())
    given = small(q_len=(6,) * 2, past_len=(0, 0), softcap=draw(st.sampled_from((0.0, 2.0))))
    if not causal:
        given = given.with_problem(visible=np.full((2, 6, 2), (0, 6), np.int32))
    rank = draw(st.integers(2, 4))
    shape = [draw(st.sampled_from((1, size))) for size in (2, HEADS)[4 - rank :]]
    shape += [6 if causal else draw(st.sampled_from((1, 6))), 6]
    random = np.random.default_rng(draw(st.integers(0, 99)))
    hidden = random.random(shape) < draw(st.sampled_from((0.0, 0.3, 0.9)))
    return masked(given, ~hidden if boolean else np.where(hidden, -np.inf, random.standard_normal(shape))), causal


@given(drawn=masked_attention(), opset=st.sampled_from((23, 24, 25)), mode=st.integers(0, 3))
def test_it_is_the_onnx_reference_evaluators_in_float64(drawn: tuple[Work, bool], opset: int, mode: int) -> None:
    given_work, causal = drawn
    # Mode 0 is the raw product by the text; the reference evaluator of onnx 1.23 gives it capped.
    stage = "capped" if mode == 0 else STAGES[mode]
    given_work = scored(given_work, stage)
    model, inputs = attention(given_work, opset, mode, causal)
    expected, scores = (np.asarray(each, np.float64) for each in ReferenceEvaluator(model).run(None, inputs))
    np.testing.assert_allclose(output(given_work), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(answers(given_work)["scores"].values, scores, rtol=1e-9, atol=1e-10)
