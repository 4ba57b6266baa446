"""What scenarios say of scale, precision, dtypes, dimensions and positions, in the graph and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from attncheck.compare import judge
from attncheck.graph import read, write
from attncheck.graph.case import Case
from attncheck.oracle.answer import NoAnswer
from attncheck.oracle.attention import answer
from attncheck.problem import Problem
from attncheck.scenario import from_command_line
from attncheck.tensors.dtypes import widen


def case(text: str) -> Case:
    return write.build(from_command_line(text))


def problem_of(it: Case) -> Problem:
    found = read.problem(it.model, it.inputs)
    assert isinstance(found, Problem)
    return found


def dims(it: Case) -> dict[str, list[int | str]]:
    graph = onnx.load_model_from_string(it.model).graph
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output)
    }


@pytest.mark.parametrize("op", ["gqa", "mha", "attention"])
def test_symbolic_dimensions_leave_heads_and_widths_and_the_problem_as_they_are(op: str) -> None:
    text = f"op={op} q_len=2+2 past_len=7+7 heads=4 kv_heads=2 bias={'SxT' if op == 'attention' else '1x1xSxT'}"
    static, symbolic = case(text), case(f"{text} dims=symbolic")
    assert static.digest != symbolic.digest
    for name, sizes in dims(static).items():
        named = dims(symbolic)[name]
        assert [size for size in named if isinstance(size, int)] == [
            size for size, other in zip(sizes, named, strict=True) if isinstance(other, int)
        ]
        assert any(isinstance(size, str) for size in named)
    past = dims(symbolic)["past_key"]
    assert [isinstance(size, str) for size in past] == [True, False, True, False]
    assert np.array_equal(problem_of(static).visible, problem_of(symbolic).visible)


def test_no_two_lengths_have_one_name() -> None:
    named = [size for sizes in dims(case("q_len=3 past_len=3 dims=symbolic")).values() for size in sizes]
    lengths = [size for size in named if isinstance(size, str) and size != "batch"]
    assert len(lengths) == len(set(lengths))


@pytest.mark.parametrize("op", ["gqa", "mha"])
def test_a_scale_of_0_is_the_default_of_the_operators_of_microsoft(op: str) -> None:
    assert problem_of(case(f"op={op} scale=0 head_dim=16")).scale == 0.25
    assert problem_of(case(f"op={op} scale=-0.5 head_dim=16")).scale == -0.5


def test_a_scale_of_0_is_a_scale_of_0_in_attention_and_gives_the_mean() -> None:
    it = case("op=attention scale=0 q_len=3 kv_heads=4 causal=false")
    problem = problem_of(it)
    (output, *_) = answer(problem, it.inputs)
    value = it.inputs["V"].astype(np.float64).reshape(1, 3, -1)
    np.testing.assert_allclose(output.values, np.broadcast_to(value.mean(axis=1, keepdims=True), (1, 3, 64)))


@pytest.mark.parametrize("op", ["gqa", "mha", "attention"])
def test_bfloat16_is_declared_and_its_arrays_are_bits(op: str) -> None:
    it = case(f"op={op} dtype=bfloat16 q_len=2 past_len=3")
    values = {value.name: value for value in onnx.load_model_from_string(it.model).graph.input}
    floats = [name for name, array in it.inputs.items() if array.dtype == np.uint16]
    assert len(floats) == 5
    assert {values[name].type.tensor_type.elem_type for name in floats} == {TensorProto.BFLOAT16}
    problem = problem_of(it)
    assert problem.dtype == "bfloat16"
    assert all(each.stated.any() for each in answer(problem, it.inputs))


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "float32", "double"])
@pytest.mark.parametrize("scores", ["none", "weights"])
def test_a_softmax_in_another_precision_is_within_the_tolerance(precision: str, scores: str) -> None:
    """The evaluator of onnx computes the softmax in what is asked for."""
    it = case(f"op=attention softmax_precision={precision} scores={scores} q_len=9 past_len=20 present=asked")
    problem = problem_of(it)
    assert problem.softmax == (precision if precision in ("float16", "bfloat16") else "")
    names = [output.name for output in it.outputs]
    values = ReferenceEvaluator(onnx.load_model_from_string(it.model)).run(names, dict(it.inputs))
    outputs = dict(zip(names, values, strict=True))
    found = judge.differences(problem, answer(problem, it.inputs), outputs, "f32", "onnx-ref")
    assert all(each.passed for each in found)
    if problem.softmax:
        plain = replace(problem, softmax="")
        exact = judge.differences(plain, answer(plain, it.inputs), outputs, "f32", "onnx-ref")
        assert not all(each.passed for each in exact)


@pytest.mark.parametrize("positions", ["negative", "beyond"])
@pytest.mark.parametrize("q_len", [1, 3])
def test_positions_outside_of_the_caches_have_no_answer(positions: str, q_len: int) -> None:
    it = case(f"rotary=half positions={positions} q_len={q_len} past_len=4")
    with pytest.raises(NoAnswer, match="lies outside of the"):
        answer(problem_of(it), it.inputs)


@pytest.mark.parametrize("q_len", [1, 3])
def test_one_row_of_position_ids_is_for_one_entry_only(q_len: int) -> None:
    several = case(f"rotary=half positions=one-row batch=2 q_len={q_len}")
    assert several.inputs["position_ids"].tolist() == [list(range(q_len))]
    assert problem_of(several).invalid == f"position_ids must be [2, {q_len}], not [1, {q_len}]"
    alone = case(f"rotary=half positions=shifted q_len={q_len} past_len=4")
    assert alone.inputs["position_ids"].tolist() == [list(range(7, 7 + q_len))]
    rotary = problem_of(alone).rotary
    assert rotary is not None
    assert rotary.positions.tolist() == alone.inputs["position_ids"].tolist()


def test_an_idle_entry_keeps_its_cache_and_states_no_row() -> None:
    it = case("query_seqlens=true q_len=0+2 past_len=3+5")
    output, key, _ = answer(problem_of(it), it.inputs)
    assert not output.stated[0].any()
    assert output.stated[1].all()
    np.testing.assert_array_equal(key.values[0, :, :3], widen(it.inputs["past_key"], "float32")[0, :, :3])
    assert not key.stated[0, :, 3:].any()
