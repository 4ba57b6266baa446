"""What is said beside a verdict: what wrong numbers look like, and whether right ones prove anything. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from attncheck.backends.base import Compute, Outcome
from attncheck.compare.diagnosis import diagnose
from attncheck.compare.difference import Difference
from attncheck.compare.sharpness import Sharpness, sharpness
from attncheck.graph.case import Case
from attncheck.oracle.answer import Answer
from attncheck.problem import Problem
from attncheck.scenario.model import Tolerance


def diagnosis(
    case: Case,
    problem: Problem,
    answers: Sequence[Answer],
    compute: Compute,
    override: Tolerance | None,
    outcomes: Sequence[Outcome],
    differences: Sequence[Difference],
) -> str:
    """What the outputs of the first kernel look like that is out of tolerance, "" where none is."""
    failed = {each.subject for each in differences if each.against == "oracle" and not each.passed}
    for outcome in outcomes:
        if outcome.kernel in failed:
            return diagnose(problem, case.inputs, answers, outcome.outputs, compute, override)
    return ""


def sharp(
    case: Case,
    problem: Problem,
    answers: Sequence[Answer],
    compute: Compute,
    override: Tolerance | None,
    *,
    every: bool,
) -> Sharpness:
    """Which wrong kernels the tolerance rejects: `every` relevant one is tried, or no more than `vacuous` needs."""
    return sharpness(problem, case.inputs, answers, compute, override, first_only=not every)
