"""No wrong kernel survives the drawn cases of an operator: what is relevant to some of them is rejected by one.

Cases are drawn from all axes of the language (`benchmarks.tolerance.drawing`), and judged as those of a backend that
computes in float32. What few of them are relevant to may survive these for what they hold (a state of zeros, a mask
without holes, one huge score), so that cases are drawn on until each is rejected, or there are too many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import get_args

import pytest

from attncheck.compare.sharpness import sharpness
from attncheck.graph import read, write
from attncheck.oracle import ask
from attncheck.scenario import ScenarioErrors, override
from attncheck.scenario.model import Op, Scenario
from benchmarks.tolerance.drawing import draw

pytestmark = pytest.mark.slow

CASES = 36
"""Of each operator, at least."""

DRAWS = 3000
"""Cases of all operators after which a wrong kernel has survived: some 270 of each."""

SEED = 4
OPERATORS = get_args(Op)


@cache
def drawn(index: int) -> Scenario:
    """One draw serves all operators. A mask without holes hides nothing that one could get wrong, so it has some."""
    it = draw(SEED, index)
    if it.mask is None or it.holes != "none":
        return it
    try:
        return override(it, "holes=keys")
    except ScenarioErrors:
        return it


def told(op: str) -> Iterator[tuple[Counter[str], Counter[str]]]:
    """In how many cases each wrong kernel is relevant, and in how many rejected, after one more case each time."""
    relevant: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    for it in map(drawn, range(DRAWS)):
        if it.op != op:
            continue
        case = write.build(it)
        problem = read.any_problem(case.model, case.inputs)
        if problem.invalid:
            continue
        found = sharpness(problem, case.inputs, ask.answer(problem, case.inputs), "f32", None)
        relevant.update(found.relevant)
        rejected.update(found.rejected)
        yield relevant, rejected


@pytest.mark.parametrize("op", OPERATORS)
def test_no_wrong_kernel_survives_the_drawn_cases_of_an_operator(op: str) -> None:
    survivors: dict[str, int] = {}
    for number, (relevant, rejected) in enumerate(told(op), 1):
        survivors = {name: cases for name, cases in relevant.items() if not rejected[name]}
        if number >= CASES and not survivors:
            break
    assert survivors == {}
    assert len(relevant) >= 5
    # Hostile data hides much; a catalogue that hardly ever shows would say nothing.
    assert rejected.total() > 0.7 * relevant.total()
