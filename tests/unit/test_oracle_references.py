"""The oracle against two independent implementations: the ONNX reference evaluator, and ONNX Runtime's CPU kernels."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from attncheck.compare import judge
from attncheck.graph import read, write
from attncheck.oracle.attention import answer
from attncheck.problem import Problem, Tensor
from attncheck.scenario.model import DataKind, Packed, Scenario, Stage
from attncheck.tensors import data
from tests.drawing import features, scenarios

ATTENTION_OPSETS = (23, 24)


def attention_model(opset: int, past: bool, rank: int, attributes: dict[str, Any]) -> bytes:
    """One ai.onnx Attention node over doubles, shapes left open."""
    inputs = ["Q", "K", "V", "", "past_key", "past_value"] if past else ["Q", "K", "V"]
    outputs = ["Y", "present_key", "present_value"] if past else ["Y"]
    node = helper.make_node("Attention", inputs, outputs, **attributes)
    ranks = {name: rank if name in "QKVY" else 4 for name in [*inputs, *outputs] if name}

    def values(names: list[str]) -> list[Any]:
        return [helper.make_tensor_value_info(n, TensorProto.DOUBLE, [None] * ranks[n]) for n in names if n]

    graph = helper.make_graph([node], "attention", values(inputs), values(outputs))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return bytes(model.SerializeToString())


@st.composite
def attention_problems(draw: st.DrawFn) -> tuple[Problem, dict[str, NDArray[np.float64]], dict[str, Any], int]:
    """What ai.onnx Attention can say: one length for all, causal or not, GQA heads, past, softcap, two ranks."""
    batch, kv_heads, group = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rows, past = draw(st.integers(1, 9)), draw(st.integers(0, 12))
    dim, v_dim = draw(st.integers(1, 20)), draw(st.integers(1, 9))
    causal, rank = draw(st.booleans()), draw(st.sampled_from((3, 4)))
    new_rows = rows if past or causal else draw(st.integers(1, 15))
    kv_len = past + new_rows
    scale, softcap = draw(st.sampled_from((None, 0.25, 1.0))), draw(st.sampled_from((0.0, 2.0, 50.0)))
    end = past + np.arange(rows) + 1 if causal else np.full(rows, kv_len)
    visible = np.stack([np.zeros(rows), end], axis=-1)
    layout: Any = "bnsh" if rank == 4 else "bsnh"
    problem = Problem(
        op="ai.onnx.Attention", dtype="float32", batch=batch, rows=rows, new_rows=new_rows,
        heads=kv_heads * group, kv_heads=kv_heads, head_dim=dim, v_head_dim=v_dim,
        past_capacity=past, capacity=kv_len,
        q_len=(rows,) * batch, past_len=(past,) * batch, new_len=(new_rows,) * batch,
        visible=np.broadcast_to(visible, (batch, rows, 2)).astype(np.int32),
        scale=1 / math.sqrt(dim) if scale is None else scale, softcap=softcap, empty_row="zero", rotary=None,
        query=Tensor("Q", layout), key=Tensor("K", layout), value=Tensor("V", layout),
        past_key=Tensor("past_key", "bnsh") if past else None,
        past_value=Tensor("past_value", "bnsh") if past else None,
        output=Tensor("Y", layout),
        present_key=Tensor("present_key", "bnsh") if past else None,
        present_value=Tensor("present_value", "bnsh") if past else None,
    )  # fmt: skip
    kinds: tuple[DataKind, ...] = ("normal", "large-logits", "ties", "rising-scores")
    kind, seed = draw(st.sampled_from(kinds)), draw(st.integers(0, 9))

    def rows_of(tensor: str, heads: int, first: int, count: int, width: int, shape: int) -> NDArray[np.float64]:
        positions = np.broadcast_to(np.arange(first, first + count), (batch, count))
        values = data.generate(kind, seed, tensor, batch, heads, positions, width)
        return values if shape == 4 else values.transpose(0, 2, 1, 3).reshape(batch, count, heads * width)

    inputs = {
        "Q": rows_of("q", problem.heads, 0, rows, dim, rank),
        "K": rows_of("k", kv_heads, 0, new_rows, dim, rank),
        "V": rows_of("v", kv_heads, 0, new_rows, v_dim, rank),
    }
    if past:
        inputs["past_key"] = rows_of("k", kv_heads, -past, past, dim, 4)
        inputs["past_value"] = rows_of("v", kv_heads, -past, past, v_dim, 4)
    attributes: dict[str, Any] = {"is_causal": int(causal), "softcap": softcap}
    if scale is not None:
        attributes["scale"] = scale
    if rank == 3:
        attributes |= {"q_num_heads": problem.heads, "kv_num_heads": kv_heads}
    return problem, inputs, attributes, rank


@settings(max_examples=200)
@given(attention_problems(), st.sampled_from(ATTENTION_OPSETS))
def test_it_is_the_onnx_reference_evaluators_attention_in_float64(
    posed: tuple[Problem, dict[str, NDArray[np.float64]], dict[str, Any], int], opset: int
) -> None:
    problem, inputs, attributes, rank = posed
    model = attention_model(opset, problem.past_key is not None, rank, attributes)
    outputs = ReferenceEvaluator(model).run(None, inputs)
    answers = answer(problem, inputs)
    assert len(outputs) == len(answers)
    for reference, found in zip(outputs, answers, strict=True):
        assert found.stated.all()
        np.testing.assert_allclose(found.values, reference, rtol=1e-9, atol=1e-10)


def for_the_cpu(drawn: Scenario) -> Scenario:
    """The nearest case that ONNX Runtime's CPU GroupQueryAttention takes: it refuses some legal ones."""
    if drawn.op != "gqa":
        return drawn
    step = 16 if drawn.rotary else 8
    dim = -(-drawn.head_dim // step) * step
    drawn = replace(
        drawn,
        head_dim=dim,
        v_head_dim=dim,
        rotary_dim=-(-drawn.rotary_dim // 16) * 16,
    )
    if drawn.batch > 1 and max(drawn.q_len) > 1 and max(drawn.past_len) > 0:
        one = {axis: getattr(drawn, axis)[:1] for axis in ("q_len", "past_len", "kv_len")}
        drawn = replace(drawn, batch=1, **one)
    return drawn


@pytest.mark.parametrize("op", ["gqa", "mha"])
@settings(max_examples=250)
@given(drawn=st.data())
def test_it_is_what_onnx_runtime_computes_on_the_cpu(op: str, drawn: st.DataObject) -> None:
    assert_the_cpu_agrees(for_the_cpu(drawn.draw(scenarios(op=op, dtypes=("float32", "float16")))))


@st.composite
def featured_gqa(draw: st.DrawFn) -> Scenario:
    """A GroupQueryAttention with a bias, sinks, packed roles and a score output.

    A row that a bias masks empty is left out where no sink joins: ONNX Runtime's CPU gives NaN there, and the text says
    nothing.
    """
    drawn = draw(scenarios(op="gqa", dtypes=("float32", "float16")))
    sink = draw(st.sampled_from(("none", "sink", "smooth")))
    chosen = draw(features())
    if sink == "none" and chosen.get("holes") in ("first-row", "middle-row", "last-row", "entry"):
        chosen["holes"] = "none"
    stages: tuple[Stage | None, ...] = (None, "biased", "weights")
    scores = draw(st.sampled_from(stages))
    if chosen.get("holes", "none") != "none" and scores == "biased":
        scores = None  # with one query, nothing might be left to compare
    packed: Packed = draw(st.sampled_from(("none", "qkv")))
    return replace(drawn, sink=sink == "sink", smooth=sink == "smooth", packed=packed, scores=scores, **chosen)


@settings(max_examples=150)
@given(drawn=featured_gqa())
def test_it_is_what_onnx_runtime_computes_on_the_cpu_with_biases_sinks_and_scores(drawn: Scenario) -> None:
    assert_the_cpu_agrees(for_the_cpu(drawn))


def assert_the_cpu_agrees(scenario: Scenario) -> None:
    case = write.build(scenario)
    problem = read.problem(case.model, case.inputs)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(case.model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in case.outputs]
    outputs = dict(zip(names, session.run(names, dict(case.inputs)), strict=True))
    assert judge.malformed(case.outputs, outputs) is None
    found = judge.differences(problem, answer(problem, case.inputs), outputs, "f32", "ort-cpu")
    assert [each for each in found if not each.passed] == []
