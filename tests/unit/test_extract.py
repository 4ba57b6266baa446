"""Nodes told in the scenario language, sizes and inputs that are made up, patterns of plain operators."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from onnx import helper, numpy_helper

from attncheck.extract import branches, capture, einsum, inputs, language, masks, pattern, source
from attncheck.graph import feeds, read, write
from attncheck.graph.case import Case
from attncheck.graph.external import UnusableModel
from attncheck.oracle.ask import answer
from attncheck.scenario import Scenario, from_command_line, load
from attncheck.scenario.axes import spell
from attncheck.scenario.select import BENCH
from attncheck.shipped import scenarios_dir
from tests import models
from tests.drawing import featured_scenarios

LIMIT = 2**31


UNREAD: frozenset[str] = frozenset()
"""Axes and operators that are not read off a node, which then becomes a model."""


def said(drawn: Scenario) -> tuple[onnx.ModelProto, onnx.ModelProto | None]:
    """The model of a scenario, and the model of the axes that are read off it, a causal triangle as a mask left out."""
    case = write.build(drawn)
    problem = read.any_problem(case.model, case.inputs)
    it = language.said(case, problem, LIMIT, symbolic=drawn.dims == "symbolic")
    assert bool(it.axes) != bool(it.reason)
    text = " ".join(f"{axis}={spell(value)}" for axis, value in it.axes.items())
    again = write.build(from_command_line(text)).model if it.axes else None
    case = masks.as_causal(case, problem) or case
    return onnx.load_model_from_string(case.model), onnx.load_model_from_string(again) if again else None


@pytest.mark.slow
def test_every_shipped_scenario_is_read_off_its_graph() -> None:
    """The same bytes: operator, attributes, opset, inputs and outputs, with nothing but the graph to go by."""
    for shipped in load([scenarios_dir()]):
        # Those to be timed are of the same axes, and of more gigabytes than the limit.
        if BENCH not in shipped.tags and not shipped.steps and UNREAD.isdisjoint((shipped.op, *dict(shipped.written))):
            model, again = said(shipped)
            assert again == model, f"{shipped.id}: read its axes in attncheck.extract.axes, or name them in UNREAD"


@given(featured_scenarios())
def test_what_the_language_says_of_a_node_is_always_that_node(drawn: Scenario) -> None:
    model, again = said(drawn)
    assert again is None or again.graph.node == model.graph.node


@pytest.mark.parametrize(
    ("written", "changed", "reason"),
    [
        ("q_len=3", {"mask_filter_value": -5.0}, "the scenario language cannot say mask_filter_value=-5.0"),
        ("q_len=3 kv_len=5 causal=false", {"unidirectional": 1}, "the scenario language refuses it: MultiHead"),
    ],
)
def test_what_the_language_cannot_say_of_a_node_is_named(
    written: str, changed: dict[str, float], reason: str
) -> None:
    case = write.build(from_command_line(f"op=mha {written}"))
    proto = onnx.load_model_from_string(case.model)
    proto.graph.node[0].attribute.extend(helper.make_attribute(name, value) for name, value in changed.items())
    case = replace(case, model=proto.SerializeToString())
    it = language.said(case, read.any_problem(case.model, case.inputs), LIMIT, symbolic=False)
    assert not it.axes
    assert it.reason.startswith(reason)


LOWEST = float(np.finfo(np.float32).min)
TRIANGLES = [
    *((f"op=attention q_len=4 causal=false {it}", hidden) for it, hidden in (
        ("mask=SxT", False), ("layout=bnsh mask=BxNxSxT", False), ("bias=1x1xSxT", -np.inf), ("bias=SxT", LOWEST),
        ("past_len=3 mask=SxT", False), ("past_len=3 bias=1x1xSxT", -np.inf),
    )),
    *((f"op={op} q_len=4 causal=false bias=1x1xSxT", hidden)
      for op in ("mha", "ms-attention") for hidden in (-np.inf, LOWEST)),
]  # fmt: skip


def masked(written: str, hidden: float | bool, keep: np.ndarray[Any, Any] | None = None) -> Case:
    """A case whose one mask hides by `hidden` what `keep` does not keep: the keys behind each query's own."""
    case = write.build(from_command_line(written))
    problem = read.problem(case.model, case.inputs)
    (mask,) = problem.masks
    rows, slots = mask.shape[-2:]
    kept = np.tri(rows, slots, slots - rows, dtype=bool) if keep is None else keep
    shown = True if isinstance(hidden, bool) else 0.0
    array = np.where(kept, shown, hidden).astype(case.inputs[mask.name].dtype)
    return replace(case, inputs={**case.inputs, mask.name: np.broadcast_to(array, mask.shape).copy()})


def told(case: Case) -> language.Said:
    return language.said(case, read.any_problem(case.model, case.inputs), LIMIT, symbolic=False)


@pytest.mark.parametrize(("written", "hidden"), TRIANGLES)
def test_a_causal_triangle_is_said_as_causal_and_the_oracle_agrees(written: str, hidden: float | bool) -> None:
    case = masked(written, hidden)
    it = told(case)
    assert it.axes["causal"] is True
    assert not {"mask", "bias"} & set(it.axes)
    assert "is a causal triangle, said as causal: true" in it.notes[0]
    other = masks.as_causal(case, read.any_problem(case.model, case.inputs))
    assert other is not None
    (mine, *_), (its, *_) = (answer(read.any_problem(one.model, one.inputs), one.inputs) for one in (case, other))
    np.testing.assert_allclose(mine.values, its.values, rtol=1e-12)


SHIFTED = np.tri(4, 4, 1, dtype=bool)
EMPTY_ROW = np.tri(4, 4, -1, dtype=bool)


@pytest.mark.parametrize("keep", [SHIFTED, EMPTY_ROW, np.eye(4, dtype=bool)], ids=["shifted", "empty-row", "own"])
def test_of_another_mask_it_is_noted_that_only_its_shape_is_kept(keep: np.ndarray[Any, Any]) -> None:
    it = told(masked("op=attention q_len=4 causal=false mask=SxT", False, keep))
    assert it.axes["mask"] == "SxT"
    assert "causal" not in it.axes or it.axes["causal"] is False
    assert it.notes == (
        "of attn_mask only the shape is kept, not which keys it hides or what it adds; --tensors keeps the values",
    )


def test_a_triangle_that_also_adds_to_scores_is_not_causal_alone() -> None:
    case = masked("op=attention q_len=4 causal=false bias=SxT", -np.inf)
    sloped = {**case.inputs, "attn_mask": case.inputs["attn_mask"].astype(np.float32) - np.arange(4, dtype=np.float32)}
    it = told(replace(case, inputs=sloped))
    assert (it.axes["bias"], it.axes["causal"]) == ("SxT", False)
    assert "of attn_mask only the shape is kept" in it.notes[0]


def test_of_a_mask_that_says_nothing_nothing_is_noted() -> None:
    everything = np.ones((4, 4), bool)
    assert told(masked("op=attention q_len=4 causal=false mask=SxT", False, everything)).notes == ()
    assert told(masked("op=attention q_len=4 causal=false bias=SxT", 0.0, everything)).notes == ()
    assert told(masked("op=gqa q_len=4 bias=1x1xSxT", -np.inf)).notes == ()


@pytest.mark.parametrize(
    ("written", "name", "reason"),
    [
        ("op=paged q_len=3 past_len=20 rotary=half", "block_table", "the scenario language cannot say where the past"),
        ("op=sparse q_len=40", "block_col_indices", "the scenario language cannot say this mask"),
        ("op=linear q_len=3 past_state=given", "", ""),
    ],
)
def test_pages_and_blocks_of_another_choice_are_no_scenario_and_the_reason_says_so(
    written: str, name: str, reason: str
) -> None:
    case = write.build(from_command_line(written))
    assert told(case).axes
    assert not told(case).notes
    if name:
        first = case.inputs[name].copy()
        flat = first.reshape(-1)
        flat[[0, 1]] = flat[[1, 0]] if name == "block_table" else (0, 1)  # the second block sees itself alone
        it = told(replace(case, inputs={**case.inputs, name: first}))
        assert not it.axes
        assert it.reason.startswith(reason)


def test_lengths_in_a_column_are_the_same_lengths() -> None:
    """seqlens_k [batch, 1], as a ReduceSum that keeps its axis gives them."""
    for batch in (1, 3):
        case = write.build(from_command_line(f"op=gqa q_len=1 past_len=5 batch={batch}"))
        name = case.node.input[5]
        case = replace(case, inputs={**case.inputs, name: case.inputs[name].reshape(batch, 1)})
        it = told(case)
        assert (it.axes["op"], it.axes.get("batch", 1), it.axes["past_len"]) == ("gqa", batch, 5)
        assert it.notes == (f"{name} is [{batch}, 1] in the model, and [{batch}] in the scenario",)


def entrance(*values: onnx.ValueInfoProto) -> inputs.Entrance:
    return inputs.Entrance(Path("m.onnx"), values)


def test_symbolic_dimensions_get_the_sizes_that_their_names_mean() -> None:
    it = entrance(
        models.value("input_ids", ["batch_size", "sequence_length"], models.INT64),
        models.value("attention_mask", ["batch_size", "past_sequence_length + sequence_length"], models.INT64),
        models.value("past", ["batch_size", 2, "past_sequence_length", 8]),
        models.value("lengths", ["total_sequence_length"], models.INT64),
    )
    found = inputs.sizes(it, {"past_sequence_length": 5})
    assert found["past_sequence_length + sequence_length"] == 5 + found["sequence_length"]
    assert found["batch_size"] == inputs.BATCH
    assert found["total_sequence_length"] == 5 + found["sequence_length"]
    with pytest.raises(UnusableModel, match="the symbolic dimensions n, m: say it with --dim n=N --dim m=N"):
        inputs.sizes(entrance(models.value("x", ["n", "m"])), {})


@pytest.mark.parametrize(("total", "fits"), [(16, True), (12, False), (8, True), (7, False), (3, False)])
def test_a_total_that_is_said_is_past_and_new_or_inside_of_a_past_with_room(total: int, fits: bool) -> None:
    it = entrance(models.value("x", ["sequence_length", "past_sequence_length", "total_sequence_length"]))
    said = {"total_sequence_length": total}
    if fits:
        assert inputs.sizes(it, said) == {"sequence_length": 8, "past_sequence_length": 8, **said}
    else:
        with pytest.raises(UnusableModel, match="=8 it must be 16, or 8 where the past has room"):
            inputs.sizes(it, said)


def test_inputs_mean_what_their_names_say() -> None:
    names = {"input_ids": [2, 3], "attention_mask": [2, 8], "position_ids": [2, 3], "token_type_ids": [2, 3]}
    values = [models.value(name, shape, models.INT64) for name, shape in names.items()]
    values += [models.value("seqlens_k", [2], models.INT32), models.value("total_sequence_length", [], models.INT32)]
    values += [models.value("causal_mask", [2, 8], models.BOOL)]
    values += [models.value("use_cache_branch", [1], models.BOOL), models.value("past_key_values.0.key", [2, 1, 5, 8])]
    made = feeds.generated(entrance(*values), 0, {}, LIMIT, inputs.meaning(models.decoder()))
    assert set(made["input_ids"].ravel().tolist()) <= set(range(50))
    assert len(np.unique(made["input_ids"])) == 6
    assert (made["attention_mask"] == 1).all()
    assert made["position_ids"].tolist() == [[5, 6, 7]] * 2
    assert (made["token_type_ids"] == 0).all()
    assert made["seqlens_k"].tolist() == [7, 7]
    assert made["total_sequence_length"] == 8
    assert made["causal_mask"].all()
    assert made["use_cache_branch"].tolist() == [True]
    assert 0.5 < made["past_key_values.0.key"].std() < 2.0


@pytest.mark.parametrize("past", [0, 5, 12])
@pytest.mark.parametrize("rows", ["query", "rows"])
def test_lengths_that_are_inputs_say_the_past_that_the_buffers_have(rows: str, past: int) -> None:
    """By their place in the node, or by symbolic dimensions where the node's query is computed."""
    values = [models.value(rows, ["batch", "seq", 64]), models.value("cache", ["batch", 2, "past_len", 16])]
    values += [models.value("seqlens_k", ["batch"], models.INT32)]
    values += [models.value("total_sequence_length", [1], models.INT32)]
    names = ["query", "query", "query", "cache", "cache", "seqlens_k", "total_sequence_length"]
    node = helper.make_node("GroupQueryAttention", names, ["y"], domain=models.MICROSOFT)
    before = [] if rows == "query" else [helper.make_node("Identity", [rows], ["query"])]
    proto = helper.make_model(helper.make_graph([*before, node], "g", values, [models.value("y", None)]))
    sizes = inputs.sizes(entrance(*values), {"seq": 3, "past_len": past})
    made = feeds.generated(entrance(*values), 0, sizes, LIMIT, inputs.meaning(proto))
    assert made["seqlens_k"].tolist() == [3 + past - 1]
    assert made["total_sequence_length"].tolist() == [3 + past]


def test_attention_in_plain_operators_is_found_and_other_softmaxes_are_not() -> None:
    proto = models.bert()
    found = pattern.find(proto.graph)
    assert [it.softmax.name for it in found] == [f"/layer.{layer}/attention/self/Softmax" for layer in (0, 1)]
    assert all(it.masked for it in found)
    classified = helper.make_node("Softmax", [proto.graph.output[0].name], ["p"], name="classify")
    proto.graph.node.append(classified)
    assert pattern.find(proto.graph) == found


def test_a_pattern_is_told_as_the_case_of_its_sizes() -> None:
    (it, _) = pattern.find(models.bert().graph)
    shapes = dict(zip(it.operands, ((2, 4, 3, 8), (2, 4, 8, 5), (2, 4, 5, 6)), strict=True))
    text = pattern.case(it, shapes, "float16")
    case = from_command_line(text)
    assert (case.batch, case.heads, case.q_len, case.kv_len, case.dtype) == (2, 4, (3, 3), (5, 5), "float16")
    assert (case.head_dim, case.v_head_dim, case.bias, case.causal) == (8, 6, "1x1xSxT", False)
    assert pattern.case(it, dict.fromkeys(it.operands, (3,)), "float32") == ""


@pytest.mark.parametrize(("axis", "found"), [(-1, True), (3, True), (2, False), (-2, False), (1, False)])
def test_a_softmax_over_another_axis_than_the_keys_is_no_attention(axis: int, found: bool) -> None:
    proto = models.bert(layers=1)
    (softmax,) = (node for node in proto.graph.node if node.op_type == "Softmax")
    softmax.attribute[0].i = axis
    assert bool(pattern.find(proto.graph)) == found


@pytest.mark.parametrize(("factor", "softcap"), [(30.0, 30.0), (None, None)])
def test_a_tanh_between_product_and_softmax_is_a_softcap(factor: float | None, softcap: float | None) -> None:
    proto = models.bert(layers=1)
    add = next(node for node in proto.graph.node if node.name.endswith("self/Add"))
    capped = [helper.make_node("Tanh", [add.input[0]], ["bent"])]
    if factor is not None:
        proto.graph.initializer.append(numpy_helper.from_array(np.array(factor, np.float32), "cap"))
        capped += [helper.make_node("Mul", ["bent", "cap"], ["capped"])]
    add.input[0] = capped[-1].output[0]
    proto.graph.node.extend(capped)
    (it,) = pattern.find(proto.graph)
    assert it.softcap == softcap
    shapes = dict(zip(it.operands, ((2, 4, 3, 8), (2, 4, 8, 5), (2, 4, 5, 6)), strict=True))
    text = pattern.case(it, shapes, "float32")
    assert ("softcap=30" in text.split()) if factor else text == ""


def test_only_what_a_tensor_needs_is_run() -> None:
    proto = models.decoder()
    part = capture.upstream(proto, ["/mask/Sub/Cast_output_0"])
    assert [node.op_type for node in part.graph.node] == ["ReduceSum", "Sub", "Cast"]
    assert [value.name for value in part.graph.input] == ["attention_mask"]


def test_nodes_are_named_by_the_calls_and_sub_graphs_that_lead_to_them(tmp_path: Path) -> None:
    onnx.save(models.nested(), tmp_path / "m.onnx")
    it = source.load(tmp_path / "m.onnx", LIMIT)
    assert [site.path for site in it.sites] == [
        "layers.0/attend", "layers.1/attend", "cached/else_branch/without", "cached/then_branch/with",
        "loop/body/again",
    ]  # fmt: skip
    assert all(site.opset == 23 and site.readable for site in it.sites)


def test_a_branch_takes_the_place_of_its_if_with_names_of_its_own(tmp_path: Path) -> None:
    onnx.save(models.nested(), tmp_path / "m.onnx")
    graph = source.load(tmp_path / "m.onnx", LIMIT).proto.graph
    # A name that the branch gives to a value of its own, too.
    graph.node.insert(0, helper.make_node("Identity", ["x"], ["y"]))
    branches.settle(graph, {"use_cache_branch": True}, source.is_attention)
    made = [name for node in graph.node for name in node.output]
    assert len(made) == len(set(made))
    assert "c" in made
    assert not branches.around(graph, source.is_attention)


@pytest.mark.parametrize(
    ("before", "behind", "shapes", "sizes"),
    [
        ("bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", ((2, 3, 4, 8), (2, 5, 4, 8), (2, 5, 4, 6)), (2, 4, 3, 8, 5, 6)),
        ("bhid,bhjd->bhij", "bhij,bhjc->bhic", ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8)), (2, 4, 3, 8, 5, 8)),
        ("hqd,hkd->hqk", "hqk,hkd->hqd", ((4, 3, 8), (4, 5, 8), (4, 5, 8)), (1, 4, 3, 8, 5, 8)),
        # The keys are not the last axis of the scores; nothing is summed over; the keys are not summed over.
        ("bqhd,bkhd->bhkq", "bhkq,bkhd->bqhd", ((2, 3, 4, 8), (2, 5, 4, 8), (2, 5, 4, 8)), None),
        ("bqhd,bkhd->bhqkd", "bhqkd,bkhd->bqhd", ((2, 3, 4, 8), (2, 5, 4, 8), (2, 5, 4, 8)), None),
        ("bqhd,bkhd->bhqk", "bhqk,bkhd->bkhd", ((2, 3, 4, 8), (2, 5, 4, 8), (2, 5, 4, 8)), None),
        ("...qd,...kd->...qk", "...qk,...kd->...qd", ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8)), None),
        ("bqhd,bkhd->bhqk", "", ((2, 3, 4, 8), (2, 5, 4, 8), (2, 5, 4, 8)), None),
        # 5 keys in the first product, 6 in the second.
        ("bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", ((2, 3, 4, 8), (2, 5, 4, 8), (2, 6, 4, 8)), None),
    ],
)
def test_equations_of_attention_tell_which_axis_is_which(
    before: str, behind: str, shapes: tuple[tuple[int, ...], ...], sizes: tuple[int, ...] | None
) -> None:
    assert einsum.sizes(before, behind, *shapes) == sizes


def test_attention_spelt_out_in_sub_graphs_is_found_by_its_path() -> None:
    found = pattern.inside(models.spelt_inside().graph)
    assert set(found) == {"loop/body/soft", "cached/then_branch/soft", "cached/else_branch/soft", "scan/body/soft"}
    assert all(it.before.op_type == it.behind.op_type == "MatMul" for it in found.values())
