"""ai.onnx Attention: the intervals that its published text states, and the official node tests of the onnx package."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from numpy.typing import NDArray
from onnx import TensorProto, helper

from attncheck.graph import read, write
from attncheck.graph.case import Case
from attncheck.graph.vectors import vectors as official
from attncheck.oracle import attention
from attncheck.problem import Arrays, Mask, Problem, Scores
from attncheck.scenario.model import Scenario
from attncheck.tensors import dtypes
from tests.drawing import attention_scenarios, scenario


def vectors() -> dict[str, Case]:
    """The node tests of Attention that the installed onnx package generates."""
    return {case.id: case for case in official() if "::attention" in case.id}


ROUNDING = {"float32": 1e-5, "float16": 3e-3, "bfloat16": 3e-2}
"""The vectors are computed in the dtype itself, stage by stage."""


@pytest.mark.slow
def test_the_official_vectors_are_read_and_the_oracle_gives_their_outputs() -> None:
    wrong = {name: said for name, vector in vectors().items() if (said := differs(vector))}
    assert wrong == {}
    assert len(vectors()) >= 93


def differs(vector: Case) -> str:
    """How the oracle departs from a vector, or nothing."""
    problem = read.problem(vector.model, vector.inputs)
    answers = {answer.output: answer for answer in attention.answer(problem, vector.inputs)}
    if answers.keys() != vector.published.keys():
        return f"outputs {list(answers)}"
    for name, stored in vector.published.items():
        expected = dtypes.widen(stored, problem.dtype)
        if answers[name].values.shape != expected.shape or not answers[name].stated.all():
            return f"{name} has another shape, or is not stated"
        # -inf and the dtype's lowest number both hide a key
        expected = np.where(expected <= -dtypes.dtype(problem.dtype).largest / 2, -np.inf, expected)
        if not np.allclose(answers[name].values, expected, rtol=0, atol=ROUNDING[problem.dtype]):
            return f"{name} differs"
    return ""


def problem_of(drawn: Scenario) -> Problem:
    case = write.build(drawn)
    return read.problem(case.model, case.inputs)


def rows(drawn: Scenario, member: int = 0) -> list[tuple[int, int]]:
    return [(int(lo), int(hi)) for lo, hi in problem_of(drawn).visible[member]]


def attends(**axes: object) -> Scenario:
    return scenario(op="attention", opset=25, **axes)


def test_causality_without_a_past_is_aligned_to_the_first_key_however_many_there_are() -> None:
    assert rows(attends(q_len=(3,), kv_len=(5,))) == [(0, 1), (0, 2), (0, 3)]
    assert rows(attends(q_len=(1,), kv_len=(5,))) == [(0, 1)]


def test_causality_after_a_past_is_shifted_by_it() -> None:
    assert rows(attends(q_len=(2,), past_len=(3,))) == [(0, 4), (0, 5)]


def test_a_cache_of_the_caller_aligns_each_entry_to_its_own_last_key() -> None:
    """The two figures of the operator's text, S_q = 4 and S_k = 8, as two batch entries."""
    ragged = attends(q_len=(4, 4), kv_len=(4, 8), capacity=8)
    assert rows(ragged, 0) == [(0, 1), (0, 2), (0, 3), (0, 4)]
    assert rows(ragged, 1) == [(0, 5), (0, 6), (0, 7), (0, 8)]


def test_fewer_keys_than_queries_leave_the_first_rows_without_any() -> None:
    assert rows(attends(q_len=(3,), kv_len=(1,), capacity=4)) == [(0, 0), (0, 0), (0, 1)]
    assert rows(attends(q_len=(2,), kv_len=(0,), capacity=4)) == [(0, 0), (0, 0)]
    assert problem_of(attends(q_len=(2,), kv_len=(0,), capacity=4)).empty_row == "zero"


def test_windows_reach_to_both_sides_of_a_query_as_in_the_figure_of_the_text() -> None:
    """S_q = 4, S_k = 6, left_window_size = 2, right_window_size = 1, offset 0."""
    figure = attends(q_len=(4,), kv_len=(6,), causal=False, window=3, window_right=1)
    assert rows(figure) == [(0, 2), (0, 3), (0, 4), (1, 5)]


def test_causality_wins_over_a_right_window() -> None:
    assert rows(attends(q_len=(2,), kv_len=(4,), window_right=2)) == [(0, 1), (0, 2)]


@pytest.mark.parametrize("shape", ["BxNxSxT", "1xNx1xT", "NxSxT", "SxT", "1xT", "Sx1"])
def test_a_bias_keeps_its_shape_and_a_mask_says_that_it_is_one(shape: str) -> None:
    sizes = {"B": 2, "N": 4, "S": 3, "T": 5, "1": 1}
    expected = tuple(sizes[letter] for letter in shape.split("x"))
    common: dict[str, object] = {"q_len": (3, 3), "past_len": (2, 2)}
    assert problem_of(attends(bias=shape, **common)).masks == (Mask("attn_mask", "additive", expected, expected[-1]),)
    assert problem_of(attends(mask=shape, **common)).masks == (Mask("attn_mask", "boolean", expected, expected[-1]),)


@pytest.mark.parametrize(("stage", "mode"), [("raw", 0), ("capped", 1), ("biased", 2), ("weights", 3)])
def test_each_stage_of_the_scores_is_a_mode_of_the_operator(stage: str, mode: int) -> None:
    drawn = attends(q_len=(2,), past_len=(3,), scores=stage)
    (node,) = onnx.load_model_from_string(write.build(drawn).model).graph.node
    modes = {attribute.name: attribute.i for attribute in node.attribute}
    assert modes.get("qk_matmul_output_mode", 0) == mode
    assert problem_of(drawn).scores == Scores("qk_matmul_output", stage, 5)  # type: ignore[arg-type]


@given(attention_scenarios())
def test_every_drawn_attention_is_valid_onnx_and_reads_back(drawn: Scenario) -> None:
    case = write.build(drawn)
    problem = read.problem(case.model, case.inputs)
    assert problem.invalid == ""
    assert (problem.heads, problem.kv_heads) == (drawn.heads, drawn.kv_heads)
    assert (problem.head_dim, problem.v_head_dim) == (drawn.head_dim, drawn.v_head_dim)
    assert problem.kv_len == drawn.kv_len
    asked = [output.name for output in case.outputs]
    assert [answer.output for answer in attention.answer(problem, case.inputs)] == asked


@given(attention_scenarios())
def test_a_drawn_row_sees_what_the_text_counts(drawn: Scenario) -> None:
    problem = problem_of(drawn)
    for member, kv_len in enumerate(drawn.kv_len):
        cache = drawn.capacity is not None
        offset = kv_len - max(drawn.q_len) if cache else max(drawn.past_len)
        for row in range(max(drawn.q_len)):
            own = offset + row
            seen = [
                key
                for key in range(kv_len)
                if (not drawn.causal or key <= own)
                and (drawn.window is None or key > own - drawn.window)
                and (drawn.window_right is None or key <= own + drawn.window_right)
            ]
            lo, hi = problem.visible[member, row]
            assert list(range(lo, hi)) == seen


def bare(opset: int, mask: tuple[int, ...], kv_len: int | None, dtype: int = TensorProto.FLOAT) -> tuple[bytes, Arrays]:
    """A graph of 2 queries and 4 keys with a mask of any shape, which the writing half would not write."""
    arrays: dict[str, NDArray[np.generic]] = {
        "Q": np.zeros((1, 1, 2, 8), np.float32),
        "K": np.zeros((1, 1, 4, 8), np.float32),
        "V": np.zeros((1, 1, 4, 8), np.float32),
        "attn_mask": np.zeros(mask, np.float32),
    }
    names = list(arrays)
    if kv_len is not None:
        arrays["nonpad_kv_seqlen"] = np.array([kv_len])
        names += ["", "", "nonpad_kv_seqlen"]
    values = [helper.make_tensor_value_info(name, dtype, None) for name in arrays]
    node = helper.make_node("Attention", names, ["Y"])
    graph = helper.make_graph([node], "graph", values, [helper.make_tensor_value_info("Y", dtype, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return bytes(model.SerializeToString()), arrays


def test_a_mask_shorter_than_the_keys_hides_the_rest_from_opset_24_on() -> None:
    problem = read.problem(*bare(24, (2, 3), None))
    assert problem.invalid == ""
    assert problem.masks[0].slots == 3
    assert "shorter" in read.problem(*bare(23, (2, 3), None)).invalid


def test_a_mask_must_speak_for_every_key_that_counts() -> None:
    assert read.problem(*bare(24, (2, 3), 3)).invalid == ""
    assert "nonpad_kv_seqlen" in read.problem(*bare(24, (2, 3), 4)).invalid


def test_a_length_beyond_the_cache_is_forbidden() -> None:
    assert "exceeds the 4 rows of K" in read.problem(*bare(24, (2, 4), 5)).invalid


def test_a_softmax_precision_that_is_no_float_is_named() -> None:
    text, arrays = bare(24, (2, 4), None)
    model = onnx.load_model_from_string(text)
    model.graph.node[0].attribute.append(helper.make_attribute("softmax_precision", int(TensorProto.INT8)))
    with pytest.raises(read.Unreadable, match="softmax_precision 3 is not read"):
        read.problem(model.SerializeToString(), arrays)


def test_types_that_attncheck_lacks_are_named() -> None:
    with pytest.raises(read.Unreadable, match="in double is not read by attncheck: float32, float16, bfloat16 are"):
        read.problem(*bare(24, (2, 4), None, TensorProto.DOUBLE))


def test_a_last_axis_of_one_is_broadcast_by_opset_23_and_padded_from_24_on() -> None:
    """23: "broadcastable"; 24: "the last dimension can also be shorter", and is then padded with -inf."""
    assert [read.problem(*bare(opset, (2, 1), None)).masks[0].slots for opset in (23, 24, 25)] == [4, 1, 1]


def test_a_number_added_to_a_whole_row_changes_nothing() -> None:
    values = []
    for bias in ("Sx1", None):
        case = write.build(scenario(op="attention", q_len=(5,), past_len=(3,), opset=23, bias=bias))
        values.append(attention.answer(read.problem(case.model, case.inputs), case.inputs)[0].values)
    np.testing.assert_allclose(values[0], values[1], atol=1e-12)
