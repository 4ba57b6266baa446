"""A model that was there before: what is read of it, what it is fed, and what must come back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import numpy_helper

from attncheck.graph import feeds, model_file, read, write
from attncheck.graph import given as given_model
from attncheck.graph.case import GivenModel
from attncheck.graph.model_file import UnusableModel
from attncheck.oracle import attention
from attncheck.problem import Problem
from attncheck.scenario import from_command_line
from attncheck.scenario.model import Scenario
from tests.drawing import attention_scenarios, featured_scenarios, projected_scenarios, scenario, scenarios

LIMIT = 2**28
ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def file_of(drawn: Scenario, folder: Path) -> model_file.ModelFile:
    path = folder / "model.onnx"
    path.write_bytes(write.build(drawn).model)
    return model_file.load(path, LIMIT)


def comes_back(drawn: Scenario, folder: Path) -> None:
    case = write.build(drawn)
    it = file_of(drawn, folder)
    again, problem = given_model.case(it, "m::n", feeds.given(it, case.inputs, "arrays"), "")
    assert again.model == case.model
    assert again.outputs == case.outputs
    assert again.digest == case.digest
    assert isinstance(problem, Problem)
    assert problem.visible.tolist() == read.problem(case.model, case.inputs).visible.tolist()
    assert isinstance(again.origin, GivenModel)


@ONE_FOLDER
@given(scenarios())
def test_every_drawn_case_comes_back_from_its_file_and_arrays(tmp_path: Path, drawn: Scenario) -> None:
    comes_back(drawn, tmp_path)


@ONE_FOLDER
@given(attention_scenarios())
def test_every_drawn_attention_comes_back_from_its_file_and_arrays(tmp_path: Path, drawn: Scenario) -> None:
    comes_back(drawn, tmp_path)


@ONE_FOLDER
@given(st.one_of(featured_scenarios(), projected_scenarios()))
def test_every_drawn_feature_comes_back_from_its_file_and_arrays(tmp_path: Path, drawn: Scenario) -> None:
    comes_back(drawn, tmp_path)


def test_rotary_whose_angles_are_no_inputs_comes_back_too(tmp_path: Path) -> None:
    drawn = from_command_line("op=ms-attention rotary=half head_dim=32 q_len=3")
    comes_back(drawn, tmp_path)
    it = file_of(drawn, tmp_path)
    _, problem = given_model.case(it, "m::n", feeds.generated(it, 0, {}, LIMIT, feeds.of_node(it)), "")
    assert isinstance(problem, Problem)
    assert problem.rotary is not None
    assert problem.rotary.caches == ()


@pytest.mark.parametrize("op", ["gqa", "mha", "ms-attention", "attention"])
def test_generated_arrays_fill_every_buffer_and_every_row(tmp_path: Path, op: str) -> None:
    axes = {"opset": 24, "capacity": 12} if op == "attention" else {}
    drawn = scenario(op=op, batch=2, q_len=(3, 1), past_len=(9, 9), heads=4, kv_heads=4, head_dim=16, **axes)
    it = file_of(drawn, tmp_path)
    case, problem = given_model.case(it, "m::n", feeds.generated(it, 0, {}, LIMIT, feeds.of_node(it)), "")
    assert isinstance(problem, Problem)
    assert problem.invalid == ""
    assert problem.q_len == (3, 3)
    assert problem.kv_len == (12, 12)
    assert all(np.isfinite(answer.values).all() for answer in attention.answer(problem, case.inputs))


def test_generated_arrays_are_a_function_of_seed_and_input_alone(tmp_path: Path) -> None:
    it = file_of(scenario(op="mha", batch=1, q_len=(4,), past_len=(0,)), tmp_path)
    first, again, other = (feeds.generated(it, seed, {}, LIMIT, feeds.of_node(it)) for seed in (5, 5, 6))
    assert all((first[name] == again[name]).all() for name in first)
    assert not any((first[name] == other[name]).all() for name in ("query", "key", "value"))
    assert not (first["key"] == first["value"]).all()
    assert 0.5 < first["query"].std() < 2.0


@pytest.mark.parametrize(("op", "lengths", "nothing"), [("gqa", 5, -1), ("sparse", 8, 0)])
def test_lengths_that_leave_no_new_token_are_refused_before_anything_runs(
    tmp_path: Path, op: str, lengths: int, nothing: int
) -> None:
    drawn = from_command_line(f"op={op} batch=2 q_len=3")
    it = file_of(drawn, tmp_path)
    arrays = dict(write.build(drawn).inputs)
    name = it.node.input[lengths]
    arrays[name] = np.full_like(arrays[name], nothing)
    with pytest.raises(UnusableModel, match="no batch entry has a new token"):
        given_model.case(it, "m::n", arrays, "")
    arrays[name][0] = nothing + 2
    given_model.case(it, "m::n", arrays, "")


def test_positions_of_tokens_are_not_made_up(tmp_path: Path) -> None:
    drawn = scenario(op="gqa", rotary="half", rotary_dim=16, rotary_cache=32, head_dim=16, positions="explicit")
    it = file_of(drawn, tmp_path)
    with pytest.raises(UnusableModel, match="position_ids holds integers that cannot be made up"):
        feeds.generated(it, 0, {}, LIMIT, feeds.of_node(it))


def test_the_standard_domain_may_be_spelt_out(tmp_path: Path) -> None:
    proto = onnx.load_model_from_string(write.build(scenario(op="attention", opset=24)).model)
    proto.graph.node[0].domain = "ai.onnx"
    onnx.save(proto, tmp_path / "m.onnx")
    assert model_file.load(tmp_path / "m.onnx", LIMIT).node.op_type == "Attention"


def rotary_with(folder: Path, **changed: slice) -> tuple[model_file.ModelFile, dict[str, NDArray[np.generic]]]:
    """A rotary GroupQueryAttention whose caches may have any shape, and its arrays, cut as `changed` says."""
    drawn = scenario(op="gqa", q_len=(4,), past_len=(4,), rotary="half", rotary_dim=16, rotary_cache=8, head_dim=16)
    it = file_of(drawn, folder)
    arrays = dict(write.build(drawn).inputs)
    for value in it.inputs:
        if value.name in changed:
            value.type.tensor_type.ClearField("shape")
            arrays[value.name] = arrays[value.name][:, changed[value.name]]
    return it, arrays


def test_caches_of_two_widths_are_said(tmp_path: Path) -> None:
    it, arrays = rotary_with(tmp_path, sin_cache=slice(7))
    with pytest.raises(UnusableModel, match=r"sin_cache of shape \[8, 7\] has no 8 columns"):
        given_model.case(it, "m::n", feeds.given(it, arrays, "arrays"), "")


@pytest.mark.parametrize(
    ("text", "attribute", "heads", "said"),
    [
        (
            "op=mha q_len=4 heads=4",
            "num_heads",
            5,
            r"with 5 heads does not take query of shape \[1, 4, 64\]: its 64 columns",
        ),
        ("op=mha q_len=4 heads=4", "num_heads", 0, "with 0 heads does not take query"),
        (
            "op=attention heads=10 kv_heads=2 q_len=4",
            "kv_num_heads",
            5,
            r"with 5 heads does not take V of shape \[1, 4, 32\]",
        ),
        ("op=gqa kv_heads=2 q_len=4 heads=4", "num_heads", 6, "with 6 heads does not take query"),
        (
            "op=gqa kv_heads=2 packed=qkv q_len=4 heads=4",
            "num_heads",
            5,
            "with 5 heads and 4 of keys and values does not take query",
        ),
        ("op=sparse kv_heads=2 q_len=4 heads=4", "num_heads", 6, "with 6 heads does not take query"),
        ("op=paged kv_heads=2 q_len=4 heads=4", "num_heads", 6, "with 6 heads does not take query"),
        (
            "op=paged kv_heads=2 packed=qkv q_len=4 heads=4",
            "num_heads",
            6,
            "with 6 heads and 4 of keys and values does not take query",
        ),
        (
            "op=ms-attention q_len=4 heads=4",
            "num_heads",
            5,
            r"with 5 heads does not take weights of shape \[64, 192\]: its 64 columns",
        ),
        ("op=decoder-mha q_len=1 past_len=3 heads=4", "num_heads", 5, "with 5 heads does not take query"),
        ("op=linear q_len=4 heads=4", "q_num_heads", 5, "with 5 heads does not take query"),
        ("op=linear q_len=4 heads=4", "kv_num_heads", 5, "with 5 heads does not take value"),
        ("op=rotary q_len=4 heads=4", "num_heads", 5, "with 5 heads does not take X"),
        ("op=ms-rotary q_len=4 heads=4", "num_heads", 5, "with 5 heads does not take input"),
    ],
)
def test_heads_that_do_not_divide_the_columns_are_said(
    tmp_path: Path, text: str, attribute: str, heads: int, said: str
) -> None:
    case = write.build(from_command_line(f"head_dim=16 {text}"))
    proto = onnx.load_model_from_string(case.model)
    (node,) = proto.graph.node
    kept = [it for it in node.attribute if it.name != attribute]
    node.ClearField("attribute")
    node.attribute.extend([*kept, onnx.helper.make_attribute(attribute, heads)])
    onnx.save(proto, tmp_path / "m.onnx")
    it = model_file.load(tmp_path / "m.onnx", LIMIT)
    with pytest.raises(UnusableModel, match=said):
        given_model.case(it, "m::n", feeds.given(it, dict(case.inputs), "arrays"), "")


def test_a_key_whose_columns_its_heads_cannot_share_is_said(tmp_path: Path) -> None:
    case = write.build(scenario(op="mha", q_len=(4,), past_len=(0,), heads=4, kv_heads=4, head_dim=16))
    proto = onnx.load_model_from_string(case.model)
    for value in proto.graph.input:
        value.type.tensor_type.ClearField("shape")
    onnx.save(proto, tmp_path / "m.onnx")
    it = model_file.load(tmp_path / "m.onnx", LIMIT)
    arrays = {**case.inputs, "key": np.asarray(case.inputs["key"])[:, :, :63]}
    with pytest.raises(UnusableModel, match="the 63 columns of key are not 4 heads of one width"):
        given_model.case(it, "m::n", feeds.given(it, arrays, "arrays"), "")


def test_arrays_that_the_graph_holds_may_stand_among_the_given_unless_they_differ(tmp_path: Path) -> None:
    drawn = scenario(op="mha", q_len=(4,), past_len=(0,))
    arrays = dict(write.build(drawn).inputs)
    proto = onnx.load_model_from_string(write.build(drawn).model)
    proto.ir_version = 4
    proto.graph.initializer.append(numpy_helper.from_array(arrays["key"], "key"))
    onnx.save(proto, tmp_path / "m.onnx")
    it = model_file.load(tmp_path / "m.onnx", LIMIT)
    assert list(feeds.given(it, arrays, "arrays")) == ["query", "value"]
    with pytest.raises(UnusableModel, match="has key, which"):
        feeds.given(it, {**arrays, "key": np.zeros_like(arrays["key"])}, "arrays")


def test_a_model_beyond_the_memory_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(write.build(scenario(op="mha")).model)
    with pytest.raises(UnusableModel, match="bytes, above --memory-limit 100"):
        model_file.load(tmp_path / "m.onnx", 100)


def test_external_data_beyond_the_memory_limit_is_not_read(tmp_path: Path) -> None:
    """However little the file says that it is: the shape counts too."""
    drawn = scenario(op="mha", q_len=(4,), past_len=(0,))
    proto = onnx.load_model_from_string(write.build(drawn).model)
    proto.ir_version = 4
    held = onnx.TensorProto(name="key", data_type=onnx.TensorProto.FLOAT, dims=[1 << 20, 1 << 20])
    held.data_location = onnx.TensorProto.EXTERNAL
    held.external_data.add(key="location", value="weights.bin")
    proto.graph.initializer.append(held)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(UnusableModel, match="above --memory-limit"):
        model_file.load(tmp_path / "m.onnx", LIMIT)
