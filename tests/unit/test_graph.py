"""Both halves of graph/: what is written is valid ONNX, and what is read back are the right intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from numpy.typing import NDArray
from onnx import TensorProto, helper

from attncheck.graph import read, write
from attncheck.graph.case import Case
from attncheck.oracle.attention import answer
from attncheck.problem import Mask, Problem, Scores, Tensor, role_heads, split_heads
from attncheck.scenario.model import Scenario
from tests.drawing import scenario, scenarios


def problem_of(drawn: Scenario) -> Problem:
    case = write.build(drawn)
    return read.problem(case.model, case.inputs)


def intervals(drawn: Scenario, member: int = 0) -> list[tuple[int, int]]:
    return [(int(lo), int(hi)) for lo, hi in problem_of(drawn).visible[member]]


@given(scenarios(dtypes=("float32", "float16")))
def test_every_written_model_is_valid_onnx_whose_inputs_are_the_arrays(drawn: Scenario) -> None:
    case = write.build(drawn)
    model = onnx.load_model_from_string(case.model)
    onnx.checker.check_model(model)
    declared = {
        value.name: (
            value.type.tensor_type.elem_type,
            tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim),
        )
        for value in model.graph.input
    }
    assert declared == {
        name: (helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in case.inputs.items()
    }
    assert [value.name for value in model.graph.output] == [output.name for output in case.outputs]


@given(scenarios())
def test_a_written_case_reads_back_as_the_scenario(drawn: Scenario) -> None:
    problem = problem_of(drawn)
    assert (problem.batch, problem.heads, problem.head_dim) == (drawn.batch, drawn.heads, drawn.head_dim)
    assert problem.scale == pytest.approx(drawn.scale or drawn.head_dim**-0.5, rel=1e-7)
    if drawn.op == "gqa":
        assert problem.kv_heads == drawn.kv_heads
        assert problem.q_len == drawn.q_len
        assert problem.past_len == drawn.past_len
        assert problem.kv_len == drawn.kv_len


@given(scenarios())
def test_every_query_row_that_means_something_sees_as_many_keys_as_the_scenario_says(drawn: Scenario) -> None:
    problem = problem_of(drawn)
    for member in range(drawn.batch):
        for row in range(drawn.q_len[member]):
            lo, hi = problem.visible[member, row]
            until_itself = drawn.past_len[member] + row + 1
            expected = until_itself if drawn.causal else drawn.kv_len[member]
            if drawn.window is not None:
                expected = min(expected, drawn.window)
            assert hi - lo == expected


@given(scenarios())
def test_no_visible_slot_holds_poison(drawn: Scenario) -> None:
    case = write.build(drawn)
    problem = read.problem(case.model, case.inputs)
    if problem.past_value is None:
        return
    past_value = case.inputs[problem.past_value.name]
    for member in range(problem.batch):
        for lo, hi in problem.visible[member]:
            seen = past_value[member, :, lo : min(hi, problem.past_len[member])]
            assert np.all(np.abs(seen) < 4)


@given(scenarios())
def test_the_same_scenario_gives_the_same_bytes_and_another_seed_others(drawn: Scenario) -> None:
    first, again, other = (write.build(it) for it in (drawn, drawn, replace(drawn, seed=drawn.seed + 1)))
    assert first.digest == again.digest
    # V is seeded in every kind of data.
    assert first.digest != other.digest


def test_causal_rows_with_a_past_see_the_past_and_themselves() -> None:
    assert intervals(scenario(q_len=(3,), past_len=(5,))) == [(0, 6), (0, 7), (0, 8)]


def test_a_window_counts_the_querys_own_key() -> None:
    assert intervals(scenario(q_len=(3,), past_len=(2,), window=1)) == [(2, 3), (3, 4), (4, 5)]
    assert intervals(scenario(q_len=(3,), past_len=(2,), window=4)) == [(0, 3), (0, 4), (1, 5)]


def test_right_padded_prompt_rows_see_nothing_in_gqa() -> None:
    ragged = scenario(q_len=(1, 3), past_len=(0, 0))
    assert intervals(ragged, 0) == [(0, 1), (0, 0), (0, 0)]
    assert intervals(ragged, 1) == [(0, 1), (0, 2), (0, 3)]


def test_a_ragged_past_is_right_padded_in_gqa_and_left_padded_in_mha() -> None:
    ragged = scenario(q_len=(1, 1), past_len=(2, 5))
    assert [intervals(ragged, member) for member in (0, 1)] == [[(0, 3)], [(0, 6)]]
    twin = replace(ragged, op="mha")
    assert [intervals(twin, member) for member in (0, 1)] == [[(3, 6)], [(0, 6)]]


def test_mha_without_causality_sees_the_keys_after_it() -> None:
    assert intervals(scenario(op="mha", q_len=(2,), past_len=(3,), causal=False)) == [(0, 5), (0, 5)]


def test_an_mha_twin_repeats_each_kv_head_for_its_whole_group() -> None:
    gqa = write.build(scenario())
    mha = write.build(scenario(op="mha"))
    kv = gqa.inputs["key"].reshape(1, 4, 2, 16)
    np.testing.assert_array_equal(mha.inputs["key"].reshape(1, 4, 4, 16), np.repeat(kv, 2, axis=2))
    np.testing.assert_array_equal(mha.inputs["query"], gqa.inputs["query"])


def test_padded_slots_and_rows_hold_nan_in_gqa() -> None:
    padded = write.build(scenario(q_len=(1, 1), past_len=(2, 5), capacity=9)).inputs["past_key"]
    assert np.isnan(padded).any(axis=(1, 3)).tolist() == [[False] * 2 + [True] * 7, [False] * 5 + [True] * 4]
    prompt = write.build(scenario(q_len=(1, 3), past_len=(0, 0))).inputs["query"]
    assert np.isnan(prompt).any(axis=2).tolist() == [[False, True, True], [False, False, False]]


def test_keys_that_every_query_has_left_behind_carry_a_glaring_value() -> None:
    values = write.build(scenario(q_len=(2,), past_len=(6,), window=3)).inputs["past_value"]
    assert (values == 1e4).all(axis=(0, 1, 3)).tolist() == [True] * 4 + [False] * 2


def test_cutting_the_past_keeps_the_nearest_keys() -> None:
    long = write.build(scenario(q_len=(1,), past_len=(9,))).inputs
    short = write.build(scenario(q_len=(1,), past_len=(4,))).inputs
    np.testing.assert_array_equal(long["past_key"][:, :, 5:], short["past_key"])
    np.testing.assert_array_equal(long["query"], short["query"])


def gqa_model(**attributes: Any) -> bytes:
    names = ["query", "key", "value", "", "", "seqlens_k", "total_sequence_length"]
    node = helper.make_node("GroupQueryAttention", names, ["output"], domain="com.microsoft", **attributes)
    return model_of(node)


def model_of(node: onnx.NodeProto) -> bytes:
    value = helper.make_tensor_value_info("query", TensorProto.FLOAT, None)
    return bytes(helper.make_model(helper.make_graph([node], "graph", [value], [value])).SerializeToString())


def test_what_the_reading_half_does_not_know_is_named() -> None:
    with pytest.raises(read.Unreadable, match=r"exactly one attention node.*ai\.onnx\.Relu"):
        read.problem(model_of(helper.make_node("Relu", ["query"], ["output"])), {})
    with pytest.raises(read.Unreadable, match=r"GroupQueryAttention with the attribute unheard_of"):
        read.problem(gqa_model(num_heads=2, kv_num_heads=1, unheard_of=1), {})


def masked(mask: NDArray[np.int32]) -> Problem:
    """Two entries of 1 query and 6 keys, 5 of them past, under a key mask."""
    case = write.build(scenario(op="mha", q_len=(1, 1), past_len=(2, 5)))
    return read.problem(case.model, {**case.inputs, "key_padding_mask": mask})


def test_a_key_mask_with_holes_is_a_mask_rather_than_a_length() -> None:
    problem = masked(np.array([[1, 0, 1, 1, 1, 1], [1] * 6], np.int32))
    assert problem.masks == (Mask("key_padding_mask", "integer", (2, 1, 1, 6), 6),)
    assert problem.visible.tolist() == [[[0, 6]], [[0, 6]]]


def test_a_key_mask_of_one_run_is_an_interval() -> None:
    problem = masked(np.array([[0, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0]], np.int32))
    assert problem.masks == ()
    assert problem.visible.tolist() == [[[1, 6]], [[2, 4]]]


@pytest.mark.parametrize("lengths", [[3, 6], [3, 6, 0, 1, 2, 0, 6, 12]])
def test_lengths_are_the_first_entries_of_a_key_mask_of_one_axis(lengths: list[int]) -> None:
    problem = masked(np.array(lengths, np.int32))
    assert problem.masks == ()
    assert problem.visible.tolist() == [[[0, 3]], [[0, 6]]]


def test_offsets_of_other_rows_than_the_padded_ones_are_named() -> None:
    with pytest.raises(read.Unreadable, match=r"its keys begin at \[0, 6, 12\], .* here at \[0, 3, 9\]"):
        masked(np.array([3, 6, 0, 1, 2, 0, 3, 9], np.int32))
    with pytest.raises(read.Unreadable, match=r"its queries begin at \[0, 1, 2\], .* here at \[0, 2, 4\]"):
        masked(np.array([3, 6, 0, 2, 4, 0, 6, 12], np.int32))


@pytest.mark.parametrize(
    ("form", "axes", "wanted"),
    [
        ("counts", {"q_len": (2, 3)}, [2, 3]),
        ("offsets", {"q_len": (2, 3)}, [2, 3, 0, 3, 6, 0, 3, 6]),
        ("offsets", {"q_len": (1, 1), "past_len": (4, 4)}, [5, 5, 0, 1, 2, 0, 5, 10]),
        ("keys", {"q_len": (2, 3)}, [[1, 1, 0], [1, 1, 1]]),
        ("keys", {"past_len": (0, 2)}, [[0, 0, 1], [1, 1, 1]]),
        ("ends-and-starts", {"past_len": (0, 2)}, [3, 3, 2, 0]),
        ("ends-and-starts", {"q_len": (2, 3)}, [2, 3, 0, 0]),
    ],
)
def test_every_form_of_a_key_mask_says_the_same_lengths(form: Any, axes: dict[str, Any], wanted: Any) -> None:
    op: Any = "ms-attention" if form == "ends-and-starts" else "mha"
    name = "mask_index" if op == "ms-attention" else "key_padding_mask"
    plain = {"q_len": (1, 1)} | axes
    case = write.build(scenario(op=op, key_lengths=form, **plain))
    assert case.inputs[name].tolist() == wanted
    said = read.problem(case.model, case.inputs)
    assert said.masks == ()
    assert said.visible.tolist() == problem_of(scenario(op=op, **plain)).visible.tolist()


@pytest.mark.parametrize(("mask", "holes", "hidden"), [("BxT", "entry", (0,)), ("BxSxT", "first-row", (0, 2))])
def test_a_query_of_multi_head_attention_may_be_left_without_a_key(mask: str, holes: Any, hidden: tuple[int]) -> None:
    case = write.build(scenario(op="mha", q_len=(2, 2), mask=mask, holes=holes, causal=False))
    problem = read.problem(case.model, case.inputs)
    output = answer(problem, case.inputs)[0].values.reshape(2 * 2, 4, 16)
    value = split_heads(case.inputs["value"], "bsnh", 4).astype(np.float64)
    for row in hidden:
        np.testing.assert_allclose(output[row], value[row // 2].mean(axis=1), atol=1e-12)


def test_a_key_mask_for_each_query_is_a_mask() -> None:
    assert masked(np.ones((2, 1, 6), np.int32)).masks == (Mask("key_padding_mask", "integer", (2, 1, 1, 6), 6),)


def test_a_key_mask_of_no_published_shape_is_named_with_those_that_are() -> None:
    with pytest.raises(read.Unreadable, match=r"shape \[2, 5\] .* \[2\], \[8\], \[2, 6\] and \[2, \d, 6\] are"):
        masked(np.ones((2, 5), np.int32))


def with_output(case: Case, name: str) -> bytes:
    """The case's model, asked for a fourth output."""
    model = onnx.load_model_from_string(case.model)
    model.graph.node[0].output.append(name)
    return bytes(model.SerializeToString())


def test_score_outputs_that_no_text_explains_are_named() -> None:
    gqa = write.build(scenario())
    with pytest.raises(read.Unreadable, match="asked for output_qk, but qk_output is 0"):
        read.problem(with_output(gqa, "output_qk"), gqa.inputs)


def test_queries_and_keys_of_no_published_form_are_named_by_their_shapes() -> None:
    case = write.build(scenario(op="mha"))
    packed = np.zeros((1, 4, 4, 3, 16), np.float32)
    with pytest.raises(read.Unreadable, match=r"shapes \[1, 4, 4, 3, 16\], .* three of 3 axes are"):
        read.problem(case.model, {**case.inputs, "query": packed})


def test_a_packed_query_holds_the_heads_of_query_then_key_then_value() -> None:
    drawn = scenario(q_len=(2,), past_len=(3,), packed="qkv")
    case, apart = write.build(drawn), write.build(replace(drawn, packed="none"))
    problem = read.problem(case.model, case.inputs)
    assert (problem.query, problem.key, problem.value) == (
        Tensor("query", "bsnh", 8, 0), Tensor("query", "bsnh", 8, 4), Tensor("query", "bsnh", 8, 6)
    )  # fmt: skip
    for role, name, heads in ((problem.query, "query", 4), (problem.key, "key", 2), (problem.value, "value", 2)):
        own = role_heads(apart.inputs[name], Tensor(name, "bsnh"), heads)
        np.testing.assert_array_equal(role_heads(case.inputs["query"], role, heads), own)


def test_outputs_that_are_not_asked_for_are_not_in_the_graph() -> None:
    for op in ("gqa", "mha", "attention"):
        case = write.build(scenario(op=op, past_len=(3,), present=False, opset=23))
        problem = read.problem(case.model, case.inputs)
        assert len(case.outputs) == 1
        assert (problem.present_key, problem.present_value) == (None, None)


@pytest.mark.parametrize("op", ["gqa", "mha", "attention"])
def test_an_empty_past_is_a_buffer_without_slots(op: str) -> None:
    case = write.build(scenario(op=op, past="empty", opset=23))
    assert case.inputs["past_key"].shape[2] == 0
    assert "past_key" not in write.build(scenario(op=op, opset=23)).inputs
    assert read.problem(case.model, case.inputs).past_len == (0,)


def test_new_tokens_may_differ_after_a_past_where_the_graph_is_told() -> None:
    drawn = scenario(q_len=(1, 3), past_len=(4, 2), query_seqlens=True)
    problem = problem_of(drawn)
    assert (problem.q_len, problem.past_len, problem.capacity) == ((1, 3), (4, 2), 7)
    assert intervals(drawn, 0) == [(0, 5), (0, 0), (0, 0)]
    assert intervals(drawn, 1) == [(0, 3), (0, 4), (0, 5)]


def test_gqa_without_causality_sees_the_keys_after_it() -> None:
    assert intervals(scenario(q_len=(2,), past_len=(3,), causal=False)) == [(0, 5), (0, 5)]
    assert intervals(scenario(q_len=(1, 3), past_len=(0, 0), causal=False)) == [(0, 1), (0, 0), (0, 0)]


def test_positions_are_counted_or_given() -> None:
    def positions(**axes: Any) -> list[list[int]]:
        rotary = problem_of(scenario(rotary="half", rotary_cache=32, **axes)).rotary
        assert rotary is not None
        return [[int(position) for position in row] for row in rotary.positions]

    lengths: dict[str, Any] = {"q_len": (2, 2), "past_len": (3, 5)}
    assert positions(**lengths) == positions(**lengths, positions="explicit") == [[3, 4], [5, 6]]
    assert positions(**lengths, positions="shifted") == [[6, 7], [8, 9]]


def test_the_first_prompt_uses_the_first_position_id_only() -> None:
    case = write.build(scenario(q_len=(3,), rotary="half", rotary_cache=32, positions="explicit"))
    problem = read.problem(case.model, {**case.inputs, "position_ids": np.array([[4, 9, 9]])})
    assert problem.rotary is not None
    assert problem.rotary.positions.tolist() == [[4, 5, 6]]


def test_a_rotary_without_caches_and_positions_behind_them_are_forbidden() -> None:
    assert problem_of(scenario(rotary="half", rotary_cache=0)).invalid == "do_rotary=1 needs cos_cache and sin_cache"
    short = problem_of(scenario(q_len=(4,), rotary="half", rotary_cache=3))
    assert short.invalid == "position 3 lies outside of the 3 rows of cos_cache"


def test_a_length_beyond_the_past_buffer_is_forbidden() -> None:
    case = write.build(scenario(q_len=(1,), past_len=(5,), capacity=8))
    longer = {"seqlens_k": np.array([12], np.int32), "total_sequence_length": np.array([13], np.int32)}
    problem = read.problem(case.model, {**case.inputs, **longer})
    assert problem.invalid == "seqlens_k speaks of 12 past tokens, and past_key has 8 rows"


def test_a_sink_and_smooth_softmax_and_score_outputs_are_read() -> None:
    problem = problem_of(scenario(sink=True, scores="weights"))
    assert (problem.sink, problem.smooth) == ("head_sink", False)
    assert problem.scores == Scores("output_qk", "weights", 4)
    assert problem_of(scenario(smooth=True)).smooth


def test_cutting_the_past_keeps_bias_and_holes_of_the_nearest_keys() -> None:
    drawn = scenario(q_len=(2,), past_len=(9,), bias="1xNxSxT", holes="keys")
    long = write.build(drawn).inputs["attention_bias"]
    short = write.build(replace(drawn, past_len=(4,), kv_len=(6,))).inputs["attention_bias"]
    np.testing.assert_array_equal(long[..., 5:], short)
    assert 0.1 < (long == -np.inf).mean() < 0.6


@pytest.mark.parametrize("shape", ["SxT", "1xNxSxT", "Bx1xSxT", "BxNxSxT"])
def test_holes_hide_no_querys_own_key_however_ragged_the_pasts(shape: str) -> None:
    pasts = (0, 3, 11)
    given = scenario(op="attention", batch=3, q_len=(4,) * 3, past_len=pasts, mask=shape, holes="keys", seed=5)
    mask = write.build(given).inputs["attn_mask"]
    shown = np.broadcast_to(mask.reshape((1,) * (4 - mask.ndim) + mask.shape), (3, given.heads, 4, mask.shape[-1]))
    assert not shown.all()
    for entry, past in enumerate(pasts):
        assert all(shown[entry, :, row, past + row].all() for row in range(4))


def test_holes_hide_the_rows_that_they_name_and_never_a_querys_own_key() -> None:
    def hidden(holes: str) -> NDArray[Any]:
        values = write.build(scenario(q_len=(5, 5), bias="BxNxSxT", holes=holes)).inputs["attention_bias"]
        return np.asarray(values == -np.inf)

    assert not hidden("keys")[:, :, np.arange(5), np.arange(5)].any()
    for holes, row in (("first-row", 0), ("middle-row", 2), ("last-row", 4)):
        assert hidden(holes).all(axis=(0, 1, 3)).tolist() == [at == row for at in range(5)]
    assert hidden("entry").all(axis=(1, 2, 3)).tolist() == [True, False]


def test_past_and_present_of_mha_share_a_buffer_of_the_capacity() -> None:
    drawn = scenario(op="mha", q_len=(2, 2), past_len=(3, 3), capacity=8)
    case, problem = write.build(drawn), problem_of(drawn)
    assert case.inputs["past_sequence_length"].tolist() == [3]
    assert case.inputs["past_key"].shape == (2, 4, 8, 16)
    assert np.isnan(case.inputs["past_value"][:, :, 3:]).all()
    assert [output.shape[2] for output in case.outputs[1:]] == [8, 8]
    assert (problem.past_len, problem.past_capacity, problem.capacity) == ((3, 3), 8, 8)
    assert intervals(drawn) == [(0, 4), (0, 5)]


@pytest.mark.parametrize(("past", "fits"), [(0, True), (6, True), (7, False), (-1, False)])
def test_new_rows_must_fit_behind_the_past_of_a_shared_buffer(past: int, fits: bool) -> None:
    case = write.build(scenario(op="mha", q_len=(2,), past_len=(3,), capacity=8))
    told = {**case.inputs, "past_sequence_length": np.array([past], np.int32)}
    assert (read.problem(case.model, told).invalid == "") is fits


def test_a_past_that_fills_a_shared_buffer_leaves_no_room() -> None:
    problem = problem_of(scenario(op="mha", past_len=(3,), q_len=(1,), past="full"))
    assert (problem.past_capacity, problem.capacity) == (3, 3)
    assert "3 and 1 new row(s) do not fit into the shared buffer of 3 slots" in problem.invalid
