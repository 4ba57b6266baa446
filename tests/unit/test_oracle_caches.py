"""The oracle on normalised queries and keys, and on buffers that hold the window's keys only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from attncheck.graph.eviction import resident
from attncheck.oracle.answer import Answer, NoAnswer
from attncheck.oracle.attention import answer
from attncheck.problem import split_heads
from tests.device import Work, work
from tests.drawing import scenario

HEADS, KV_HEADS, DIM = 4, 2, 16
EPSILONS = {"plain": (1e-6, 1e-6), "epsilon": (0.25, 0.25), "epsilons": (0.25, 0.5)}


def answers(given: Work) -> dict[str, Answer]:
    return {each.output: each for each in answer(given.problem, given.inputs)}


def by_hand(rows: NDArray[Any], gain: NDArray[Any], epsilon: float) -> NDArray[np.float64]:
    rows = rows.astype(np.float64)
    length = np.sqrt((rows**2).sum(axis=-1, keepdims=True) / rows.shape[-1] + epsilon)
    normed: NDArray[np.float64] = rows / length * gain.astype(np.float64)
    return normed


@pytest.mark.parametrize("kind", EPSILONS)
def test_present_holds_normalised_keys_and_the_past_as_it_was(kind: str) -> None:
    it = work(scenario(q_len=(3,), past_len=(5,), qk_norm=kind))
    keys = by_hand(split_heads(it.inputs["key"], "bsnh", KV_HEADS), it.inputs["k_norm_weight"], EPSILONS[kind][1])
    found = answers(it)["present_key"].values
    np.testing.assert_array_equal(found[:, :, :5], it.inputs["past_key"])
    np.testing.assert_allclose(found[:, :, 5:], keys, rtol=1e-12)


@pytest.mark.parametrize("kind", EPSILONS)
def test_attention_is_that_of_normalised_queries_and_keys(kind: str) -> None:
    it = work(scenario(q_len=(4,), qk_norm=kind))
    plain = dict(it.inputs)
    for name, heads, gain, epsilon in (
        ("query", HEADS, "q_norm_weight", EPSILONS[kind][0]),
        ("key", KV_HEADS, "k_norm_weight", EPSILONS[kind][1]),
    ):
        rows = by_hand(split_heads(it.inputs[name], "bsnh", heads), it.inputs[gain], epsilon)
        plain[name] = rows.transpose(0, 2, 1, 3).reshape(it.inputs[name].shape)
    (expected, *_) = answer(it.with_problem(norm=None).problem, plain)
    np.testing.assert_allclose(answers(it)["output"].values, expected.values, rtol=1e-11, atol=1e-13)


def test_keys_are_normalised_before_they_turn() -> None:
    """The norm of a turned pair is its norm before, so that gains alone tell the order."""
    it = work(scenario(q_len=(3,), past_len=(2,), qk_norm="plain", rotary="half", rotary_cache=5))
    keys = by_hand(split_heads(it.inputs["key"], "bsnh", KV_HEADS), it.inputs["k_norm_weight"], 1e-6)
    angle = (2 + np.arange(3))[:, None] * 10000.0 ** (-np.arange(8) / 8)
    first, second = keys[..., :8], keys[..., 8:]
    turned = [first * np.cos(angle) - second * np.sin(angle), second * np.cos(angle) + first * np.sin(angle)]
    found = answers(it)["present_key"].values[:, :, 2:]
    np.testing.assert_allclose(found, np.concatenate(turned, axis=-1), atol=2e-6)


@given(capacity=st.integers(1, 12), window=st.integers(1, 12), total=st.integers(0, 80))
def test_one_token_after_the_other_evicts_as_the_formula_says(capacity: int, window: int, total: int) -> None:
    """The text: the whole window stays, and a token that finds no room has capacity - window + 1 keys evicted."""
    if window > capacity:
        return
    held = 0
    for _ in range(total):
        if held == capacity:
            held -= capacity - window + 1
        held += 1
    assert resident(np.array([total]), capacity, window).tolist() == [held]


@pytest.mark.parametrize("lengths", [((3,), (20,)), ((5, 2), (9, 3)), ((9,), (0,)), ((1, 1, 1), (2, 5, 30))])
@pytest.mark.parametrize("capacity", [4, 6, 9])
@pytest.mark.parametrize("rotary", [None, "half"])
def test_a_cache_of_the_window_gives_what_the_whole_cache_gives(
    lengths: tuple[tuple[int, ...], tuple[int, ...]], capacity: int, rotary: str | None
) -> None:
    q_len, past_len = lengths
    axes: dict[str, Any] = {"q_len": q_len, "past_len": past_len, "window": 4, "rotary": rotary}
    axes |= {"query_seqlens": True, "past": "auto", "bias": "Bx1xSxT"}
    small = work(scenario(**axes, window_cache=True, capacity=capacity))
    room = max(past_len) + max(q_len)
    whole = work(scenario(**axes, capacity=room))
    columns = max(q + past for q, past in zip(q_len, past_len, strict=True))
    same = {**whole.inputs, "attention_bias": small.inputs["attention_bias"]}
    bias = whole.problem.masks[0]
    whole = whole.with_problem(masks=(small.problem.masks[0],), capacity=max(columns, bias.slots))
    expected = {each.output: each for each in answer(whole.problem, same)}
    found = answers(small)
    rows = found["output"].stated
    np.testing.assert_allclose(found["output"].values[rows], expected["output"].values[rows], rtol=1e-12, atol=1e-14)
    for name in ("present_key", "present_value"):
        for entry, total in enumerate(q + past for q, past in zip(q_len, past_len, strict=True)):
            count = int(resident(np.array([total]), capacity, 4)[0])
            kept = expected[name].values[entry, :, total - count : total]
            np.testing.assert_allclose(found[name].values[entry, :, :count], kept, rtol=1e-12)
            assert not found[name].stated[entry, :, count:].any()


def test_a_cache_smaller_than_its_window_is_forbidden() -> None:
    it = work(scenario(q_len=(1,), past_len=(9,), window=4, window_cache=True, capacity=3))
    with pytest.raises(NoAnswer, match="at least as long"):
        answer(it.problem, it.inputs)
