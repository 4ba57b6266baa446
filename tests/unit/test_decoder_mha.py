"""DecoderMaskedMultiHeadAttention: what its graphs say, the layout of its keys, and what is not read of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from attncheck.graph import read, write
from attncheck.graph.read import Unreadable
from attncheck.oracle import attention
from attncheck.oracle.wrong.beams import BEAMS
from attncheck.oracle.wrong.catalogue import CATALOGUE, relevant
from attncheck.problem import Arrays, Problem
from attncheck.scenario.model import Scenario
from tests.drawing import scenario
from tests.unit.test_projection import heads_of, plainly, said
from tests.unit.test_wrong import apart, built

(IN_WORDS,) = (wrong for wrong in CATALOGUE if wrong.name == "key-cache-in-words")


def decoder(**axes: Any) -> Any:
    return scenario(**{"op": "decoder-mha", "q_len": (1,) * len(axes.get("past_len", (0,))), **axes})


def wide(inputs: Arrays) -> dict[str, Any]:
    return {name: array.astype(np.float64) for name, array in inputs.items()}


def test_it_is_the_softmax_over_the_past_and_the_new_key_with_the_bias_of_the_projection() -> None:
    problem, inputs = built(decoder(past_len=(4, 4), capacity=7, qkv_bias=True, kv_heads=4))
    given = wide(inputs)
    biases = np.split(given["bias"], 3)
    q, k, v = (heads_of(given[name] + bias, 4) for name, bias in zip(("query", "key", "value"), biases, strict=True))
    past = (given["past_key"][:, :, :4], given["past_value"][:, :, :4])
    found = said(problem, inputs)
    np.testing.assert_allclose(found["output"], plainly(q, k, v, past=past, causal=False), rtol=0, atol=1e-12)
    present = np.concatenate([past[0], k], axis=2)
    np.testing.assert_allclose(found["present_key"][:, :, :5], present, rtol=0, atol=1e-12)
    assert np.isnan(found["present_key"][:, :, 5:]).all()


def test_cross_attention_has_all_its_keys_in_four_axes_and_adds_no_bias_to_them() -> None:
    drawn = decoder(past_len=(0, 0), kv_len=(3, 9), qkv_bias=True, kv_heads=4)
    problem, inputs = built(drawn)
    given = wide(inputs)
    assert given["key"].shape == (2, 4, 9, 16)
    assert [output.name for output in write.build(drawn).outputs] == ["output"]
    q = heads_of(given["query"] + given["bias"][:64], 4)
    keep = np.arange(9) < np.array([3, 9])[:, None, None, None]
    expected = plainly(q, given["key"], given["value"], causal=False, keep=keep)
    np.testing.assert_allclose(said(problem, inputs)["output"], expected, rtol=0, atol=1e-12)


def test_a_packed_query_holds_all_heads_of_queries_then_of_keys_then_of_values() -> None:
    (one, apart_), (two, together) = (built(decoder(past_len=(3,), packed=word)) for word in ("none", "qkv"))
    assert np.array_equal(together["query"], np.concatenate([apart_[name] for name in ("query", "key", "value")], -1))
    for name, values in said(one, apart_).items():
        assert np.array_equal(values, said(two, together)[name], equal_nan=True)


def test_a_ragged_past_is_padded_on_the_left_and_cross_keys_on_the_right() -> None:
    left, _ = built(decoder(past_len=(2, 5), capacity=8))
    assert left.visible[:, 0].tolist() == [[3, 6], [0, 6]]
    right, _ = built(decoder(past_len=(0, 0), kv_len=(2, 5)))
    assert right.visible[:, 0].tolist() == [[0, 2], [0, 5]]


def test_scores_are_those_that_go_into_the_softmax_and_say_nothing_of_hidden_keys() -> None:
    problem, inputs = built(decoder(past_len=(4,), capacity=6, kv_heads=4, scores="biased", bias="1xNxSxT"))
    given = wide(inputs)
    q, k = (heads_of(given[name], 4) for name in ("query", "key"))
    keys = np.concatenate([given["past_key"][:, :, :4], k], axis=2)
    expected = np.einsum("bnsd,bntd->bnst", q, keys) / 4.0 + given["attention_bias"]
    np.testing.assert_allclose(said(problem, inputs)["qk"], expected, rtol=0, atol=1e-12)
    masked, inputs = built(decoder(past_len=(2, 5), scores="biased"))
    (scores,) = (each for each in attention.answer(masked, inputs) if each.output == "qk")
    assert scores.stated[:, 0, 0].tolist() == [[False] * 3 + [True] * 3, [True] * 6]


def test_a_past_that_fills_the_buffer_is_forbidden() -> None:
    problem, _ = built(decoder(past_len=(4,), past="full"))
    assert "do not fit into the shared buffer of 4 slots" in problem.invalid


def reread(changes: dict[str, Any], drop: tuple[str, ...] = (), **axes: Any) -> Problem:
    """The Problem of a graph with other arrays, and attributes that are left out."""
    case = write.build(decoder(**axes))
    model = onnx.load_model_from_string(case.model)
    (node,) = model.graph.node
    names = ["query", "key", "value", "mask_index", "attention_bias", "past_key", "past_value", "past_sequence_length",
             "beam_width", "cache_indirection", "bias"]  # fmt: skip
    arrays = {**case.inputs, **changes}
    node.ClearField("input")
    node.input.extend(name if name in arrays else "" for name in names)
    kept = [attribute for attribute in node.attribute if attribute.name not in drop]
    node.ClearField("attribute")
    node.attribute.extend(kept)
    for name in changes.keys() - case.inputs.keys():
        kind = helper.np_dtype_to_tensor_dtype(arrays[name].dtype)
        model.graph.input.append(helper.make_tensor_value_info(name, kind, arrays[name].shape))
    return read.problem(model.SerializeToString(), arrays)


def test_two_query_rows_are_forbidden() -> None:
    rows = np.zeros((1, 2, 64), np.float32)
    assert "2 query rows" in reread({"query": rows, "key": rows, "value": rows}, past_len=(3,)).invalid


@pytest.mark.parametrize(
    ("changes", "drop", "words"),
    [
        ({"beam_width": np.array([2], np.int32)}, (), "a beam_width of 2 and no cache_indirection"),
        ({"cache_indirection": np.zeros((1, 2, 6), np.int32)}, (), r"shape \[1, 2, 6\] and a beam_width of 1"),
        ({"cache_indirection": np.zeros((1, 1, 2), np.int32)}, (), "with 3 slots of past or more"),
        ({"mask_index": np.array([3], np.int32)}, (), r"mask_index of shape \[1\]"),
        ({}, ("output_qk",), "without output_qk"),
        ({"key": np.zeros((1, 4, 1, 16), np.float32)}, (), "4 and 3 axes"),
    ],
)
def test_what_is_not_read_is_named(changes: dict[str, Any], drop: tuple[str, ...], words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        reread(changes, drop, past_len=(3,), capacity=6, scores="biased")


def beamed(**axes: Any) -> Scenario:
    plain: dict[str, Any] = {"q_len": (1,) * 4, "past_len": (5,) * 4, "capacity": 8, "beams": 2, "kv_heads": 4}
    return scenario(**(plain | axes))


@pytest.mark.parametrize("op", ["decoder-mha", "mha"])
def test_a_beam_reads_each_past_token_where_the_table_says_and_keeps_a_present_of_its_own(op: Any) -> None:
    problem, inputs = built(beamed(op=op))
    given, table = wide(inputs), inputs["cache_indirection"]
    assert table.shape == (2, 2, 8)
    assert set(table[:, :, :5].ravel().tolist()) == {0, 1}
    q, k, v = (heads_of(given[name], 4) for name in ("query", "key", "value"))
    found = said(problem, inputs)
    for entry in range(4):
        sources = [entry // 2 * 2 + int(table[entry // 2, entry % 2, slot]) for slot in range(5)]
        rows = {
            name: np.stack([given[name][source, :, slot] for slot, source in enumerate(sources)], axis=1)
            for name in ("past_key", "past_value")
        }
        keys = np.concatenate([rows["past_key"], k[entry]], axis=1)
        values = np.concatenate([rows["past_value"], v[entry]], axis=1)
        score = np.einsum("nsd,ntd->nst", q[entry], keys) / 4.0
        weight = np.exp(score) / np.exp(score).sum(axis=-1, keepdims=True)
        expected = np.einsum("nst,ntd->nsd", weight, values).reshape(-1)
        np.testing.assert_allclose(found["output"][entry, 0], expected, rtol=0, atol=1e-12)
    own = np.concatenate([given["past_key"][:, :, :5], k], axis=2)
    np.testing.assert_allclose(found["present_key"][:, :, :6], own, rtol=0, atol=1e-12)


def test_every_wrong_kernel_of_beams_differs_and_own_pasts_are_no_beams() -> None:
    problem, inputs = built(beamed(op="mha"))
    for wrong in BEAMS:
        assert wrong.relevant(problem), wrong.name
        assert apart(problem, inputs, wrong.outputs(problem, inputs)) > 1e-3, wrong.name
    case = write.build(beamed(op="mha"))
    table = np.broadcast_to(np.arange(2, dtype=np.int32)[:, None], (2, 2, 8))
    assert read.problem(case.model, {**case.inputs, "cache_indirection": table}).beams is None


def test_a_beam_that_there_is_not_is_forbidden() -> None:
    case = write.build(beamed(op="mha"))
    table = np.full((2, 2, 8), 2, np.int32)
    problem = read.problem(case.model, {**case.inputs, "cache_indirection": table})
    assert problem.invalid == "cache_indirection names beam 2, and there are 2"


def test_a_beam_width_of_one_is_no_beam() -> None:
    assert reread({"beam_width": np.array([1], np.int32)}, past_len=(3,), capacity=6).kv_len == (4,)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float16", 8)])
def test_keys_in_words_are_those_of_a_buffer_that_was_written_so(dtype: str, size: int) -> None:
    """A kernel that keeps its keys so is right about a buffer in that layout."""
    problem, inputs = built(decoder(past_len=(5,), capacity=7, dtype=dtype))
    assert IN_WORDS in relevant(problem)
    assert apart(problem, inputs, IN_WORDS.outputs(problem, inputs)) > 1e-3
    plain = inputs["past_key"]
    ordered = np.empty((1, 4, 16 // size, 7, size), plain.dtype)
    for slot in range(7):
        for dim in range(16):
            ordered[:, :, dim // size, slot, dim % size] = plain[:, :, slot, dim]
    given = IN_WORDS.outputs(problem, {**inputs, "past_key": ordered.reshape(plain.shape)})
    expected = said(problem, inputs)
    np.testing.assert_allclose(given["output"], expected["output"], rtol=0, atol=1e-12)
    present = given["present_key"].reshape(ordered.shape)
    for slot in range(6):
        for dim in range(16):
            got = present[:, :, dim // size, slot, dim % size]
            np.testing.assert_allclose(got, expected["present_key"][:, :, slot, dim], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "axes",
    [
        {"past_len": (5,)},
        {"past_len": (5,), "capacity": 9, "head_dim": 4},
        {"past_len": (5,), "capacity": 9, "head_dim": 10},
        {"past_len": (5,), "capacity": 9, "present": False},
    ],
)
def test_keys_in_words_say_nothing_without_a_buffer_of_several_words_a_key(axes: dict[str, Any]) -> None:
    problem, _ = built(decoder(**axes))
    assert IN_WORDS not in relevant(problem)
