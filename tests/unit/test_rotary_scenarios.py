"""Scenarios of rotary embedding alone: what is written of them, and what evaluator and kernel make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from onnx.reference import ReferenceEvaluator

from attncheck.graph import feeds, model_file, read, write
from attncheck.graph import given as given_model
from attncheck.oracle import ask
from attncheck.problem import RotaryProblem
from attncheck.scenario.model import Scenario
from tests import device
from tests.drawing import rotary_scenarios, scenario

ONE_FOLDER = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def problem_of(drawn: Scenario) -> RotaryProblem:
    case = write.build(drawn)
    found = read.any_problem(case.model, case.inputs)
    assert isinstance(found, RotaryProblem)
    return found


def attributes(drawn: Scenario) -> dict[str, Any]:
    (node,) = onnx.load_model_from_string(write.build(drawn).model).graph.node
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


@given(rotary_scenarios())
@settings(deadline=None, max_examples=60)
def test_what_is_written_is_what_is_read(drawn: Scenario) -> None:
    problem = problem_of(drawn)
    assert problem.invalid == ""
    assert (problem.rotary.style, problem.rotary.dim) == (drawn.rotary, drawn.rotary_dim)
    assert problem.heads == drawn.heads
    rows = sum(drawn.q_len) if drawn.packed_batch else max(drawn.q_len)
    assert (problem.batch, problem.rows) == (1 if drawn.packed_batch else drawn.batch, rows)


@given(rotary_scenarios())
@settings(deadline=None, max_examples=40)
def test_the_reference_evaluator_of_onnx_gives_what_the_oracle_says(drawn: Scenario) -> None:
    if drawn.op == "ms-rotary":
        return
    case = write.build(drawn)
    (values,) = ReferenceEvaluator(onnx.load_model_from_string(case.model)).run(None, dict(case.inputs))
    (answer,) = ask.answer(problem_of(drawn), case.inputs)
    np.testing.assert_allclose(np.asarray(values, np.float64), answer.values, rtol=0, atol=2e-6)


@given(rotary_scenarios())
@settings(deadline=None, max_examples=40)
def test_the_kernel_turns_as_the_oracle_does(drawn: Scenario) -> None:
    given_work = device.work(drawn)
    assert device.failing(device.differences(given_work, "rotary")) == []


@ONE_FOLDER
@given(rotary_scenarios())
def test_every_drawn_case_comes_back_from_its_file_and_arrays(tmp_path: Path, drawn: Scenario) -> None:
    case = write.build(drawn)
    path = tmp_path / "model.onnx"
    path.write_bytes(case.model)
    it = model_file.load(path, 2**30)
    again, problem = given_model.case(it, "m::n", feeds.given(it, case.inputs, "arrays"), "")
    assert (again.outputs, again.digest, problem.invalid) == (case.outputs, case.digest, "")


@pytest.mark.parametrize("op", ["rotary", "ms-rotary"])
def test_generated_positions_go_through_the_rows_of_the_caches_again_and_again(tmp_path: Path, op: str) -> None:
    drawn = scenario(op=op, q_len=(5,), rotary="half", rotary_cache=3, positions="scattered")
    path = tmp_path / "model.onnx"
    path.write_bytes(write.build(drawn).model)
    it = model_file.load(path, 2**30)
    _, problem = given_model.case(it, "m::n", feeds.generated(it, 0, {}, 2**30, feeds.of_node(it)), "")
    assert isinstance(problem, RotaryProblem)
    assert problem.rotary.positions.tolist() == [[0, 1, 2, 0, 1]]
    assert problem.invalid == ""


POSITIONS: dict[str, tuple[dict[str, Any], list[list[int]]]] = {
    "explicit": ({"past_len": (0, 4)}, [[0, 1, 2], [4, 5, 6]]),
    "shifted": ({"past_len": (0, 4)}, [[3, 4, 5], [7, 8, 9]]),
    "beyond": ({"past_len": (0, 4)}, [[4, 5, 6], [8, 9, 10]]),
    "one-row": ({}, [[0, 1, 2]]),
    "packed": ({"q_len": (1, 3), "past_len": (2, 0), "packed_batch": True}, [[2, 0, 1, 2]]),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_those_that_their_word_says(name: str) -> None:
    axes, wanted = POSITIONS[name]
    said = "explicit" if name == "packed" else name
    plain = {"op": "ms-rotary", "q_len": (3, 3), "rotary": "half", "positions": said, "rotary_cache": 10}
    drawn = scenario(**(plain | axes))
    assert write.build(drawn).inputs["position_ids"].tolist() == wanted


def test_scattered_positions_are_rows_of_the_caches_and_in_no_order() -> None:
    drawn = scenario(op="rotary", q_len=(50, 50), rotary="half", positions="scattered", rotary_cache=7)
    positions = write.build(drawn).inputs["position_ids"]
    assert set(positions.ravel().tolist()) == set(range(7))
    assert positions[0].tolist() != positions[1].tolist()


def test_caches_of_every_token_hold_the_angles_of_its_position() -> None:
    drawn = scenario(op="rotary", q_len=(2, 2), past_len=(0, 5), rotary="half", head_dim=4)
    cos = write.build(drawn).inputs["cos_cache"]
    angles = [[[at * 10000.0 ** (-2 * i / 4) for i in range(2)] for at in entry] for entry in ((0, 1), (5, 6))]
    np.testing.assert_allclose(cos.astype(np.float64), np.cos(angles), atol=1e-6)


def test_one_position_is_written_where_ms_rotary_counts() -> None:
    drawn = scenario(op="ms-rotary", q_len=(2, 2), past_len=(5, 5), rotary="half")
    assert write.build(drawn).inputs["position_ids"].tolist() == [5]
    assert problem_of(drawn).rotary.positions.tolist() == [[5, 6], [5, 6]]


def test_only_what_differs_from_the_defaults_is_written() -> None:
    plain = {"op": "rotary", "rotary": "half", "layout": "bnsh"}
    assert attributes(scenario(**plain)) == {}
    assert attributes(scenario(**plain, rotary_dim=6)) == {"rotary_embedding_dim": 6}
    ours = {**plain, "op": "ms-rotary", "rotary_dim": 6, "positions": "explicit"}
    assert attributes(scenario(**ours)) == {"rotary_embedding_dim": 6, "num_heads": 4}
    assert attributes(scenario(**ours, packed_batch=True))["is_packed_batching"] == 1
