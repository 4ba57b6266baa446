"""Whatever output of whatever shipped case is wrong: it can be told what it looks like, and the picture shows where."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pytest

from attncheck.compare import judge
from attncheck.compare.diagnosis import diagnose
from attncheck.compare.picture import Map, picture
from attncheck.engine import sessions
from attncheck.engine.sessions import Step
from attncheck.graph.session import session
from attncheck.oracle.answer import Answer
from attncheck.problem import role_of
from attncheck.tensors.dtypes import narrow
from tests.unit.test_shipped_scenarios import BY_HAND

pytestmark = pytest.mark.slow


def answered() -> Iterator[tuple[str, Step, Answer]]:
    """The last step of the first case of each scenario, with one of its outputs, another one from case to case."""
    seen = set()
    for case in BY_HAND:
        file, _, rest = case.id.partition("::")
        scenario = file, rest.partition(":")[0]
        if scenario in seen:
            continue
        seen.add(scenario)
        step = sessions.steps(session(case))[-1]
        stating = [it for it in step.answers if it.stated.any()]
        if stating:
            yield case.id, step, stating[zlib.crc32(case.id.encode()) % len(stating)]


def beyond(it: Map) -> list[tuple[int, int]]:
    cells = [(i, j, cell) for i, row in enumerate(it.cells) for j, cell in enumerate(row)]
    return [(i, j) for i, j, cell in cells if isinstance(cell, str) or (cell is not None and cell > 1.0)]


def test_a_wrong_element_of_every_shipped_scenario_is_told_and_shown_in_its_place() -> None:
    roles: dict[str, int] = {}
    for name, step, answer in answered():
        problem, inputs = step.problem, step.case.inputs
        role = role_of(problem.outputs, answer.output)
        outputs = {
            it.output: narrow(np.nan_to_num(it.values, neginf=-np.inf), role_of(problem.outputs, it.output).dtype)
            for it in step.answers
        }
        if np.issubdtype(outputs[answer.output].dtype, np.integer):
            continue  # the bits of bfloat16, or quantised: NaN has no one form there
        spoiled = outputs[answer.output].copy()
        spoiled[tuple(int(axis[-1]) for axis in np.nonzero(answer.stated))] = np.nan
        outputs[answer.output] = spoiled
        found = judge.differences(problem, step.answers, outputs, "f32", "spoiled")
        worst = max(found, key=lambda it: it.margin)
        assert diagnose(problem, inputs, step.answers, outputs, "f32").words, name
        seen = picture(problem, inputs, step.answers, outputs, "f32", None, worst)
        at = {"head": seen.head, "dim": seen.dim, "key": seen.dim, "batch": seen.batch, "page": seen.batch}
        for each in (it for it in seen.maps if it.of == "margin"):
            row, column = (at.get(axis.name, seen.row) // axis.step for axis in (each.rows, each.columns))
            assert beyond(each) == [(row, column)], name
            assert each.cells[row][column] == "NaN", name
        roles[role.name] = roles.get(role.name, 0) + 1
    assert {"output", "present_key", "present_value", "scores", "present_state", "turned"} <= set(roles), roles
