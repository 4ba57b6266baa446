"""Every wrong kernel, as a user's function in a process of its own, fails a shipped case and is called by its name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from attncheck.backends.callable import Callable
from attncheck.compare.diagnosis import diagnose
from attncheck.engine import run as engine
from attncheck.engine.events import CaseFinished
from attncheck.engine.judge import NUMBERS
from attncheck.graph import read, write
from attncheck.oracle import ask
from attncheck.oracle.wrong.catalogue import CATALOGUE
from attncheck.oracle.wrong.lineup import lineup
from attncheck.oracle.wrong.recurrences import RECURRENCES
from attncheck.oracle.wrong.turning import TURNING
from attncheck.problem import role_of
from attncheck.scenario.load import load
from attncheck.scenario.model import Scenario
from attncheck.shipped import scenarios_dir
from attncheck.tensors.dtypes import narrow

pytestmark = pytest.mark.slow
KINDS: dict[str, dict[str, str]] = {
    "attention": {wrong.name: wrong.words for wrong in CATALOGUE},
    "rotary": {wrong.name: wrong.words for wrong in TURNING},
    "linear": {wrong.name: wrong.words for wrong in RECURRENCES},
}
"""Kind of problem -> names of its wrong kernels -> their words."""
WRONG = Path(__file__).parents[1] / "callables" / "wrong.py"


@cache
def shipped() -> tuple[Scenario, ...]:
    """The shipped scenarios of one call, those with few numbers first."""
    every = [it for it in load(sorted(scenarios_dir().glob("*.yaml"))) if not it.steps]
    return tuple(sorted(every, key=lambda it: it.batch * it.heads * it.head_dim * max(it.q_len) * max(it.kv_len)))


def telling(name: str) -> Scenario:
    """The smallest shipped case in which this wrong kernel is told by its own words."""
    for scenario in shipped():
        case = write.build(scenario)
        problem = read.any_problem(case.model, case.inputs)
        if problem.invalid or name not in KINDS[problem.kind]:
            continue
        wrong = next((it for it in lineup(problem, case.inputs).known if it.name == name), None)
        if wrong is None:
            continue
        with np.errstate(all="ignore"):
            values = wrong.outputs(None)
        outputs = {output: narrow(it, role_of(problem.outputs, output).dtype) for output, it in values.items()}
        answers = ask.answer(problem, case.inputs)
        if wrong.words in diagnose(problem, case.inputs, answers, outputs, "native").words:
            return scenario
    pytest.fail(f"no shipped case tells {name}")


@pytest.mark.parametrize("name", [name for names in KINDS.values() for name in names])
def test_a_wrong_kernel_is_told_by_its_name(name: str) -> None:
    backend = Callable(WRONG, name.replace("-", "_"))
    found = engine.run([telling(name)], [backend], None, engine.Options(time_limit=60.0))
    (result,) = [result for event in found if isinstance(event, CaseFinished) for result in event.results]
    assert result.verdict in NUMBERS
    assert any(names.get(name, "\0") in result.diagnosis for names in KINDS.values())
