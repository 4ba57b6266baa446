"""Weights and bias of the input projection, packed heads and merged pasts: graphs, oracle, kernels, wrong kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attncheck.backends.callable import Callable
from attncheck.engine import run as engine
from attncheck.engine.events import CaseFinished
from attncheck.graph import read, write
from attncheck.oracle import attention
from attncheck.oracle.projection import projected
from attncheck.oracle.wrong.catalogue import CATALOGUE, relevant
from attncheck.oracle.wrong.kernel import compute
from attncheck.oracle.wrong.projections import PROJECTIONS
from attncheck.oracle.wrong.recipe import Recipe
from attncheck.problem import Arrays, Columns, Problem, Projection, Tensor
from attncheck.scenario.model import Scenario
from attncheck.vocabulary import Verdict
from tests.device import KERNELS, differences, failing, work
from tests.drawing import featured_scenarios, projected_scenarios, scenario
from tests.unit.test_callable import CALLABLES
from tests.unit.test_wrong import apart, built

Float = NDArray[np.float64]


def plainly(
    q: Float, k: Float, v: Float, *, past: tuple[Float, Float] | None = None, causal: bool, keep: Any = True
) -> Float:
    """softmax(q k' / sqrt(dim)) v of [batch, heads, rows, dim], written out once more: [batch, rows, width]."""
    before = 0 if past is None else past[0].shape[2]
    if past is not None:
        k, v = np.concatenate([past[0], k], axis=2), np.concatenate([past[1], v], axis=2)
    score = np.einsum("bnsd,bntd->bnst", q, k) / np.sqrt(q.shape[-1])
    later = np.arange(k.shape[2]) > before + np.arange(q.shape[2])[:, None]
    score = np.where((later & causal) | ~np.asarray(keep), -np.inf, score)
    weight = np.exp(score - score.max(axis=-1, keepdims=True))
    out = np.einsum("bnst,bntd->bsnd", weight / weight.sum(axis=-1, keepdims=True), v)
    return np.asarray(out.reshape(*out.shape[:2], -1))


def heads_of(rows: NDArray[Any], heads: int) -> NDArray[Any]:
    batch, count, width = rows.shape
    return rows.reshape(batch, count, heads, width // heads).transpose(0, 2, 1, 3)


def said(problem: Problem, inputs: Arrays) -> dict[str, Float]:
    return {each.output: each.values for each in attention.answer(problem, inputs)}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("past_len", [0, 4])
def test_merged_weights_are_columns_of_queries_then_keys_then_values(causal: bool, past_len: int) -> None:
    axes = {"q_len": (3, 3), "past_len": (past_len,) * 2, "input_dim": 7, "head_dim": 5, "kv_heads": 4}
    problem, inputs = built(scenario(op="ms-attention", causal=causal, qkv_bias=True, **axes))
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    rows = np.einsum("bsi,ij->bsj", wide["input"], wide["weights"]) + wide["bias"]
    q, k, v = (heads_of(part, 4) for part in np.split(rows, 3, axis=-1))
    past = (wide["past"][0], wide["past"][1]) if past_len else None
    found = said(problem, inputs)
    np.testing.assert_allclose(found["output"], plainly(q, k, v, past=past, causal=causal), rtol=0, atol=1e-12)
    if past is not None:
        present = np.stack([np.concatenate([old, new], axis=2) for old, new in zip(past, (k, v), strict=True)])
        np.testing.assert_allclose(found["present"], present, rtol=0, atol=1e-12)


def test_the_bias_of_multi_head_attention_is_added_to_new_rows_and_not_to_the_past() -> None:
    problem, inputs = built(scenario(op="mha", kv_heads=4, q_len=(3,), past_len=(4,), qkv_bias=True, v_head_dim=None))
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    new = zip(("query", "key", "value"), np.split(wide["bias"], 3), strict=True)
    q, k, v = (heads_of(wide[name] + bias, 4) for name, bias in new)
    expected = plainly(q, k, v, past=(wide["past_key"], wide["past_value"]), causal=True)
    found = said(problem, inputs)
    np.testing.assert_allclose(found["output"], expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found["present_key"][:, :, :4], wide["past_key"])
    np.testing.assert_allclose(found["present_value"][:, :, 4:], v, rtol=0, atol=1e-12)


def test_identity_weights_give_what_multi_head_attention_gives() -> None:
    merged, inputs = built(scenario(op="ms-attention", kv_heads=4, q_len=(5,)))
    inputs = {**inputs, "weights": np.tile(np.eye(64, dtype=np.float32), 3)}
    mha, _ = built(scenario(op="mha", kv_heads=4, q_len=(5,)))
    rows = dict.fromkeys(("query", "key", "value"), inputs["input"])
    np.testing.assert_array_equal(said(merged, inputs)["output"], said(mha, rows)["output"])


def test_the_bounds_of_a_projection_are_the_sums_of_magnitudes() -> None:
    problem, _ = built(scenario(op="ms-attention", kv_heads=1, heads=1, head_dim=2, q_len=(1,), input_dim=2))
    columns = Columns("bias", 6, 0, 2, 4)
    it = replace(problem, projection=Projection(Columns("weights", 6, 0, 2, 4), columns, 2))
    weights = np.array([[1, -2, 3, 4, -5, 6], [-1, 2, 0.5, 8, 1, 2]], np.float32)
    inputs = {"input": np.array([[[3, -2]]], np.float32), "weights": weights, "bias": np.arange(6, dtype=np.float32)}
    found = projected(it, "key", it.key, inputs, 1, 2)
    np.testing.assert_array_equal(found.values, [[[[3 * 3 - 2 * 0.5 + 2, 3 * 4 - 2 * 8 + 3]]]])
    np.testing.assert_array_equal(found.compute, [[[[3 * 3 + 2 * 0.5 + 8 + 10, 3 * 4 + 2 * 8 + 4 + 1]]]])
    np.testing.assert_array_equal(found.storage, np.abs(found.values))


@settings(max_examples=60, deadline=None)
@given(projected_scenarios(("float32", "float16")))
def test_bounds_hold_for_rows_projected_in_float32(drawn: Scenario) -> None:
    problem, inputs = built(drawn)
    weights = inputs["weights"].astype(np.float32)[:, : problem.heads * problem.head_dim]
    rows = heads_of(inputs["input"].astype(np.float32) @ weights, problem.heads)
    if drawn.qkv_bias:
        rows = rows + inputs["bias"].astype(np.float32)[: rows.shape[1] * rows.shape[3]].reshape(rows.shape[1], 1, -1)
    exact = projected(problem, "query", problem.query, inputs, problem.heads, problem.head_dim)
    assert (np.abs(rows - exact.values) <= 4 * 2.0**-24 * exact.compute + 1e-30).all()


@pytest.mark.parametrize("past_len", [0, 6])
@pytest.mark.parametrize("packed", ["qkv", "kv"])
@pytest.mark.parametrize("qkv_bias", [False, True])
def test_packed_heads_give_the_bits_of_separate_ones(packed: Any, past_len: int, qkv_bias: bool) -> None:
    apart_ = scenario(op="mha", q_len=(4, 4), past_len=(past_len,) * 2, qkv_bias=qkv_bias)
    together = replace(apart_, packed=packed)
    for name, values in said(*built(apart_)).items():
        np.testing.assert_array_equal(said(*built(together))[name], values)
    for kernel in KERNELS:
        one, other = (differences(work(it), kernel) for it in (apart_, together))
        assert not failing(one)
        assert not failing(other)


def test_a_packed_tensor_holds_the_three_roles_of_each_head() -> None:
    apart_, together = (write.build(scenario(op="mha", q_len=(3,), packed=packed)) for packed in ("none", "qkv"))
    assert together.inputs["query"].shape == (1, 3, 4, 3, 16)
    for part, name in enumerate(("query", "key", "value")):
        own = apart_.inputs[name].reshape(1, 3, 4, 16)
        np.testing.assert_array_equal(together.inputs["query"][:, :, :, part], own)


@pytest.mark.parametrize("qkv_bias", [False, True])
def test_kept_keys_in_four_axes_take_no_bias(qkv_bias: bool) -> None:
    drawn = scenario(op="mha", q_len=(3,), kv_len=(7,), causal=False, qkv_bias=qkv_bias)
    flat, kept = built(drawn), built(replace(drawn, layout="bnsh"))
    assert kept[1]["key"].shape == (1, 4, 7, 16)
    if qkv_bias:
        only_queries = replace(flat[0].projection.bias, key=None, value=None)  # type: ignore[union-attr,type-var]
        flat = replace(flat[0], projection=Projection(None, only_queries)), flat[1]
    np.testing.assert_array_equal(said(*kept)["output"], said(*flat)["output"])


def test_qk_holds_scaled_products_and_the_attention_bias() -> None:
    problem, inputs = built(
        scenario(op="mha", kv_heads=4, q_len=(3,), past_len=(2,), bias="BxNxSxT", scores="biased", scale=0.5)
    )
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    keys = np.concatenate([wide["past_key"], heads_of(wide["key"], 4)], axis=2)
    score = 0.5 * np.einsum("bnsd,bntd->bnst", heads_of(wide["query"], 4), keys) + wide["attention_bias"]
    (found,) = (each for each in attention.answer(problem, inputs) if each.output == "qk")
    seen = np.broadcast_to(np.arange(5) <= 2 + np.arange(3)[:, None], score.shape)
    np.testing.assert_array_equal(found.stated, seen)
    np.testing.assert_allclose(found.values[seen], score[seen], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("mask", "seen"),
    [
        ([2, 3], [[(0, 2)] * 3, [(0, 3)] * 3]),
        ([3, 2, 1, 0], [[(1, 3)] * 3, [(0, 2)] * 3]),
        ([2, 3, 0, 3, 6, 0, 3, 6], [[(0, 2)] * 3, [(0, 3)] * 3]),
        ([[0, 1, 1], [1, 1, 0]], [[(1, 3)] * 3, [(0, 2)] * 3]),
    ],
)
def test_every_published_mask_of_keys_becomes_intervals(mask: Any, seen: Any) -> None:
    case = write.build(scenario(op="ms-attention", q_len=(3, 3), causal=False, mask="BxT", holes="keys"))
    problem = read.problem(case.model, {**case.inputs, "mask_index": np.array(mask, np.int32)})
    assert problem.masks == ()
    assert [[tuple(pair) for pair in entry] for entry in problem.visible.tolist()] == seen


def test_a_mask_of_every_query_counts_in_three_axes_and_in_four() -> None:
    case = write.build(scenario(op="ms-attention", q_len=(3, 3), causal=False, mask="BxSxT", holes="keys"))
    three = case.inputs["mask_index"]
    wide = {name: array.astype(np.float64) for name, array in case.inputs.items()}
    q, k, v = (heads_of(part, 4) for part in np.split(wide["input"] @ wide["weights"], 3, axis=-1))
    expected = plainly(q, k, v, causal=False, keep=(three != 0)[:, None])
    for mask in (three, three[:, None]):
        inputs = {**case.inputs, "mask_index": mask}
        found = said(read.problem(case.model, inputs), inputs)
        np.testing.assert_allclose(found["output"], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [True, False])
def test_a_mask_over_all_tokens_counts_by_its_rows_behind_the_past_and_its_first_columns(causal: bool) -> None:
    axes = {"op": "ms-attention", "q_len": (3, 3), "past_len": (4, 4), "causal": causal, "holes": "keys"}
    square, plain = (built(scenario(mask=shape, **axes)) for shape in ("Bx1xMxM", "BxSxT"))
    assert square[1]["mask_index"].shape == (2, 1, 10, 10)
    np.testing.assert_array_equal(square[1]["mask_index"][:, 0, 4:7, :7], plain[1]["mask_index"])
    rest = np.ones((10, 10), bool)
    rest[4:7, :7] = False
    turned = square[1]["mask_index"].copy()
    turned[..., rest] = 1 - turned[..., rest]
    for mask in (square[1]["mask_index"], turned):
        inputs = {**square[1], "mask_index": mask}
        case = write.build(scenario(mask="Bx1xMxM", **axes))
        found, expected = said(read.problem(case.model, inputs), inputs), said(*plain)
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-12)


def test_past_and_present_are_one_tensor_each_and_stand_together() -> None:
    alone = write.build(scenario(op="ms-attention", q_len=(2,)))
    assert [output.name for output in alone.outputs] == ["output"]
    after = scenario(op="ms-attention", q_len=(2,), past_len=(3,))
    case, (problem, _) = write.build(after), built(after)
    assert case.inputs["past"].shape == (2, 1, 4, 3, 16)
    assert [output.shape for output in case.outputs] == [(1, 2, 64), (2, 1, 4, 5, 16)]
    assert problem.past_value == Tensor("past", "pbnsh", 8, 4)


@settings(max_examples=40, deadline=None)
@given(st.one_of(projected_scenarios(("float32", "float16")), featured_scenarios()))
def test_a_recipe_without_any_change_projects_as_the_oracle(drawn: Scenario) -> None:
    problem, inputs = built(drawn)
    outputs = compute(Recipe(problem, inputs))
    for each in attention.answer(problem, inputs):
        got, expected = outputs[each.output][each.stated], each.values[each.stated]
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(projected_scenarios())
def test_both_kernels_agree_with_the_oracle_on_what_is_projected(drawn: Scenario) -> None:
    for kernel in KERNELS:
        assert not failing(differences(work(drawn), kernel))


SHOWN: dict[str, dict[str, Any]] = {
    "projection-bias-ignored": {"op": "mha", "q_len": (3,), "qkv_bias": True},
    "projection-key-bias-for-value": {"op": "mha", "q_len": (3,), "qkv_bias": True},
    "projection-key-for-value": {"op": "ms-attention", "q_len": (3,)},
    "projection-by-heads": {"op": "ms-attention", "q_len": (3,)},
    "packed-in-blocks": {"op": "mha", "q_len": (3,), "packed": "kv"},
    "packed-key-for-value": {"op": "gqa", "q_len": (3,), "packed": "qkv"},
}


def test_every_wrong_projection_is_shown() -> None:
    assert SHOWN.keys() == {wrong.name for wrong in PROJECTIONS}


@pytest.mark.parametrize("name", SHOWN)
def test_a_wrong_projection_differs_where_it_is_relevant(name: str) -> None:
    problem, inputs = built(scenario(**SHOWN[name]))
    (wrong,) = (it for it in CATALOGUE if it.name == name)
    assert wrong in relevant(problem)
    assert apart(problem, inputs, wrong.outputs(problem, inputs)) > 1e-3


def test_keys_for_values_is_the_right_result_of_swapped_columns() -> None:
    problem, inputs = built(scenario(op="ms-attention", q_len=(3,), qkv_bias=True))
    (wrong,) = (it for it in CATALOGUE if it.name == "projection-key-for-value")
    order = np.r_[0:64, 128:192, 64:128]
    moved = {**inputs, "weights": inputs["weights"][:, order], "bias": inputs["bias"][order]}
    np.testing.assert_allclose(
        wrong.outputs(problem, inputs)["output"], said(problem, moved)["output"], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(
    "case",
    [
        scenario(op="ms-attention", kv_heads=4, q_len=(3,), past_len=(4,), qkv_bias=True),
        scenario(op="mha", kv_heads=4, q_len=(3,), past_len=(4,), qkv_bias=True, packed="qkv"),
    ],
    ids=lambda case: str(case.op),
)
def test_a_users_function_is_given_projected_rows_and_gives_one_present(case: Scenario) -> None:
    backend = Callable(CALLABLES / "right.py", "attention")
    events = engine.run([case], [backend], None, engine.Options(time_limit=20.0))
    (found,) = (result for event in events if isinstance(event, CaseFinished) for result in event.results)
    assert found.verdict is Verdict.PASS, found.message


@pytest.mark.parametrize(
    "case",
    [
        scenario(op="ms-attention", kv_heads=4, q_len=(3,), past_len=(4,), qkv_bias=True, dtype="bfloat16"),
        scenario(op="mha", kv_heads=4, q_len=(3,), past_len=(4,), qkv_bias=True, dtype="bfloat16"),
    ],
    ids=lambda case: str(case.op),
)
def test_what_is_projected_in_bfloat16_is_projected_by_value_and_not_by_its_bits(case: Scenario) -> None:
    backend = Callable(CALLABLES / "right.py", "attention_in_bfloat16")
    events = engine.run([case], [backend], None, engine.Options(time_limit=20.0))
    (found,) = (result for event in events if isinstance(event, CaseFinished) for result in event.results)
    assert found.verdict is Verdict.PASS, found.message


@pytest.mark.parametrize(("filled", "hides"), [(-10000.0, True), (-5.0, False)])
def test_a_mask_filter_value_that_hides_nothing_is_not_read_as_a_mask(filled: float, hides: bool) -> None:
    case = write.build(scenario(op="mha", q_len=(1, 3), causal=False))
    model = onnx.load_model_from_string(case.model)
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("mask_filter_value", filled))
    if hides:
        assert read.problem(model.SerializeToString(), case.inputs).visible[0, 0].tolist() == [0, 1]
        return
    with pytest.raises(read.Unreadable, match="it weakens keys and hides none"):
        read.problem(model.SerializeToString(), case.inputs)


def neox(rows: Float, first: int, dim: int) -> Float:
    """Leading halves of [batch, heads, rows, head_dim] turned by p / 10000 ** (2 i / dim), pair after pair."""
    turned = rows.copy()
    for row in range(rows.shape[2]):
        for pair in range(dim // 2):
            angle = (first + row) / 10000.0 ** (2 * pair / dim)
            x, y = rows[:, :, row, pair], rows[:, :, row, pair + dim // 2]
            turned[:, :, row, pair] = x * np.cos(angle) - y * np.sin(angle)
            turned[:, :, row, pair + dim // 2] = y * np.cos(angle) + x * np.sin(angle)
    return turned


@pytest.mark.parametrize(("head_dim", "dim"), [(32, 32), (40, 32), (64, 64)])
@pytest.mark.parametrize("past_len", [0, 4])
def test_do_rotary_turns_halves_by_angles_of_positions_after_the_past(head_dim: int, dim: int, past_len: int) -> None:
    axes: dict[str, Any] = {"q_len": (3, 3), "past_len": (past_len,) * 2, "input_dim": 7, "head_dim": head_dim}
    drawn = scenario(op="ms-attention", heads=2, kv_heads=2, rotary="half", rotary_dim=dim, rotary_cache=9, **axes)
    said_attributes = {each.name: each.i for each in write.build(drawn).node.attribute}
    assert said_attributes["do_rotary"] == 1
    assert said_attributes.get("rotary_embedding_dim", head_dim) == dim
    problem, inputs = built(drawn)
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    q, k, v = (heads_of(part, 2) for part in np.split(wide["input"] @ wide["weights"], 3, axis=-1))
    q, k = neox(q, past_len, dim), neox(k, past_len, dim)
    past = (wide["past"][0], wide["past"][1]) if past_len else None
    found = said(problem, inputs)
    np.testing.assert_allclose(found["output"], plainly(q, k, v, past=past, causal=True), rtol=0, atol=1e-12)
    if past is not None:
        np.testing.assert_allclose(found["present"][0, :, :, past_len:], k, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("past_len", [(0,), (500,), (2, 7)])
def test_the_kernels_compute_the_angles_that_no_cache_holds(kernel: Any, past_len: tuple[int, ...]) -> None:
    axes: dict[str, Any] = {"heads": 2, "kv_heads": 1, "head_dim": 40, "rotary": "half", "rotary_dim": 32}
    q_len = (3,) * len(past_len)
    drawn = scenario(op="ms-attention", q_len=q_len, past_len=past_len, rotary_cache=520, **axes)
    assert failing(differences(work(drawn), kernel)) == []


def test_dims_that_rotary_embedding_dim_does_not_allow_are_forbidden() -> None:
    drawn = scenario(op="ms-attention", head_dim=48, rotary="half", rotary_dim=48, rotary_cache=9)
    case = write.build(drawn)
    problem = read.problem(case.model, case.inputs)
    assert problem.invalid == "rotary_embedding_dim is 48: it is limited to 32, 64, 128"
