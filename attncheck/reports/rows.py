"""Which results of a case get a row of their own."""

from __future__ import annotations

from collections.abc import Sequence

from attncheck.compare.difference import Difference
from attncheck.engine.events import Result
from attncheck.graph.case import Origin
from attncheck.scenario.model import Scenario
from attncheck.vocabulary import Flag, Status


def visible(results: Sequence[Result], *, every: bool = False) -> tuple[Result, ...]:
    """Choose the results that are shown, in their order.

    Passing candidates fold into the one with the worst margin. A reference is shown when it fails, or when it is all
    there is: its passing is what one expects, and its refusal is said in the candidates' rows. `every` shows all.
    """
    if every:
        return tuple(results)
    passing = [result for result in results if result.status is Status.PASSED and not result.reference]
    closest = max(passing, key=_margin, default=None)
    alone = all(result.reference for result in results)
    return tuple(result for result in results if alone or result is closest or _stands_out(result))


def failures(results: Sequence[Result]) -> tuple[Result, ...]:
    """The results that make a run fail."""
    return tuple(result for result in results if result.fails)


def shrinks(result: Result, origin: Origin) -> bool:
    """Whether `minimize` takes this failure: a model has no axes, and the reference is no suspect."""
    return result.status is Status.FAILED and not result.reference and isinstance(origin, Scenario)


def told(result: Result) -> Difference | None:
    """The difference whose numbers stand in the row: the worst against the oracle where one fails, else the worst.

    Where two kernels disagree, the one that also differs from the oracle is the one to name.
    """
    wrong = [it for it in result.differences if it.against == "oracle" and not it.passed]
    return max(wrong, key=lambda it: it.margin, default=result.worst)


def refused(result: Result) -> bool:
    """Whether the oracle judged this result without its reference."""
    return Flag.REFERENCE_REFUSED in result.flags


def _stands_out(result: Result) -> bool:
    if result.reference:
        return result.status not in {Status.PASSED, Status.SKIPPED}
    return result.status is not Status.PASSED


def _margin(result: Result) -> float:
    return result.worst.margin if result.worst is not None else -1.0
