"""The oracle against closed forms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from attncheck.graph import read, write
from attncheck.oracle.answer import Answer
from attncheck.oracle.attention import answer
from attncheck.problem import Arrays, Problem, Rotary, Tensor, split_heads
from tests.drawing import scenario

Float = NDArray[np.float64]


def posed(**axes: Any) -> tuple[Problem, dict[str, NDArray[np.generic]]]:
    case = write.build(scenario(**axes))
    return read.problem(case.model, case.inputs), dict(case.inputs)


def rows(found: Answer, problem: Problem) -> Float:
    """The output as [batch, heads, rows, dim]."""
    heads = problem.heads if found.output == problem.output.name else problem.kv_heads
    return split_heads(found.values, "bsnh" if found.values.ndim == 3 else "bnsh", heads).astype(np.float64)


def output(problem: Problem, inputs: Arrays) -> Float:
    return rows(answer(problem, inputs)[0], problem)


def keys_and_values(problem: Problem, inputs: Arrays) -> tuple[Float, Float]:
    """Present buffers as the oracle states them, repeated to the query heads."""
    _, key, value = answer(problem, inputs)
    return tuple(np.repeat(rows(each, problem), problem.group, axis=1) for each in (key, value))  # type: ignore[return-value]


@pytest.mark.parametrize("op", ["gqa", "mha"])
@pytest.mark.parametrize("window", [None, 1, 3])
def test_equal_scores_give_the_mean_of_the_visible_values(op: str, window: int | None) -> None:
    axes: dict[str, Any] = {"op": op, "data": "constant", "q_len": (5, 5), "past_len": (4, 7)}
    if op == "gqa":
        axes["window"] = window
    problem, inputs = posed(**axes)
    _, values = keys_and_values(problem, inputs)
    found = output(problem, inputs)
    for b, i in np.ndindex(2, 5):
        low, high = problem.visible[b, i]
        np.testing.assert_allclose(found[b, :, i], values[b, :, low:high].mean(axis=1), rtol=1e-14, atol=1e-15)


def test_a_single_visible_key_gives_its_value_exactly() -> None:
    problem, inputs = posed(window=1, q_len=(6,), past_len=(3,), data="large-logits")
    _, values = keys_and_values(problem, inputs)
    assert np.array_equal(output(problem, inputs), values[:, :, 3:9])


@pytest.mark.parametrize("softcap", [0.0, 2.0])
def test_two_keys_weigh_as_the_logistic_function_says(softcap: float) -> None:
    problem, inputs = posed(q_len=(1,), past_len=(1,), scale=0.3, softcap=softcap)
    key, value = keys_and_values(problem, inputs)
    query = split_heads(inputs["query"], "bsnh", problem.heads).astype(np.float64)
    score = 0.3000000119 * np.einsum("bhqd,bhkd->bhqk", query, key)  # scale is a float32 attribute
    if softcap:
        score = softcap * np.tanh(score / softcap)
    first = 1 / (1 + np.exp(score[..., 1] - score[..., 0]))
    expected = first[..., None] * value[:, :, :1] + (1 - first[..., None]) * value[:, :, 1:]
    np.testing.assert_allclose(output(problem, inputs), expected, rtol=1e-8, atol=1e-9)


def test_scale_0_weighs_all_visible_keys_alike() -> None:
    problem, inputs = posed(q_len=(4,), past_len=(2,), data="large-logits")
    flat = output(replace(problem, scale=0.0), inputs)
    _, values = keys_and_values(problem, inputs)
    for i in range(4):
        np.testing.assert_allclose(flat[0, :, i], values[0, :, : i + 3].mean(axis=1), rtol=1e-13, atol=1e-14)


def test_a_huge_softcap_is_no_softcap_and_a_tiny_one_flattens_the_scores() -> None:
    problem, inputs = posed(q_len=(4,), past_len=(2,))
    bare = output(problem, inputs)
    np.testing.assert_allclose(output(replace(problem, softcap=1e9), inputs), bare, rtol=1e-9, atol=1e-12)
    flat = output(replace(problem, scale=0.0), inputs)
    np.testing.assert_allclose(output(replace(problem, softcap=1e-12), inputs), flat, rtol=1e-9, atol=1e-9)


def test_a_softcap_between_bends_the_scores_after_the_scale() -> None:
    """A saturated softcap leaves +cap and -cap: with scores of +-1e3 the weights are e^cap : e^-cap."""
    problem, inputs = posed(q_len=(1,), past_len=(1,), heads=1, kv_heads=1, head_dim=8, scale=1.0, softcap=0.7)
    inputs["query"] = np.full_like(inputs["query"], 10.0)
    inputs["past_key"] = np.full_like(inputs["past_key"], 12.0)
    inputs["key"] = np.full_like(inputs["key"], -12.0)
    weight = np.exp(1.4) / (1 + np.exp(1.4))
    expected = weight * inputs["past_value"][0, 0, 0] + (1 - weight) * inputs["value"][0, 0]
    cap = float(np.float32(0.7))
    assert problem.softcap == pytest.approx(cap)
    np.testing.assert_allclose(output(problem, inputs)[0, 0, 0], expected, rtol=1e-6)


def test_a_shared_shift_of_the_scores_changes_nothing() -> None:
    problem, inputs = posed(q_len=(3,), past_len=(4,), heads=1, kv_heads=1)
    bare = output(problem, inputs)
    query = inputs["query"].astype(np.float64).reshape(3, 16)
    for i in range(3):
        shift = query[i] / (query[i] @ query[i]) * 4000.0  # adds 1000 to every score of row i
        one = replace(problem, visible=np.where(np.arange(3)[None, :, None] == i, problem.visible, 0).astype(np.int32))
        moved = {**inputs, "key": inputs["key"] + shift, "past_key": inputs["past_key"] + shift}
        np.testing.assert_allclose(output(one, moved)[0, 0, i], bare[0, 0, i], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("empty_row", ["zero", "mean"])
def test_a_row_without_keys_gives_what_the_operator_says(empty_row: str) -> None:
    problem, inputs = posed(q_len=(3,), past_len=(4,))
    visible = problem.visible.copy()
    visible[0, 1] = 0
    found = output(replace(problem, visible=visible, empty_row=empty_row), inputs)  # type: ignore[arg-type]
    _, values = keys_and_values(problem, inputs)
    expected = np.zeros((4, 16)) if empty_row == "zero" else values[0, :, :7].mean(axis=1)
    np.testing.assert_allclose(found[0, :, 1], expected, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(found[0, :, [0, 2]], output(problem, inputs)[0, :, [0, 2]])


def test_rows_without_keys_alone_give_zeros_that_are_exact() -> None:
    problem, inputs = posed(q_len=(3,))
    (found, *_) = answer(replace(problem, visible=np.zeros_like(problem.visible)), inputs)
    assert (found.values == 0).all()
    assert (found.compute == 0).all()
    assert (found.storage == 0).all()
    assert found.stated.all()


def test_present_is_the_past_and_then_the_new_rows_and_states_nothing_beyond() -> None:
    problem, inputs = posed(q_len=(2, 2, 2), past_len=(1, 5, 3), capacity=9)
    _, key, value = answer(problem, inputs)
    for found, new, past in ((key, "key", "past_key"), (value, "value", "past_value")):
        new_rows = split_heads(inputs[new], "bsnh", 2)
        for b, past_len in enumerate((1, 5, 3)):
            whole = np.concatenate([inputs[past][b, :, :past_len], new_rows[b]], axis=1)
            assert np.array_equal(found.values[b, :, : past_len + 2], whole)
            assert found.stated[b, :, : past_len + 2].all()
            assert not found.stated[b, :, past_len + 2 :].any()
            assert np.isnan(found.values[b, :, past_len + 2 :]).all()
        assert not found.compute.any()
        assert not found.storage.any()


def test_padded_query_rows_state_nothing() -> None:
    problem, inputs = posed(q_len=(2, 4))
    (found, *_) = answer(problem, inputs)
    assert found.stated.any(axis=-1).tolist() == [[True, True, False, False], [True] * 4]
    assert np.isnan(found.values[0, 2:]).all()
    assert np.isfinite(found.values[found.stated]).all()


@pytest.mark.parametrize("rotary", [None, "half", "interleaved"])
def test_nan_in_unread_slots_never_leaks(rotary: str | None) -> None:
    problem, inputs = posed(q_len=(1, 3), past_len=(0, 0), capacity=8, rotary=rotary)
    assert np.isnan(inputs["query"]).any()
    for found in answer(problem, inputs):
        assert np.isfinite(found.values[found.stated]).all()
        assert np.isfinite(found.compute[found.stated]).all()
        assert np.isfinite(found.storage[found.stated]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_reaches_only_the_rows_that_see_it(bad: float) -> None:
    problem, inputs = posed(q_len=(5,), heads=2, kv_heads=2, window=2)
    clean = output(problem, inputs)
    value = inputs["value"].copy()
    value[0, 2, 7] = bad  # head 0, dim 7; rows 2 and 3 see key 2
    found = output(problem, inputs | {"value": value})
    hit = np.zeros_like(found, dtype=bool)
    hit[0, 0, 2:4, 7] = True
    np.testing.assert_array_equal(found[hit], np.full(2, bad))
    np.testing.assert_array_equal(found[~hit], clean[~hit])


def test_a_nan_key_makes_only_the_rows_that_see_it_nan() -> None:
    problem, inputs = posed(q_len=(5,), heads=2, kv_heads=2, window=2)
    key = inputs["key"].copy()
    key[0, 2, 7] = np.nan
    found = output(problem, inputs | {"key": key})
    whole_rows: NDArray[np.bool_] = np.all(np.isnan(found), axis=-1)
    assert whole_rows[0].tolist() == [[False, False, True, True, False], [False] * 5]


def turned(row: Float, position: int, dim: int, interleaved: bool) -> Float:
    """One row rotated pair by pair, as complex numbers."""
    result = row.copy()
    for i in range(dim // 2):
        first, second = (2 * i, 2 * i + 1) if interleaved else (i, i + dim // 2)
        z = complex(row[first], row[second]) * np.exp(1j * position * 10000.0 ** (-2 * i / dim))
        result[first], result[second] = z.real, z.imag
    return result


@pytest.mark.parametrize("style", ["half", "interleaved"])
@pytest.mark.parametrize("dim", [2, 6, 16])
def test_rotary_turns_new_queries_and_keys_by_their_position_and_leaves_the_past(style: str, dim: int) -> None:
    problem, inputs = posed(q_len=(3, 3), past_len=(2, 5), rotary=style, rotary_dim=dim, rotary_cache=9)
    found, key, _ = answer(problem, inputs)
    plain = replace(problem, rotary=None)
    new_keys = split_heads(inputs["key"], "bsnh", 2).astype(np.float64)
    queries = split_heads(inputs["query"], "bsnh", 4).astype(np.float64)
    for b, past_len in enumerate((2, 5)):
        assert np.array_equal(key.values[b, :, :past_len], inputs["past_key"][b, :, :past_len])
        assert not key.compute[b, :, :past_len].any()
        for h, i in np.ndindex(2, 3):
            new_keys[b, h, i] = turned(new_keys[b, h, i], past_len + i, dim, style == "interleaved")
        for h, i in np.ndindex(4, 3):
            queries[b, h, i] = turned(queries[b, h, i], past_len + i, dim, style == "interleaved")
        np.testing.assert_allclose(key.values[b, :, past_len : past_len + 3], new_keys[b], atol=2e-6)
    assert (key.compute[..., dim:] == 0).all()
    beforehand = {
        **inputs,
        "key": new_keys.transpose(0, 2, 1, 3).reshape(2, 3, -1),
        "query": queries.transpose(0, 2, 1, 3).reshape(2, 3, -1),
    }
    np.testing.assert_allclose(rows(found, problem), output(plain, beforehand), atol=5e-6)


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    problem, inputs = posed(q_len=(4,), rotary="half", rotary_cache=40)
    assert problem.rotary is not None
    later = replace(problem, rotary=replace(problem.rotary, positions=problem.rotary.positions + 30))
    np.testing.assert_allclose(output(later, inputs), output(problem, inputs), atol=2e-5)


@given(split=st.integers(1, 5), kind=st.sampled_from(("normal", "rising-scores", "ties", "huge-logit")))
def test_one_call_of_six_rows_equals_two_calls_whose_second_eats_the_first_ones_present(split: int, kind: str) -> None:
    axes: dict[str, Any] = {"window": 4, "softcap": 5.0, "rotary": "half", "rotary_cache": 9, "data": kind}
    whole_problem, whole_inputs = posed(q_len=(6,), past_len=(3,), **axes)
    whole = output(whole_problem, whole_inputs)

    first_problem, first_inputs = posed(q_len=(split,), past_len=(3,), **axes)
    first = answer(first_problem, first_inputs)
    problem, inputs = posed(q_len=(6 - split,), past_len=(3 + split,), **axes)
    inputs |= {name: whole_inputs[name][:, split:] for name in ("query", "key", "value")}
    inputs |= {"past_key": first[1].values, "past_value": first[2].values}
    parts = np.concatenate([rows(first[0], first_problem), output(problem, inputs)], axis=2)
    np.testing.assert_allclose(parts, whole, rtol=1e-11, atol=1e-12)


@given(seed=st.integers(0, 3), group=st.integers(1, 4))
def test_mha_over_repeated_heads_is_gqa(seed: int, group: int) -> None:
    axes: dict[str, Any] = {"seed": seed, "kv_heads": 2, "heads": 2 * group, "q_len": (3, 3), "past_len": (5, 5)}
    np.testing.assert_allclose(output(*posed(op="mha", **axes)), output(*posed(op="gqa", **axes)), atol=1e-12)


@pytest.mark.parametrize("block", [1, 50, 700, 10**6])
def test_how_the_work_is_cut_into_blocks_does_not_show(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, inputs = posed(q_len=(9, 4, 7), softcap=3.0, window=5, rotary="half")
    whole = answer(problem, inputs)
    monkeypatch.setattr("attncheck.oracle.attention.BLOCK", block)
    for one, other in zip(whole, answer(problem, inputs), strict=True):
        for name in ("values", "compute", "storage"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-10, atol=1e-11)


def test_v_head_dim_may_differ_from_head_dim() -> None:
    problem, inputs = posed(op="mha", q_len=(3,), heads=2, kv_heads=2, head_dim=8)
    inputs["value"] = inputs["value"][..., :10]
    wide = replace(problem, v_head_dim=5)
    found, _, value = answer(wide, inputs)
    assert found.values.shape == (1, 3, 10)
    assert value.values.shape == (1, 2, 3, 5)
    first = split_heads(inputs["value"], "bsnh", 2)[:, :, :1].astype(np.float64)
    np.testing.assert_allclose(rows(found, wide)[:, :, :1], first, rtol=1e-15)


def test_outputs_that_are_not_asked_for_are_not_answered() -> None:
    problem, inputs = posed()
    asked = [each.output for each in answer(replace(problem, present_key=None), inputs)]
    assert asked == ["output", "present_value"]


def test_a_problem_that_contradicts_itself_is_refused() -> None:
    problem, inputs = posed(q_len=(2,), past_len=(1,))
    beyond = problem.visible.copy()
    beyond[0, 1] = (0, 4)
    with pytest.raises(ValueError, match=r"sees slots that no buffer holds"):
        answer(replace(problem, visible=beyond), inputs)
    rotary = Rotary("half", 16, "cos_cache", "sin_cache", np.zeros((1, 1), np.int32))
    with pytest.raises(ValueError, match=r"rotary positions of the Problem must be \[batch, rows\]"):
        answer(replace(problem, rotary=rotary), inputs)


def test_a_buffer_may_be_laid_out_either_way() -> None:
    problem, inputs = posed(q_len=(2,), past_len=(3,))
    swapped = replace(
        problem, past_key=Tensor("past_key", "bsnh"), past_value=Tensor("past_value", "bsnh"),
    )  # fmt: skip
    moved = {**inputs, **{name: inputs[name].transpose(0, 2, 1, 3) for name in ("past_key", "past_value")}}
    assert np.array_equal(output(swapped, moved), output(problem, inputs))
