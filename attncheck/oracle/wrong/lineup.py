"""The wrong kernels that may have given some numbers, whatever the kind of problem: what sharpness and diagnosis ask.

Those of attention share the operands of a right kernel. Besides, what only the numbers of a mask can tell is tried,
other blocks of keys, and two wrong kernels at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain, combinations

from attncheck.oracle.wrong import blocks, catalogue, masks, readings, scores
from attncheck.oracle.wrong.entry import Other, Wrong, WrongOf
from attncheck.oracle.wrong.kernel import Workshop
from attncheck.oracle.wrong.recipe import Float, Recipe
from attncheck.oracle.wrong.recurrences import RECURRENCES
from attncheck.oracle.wrong.turning import TURNING
from attncheck.problem import AnyProblem, Arrays, LinearProblem, Problem, RotaryProblem

PAIRS_UP_TO = 1 << 22
"""Scores of a case up to which two faults at once are looked for."""

Parts = tuple[tuple[slice, slice], ...]
"""Batch entries and query rows whose output is wanted."""


@dataclass(frozen=True)
class Suspect:
    """A wrong kernel, or two at once, on one problem.

    name     in the catalogue; "" for two at once
    words    to follow "the result with"
    outputs  what it gives, by output name; where it is told parts, elsewhere it may leave anything
    """

    name: str
    words: str
    outputs: Callable[[Parts | None], dict[str, Float]]


@dataclass(frozen=True)
class Lineup:
    """Those of the catalogue that must differ on this problem, and groups of further ones, made when asked for.

    readings  of the further ones those that read the operator's text in another way
    """

    known: tuple[Suspect, ...]
    further: tuple[Iterable[Suspect], ...] = ()
    readings: tuple[Suspect, ...] = ()


def lineup(problem: AnyProblem, inputs: Arrays) -> Lineup:
    """Every wrong kernel of the problem's kind that is relevant to it."""
    match problem:
        case Problem():
            return _of_attention(problem, inputs)
        case RotaryProblem():
            return _of_others(TURNING, problem, inputs)
        case LinearProblem():
            return _of_others(RECURRENCES, problem, inputs)


def _of_others(catalogue: Sequence[WrongOf[Other]], problem: Other, inputs: Arrays) -> Lineup:
    shown = (wrong for wrong in catalogue if wrong.relevant(problem) and wrong.shows(problem, inputs))
    return Lineup(tuple(_whole(wrong, problem, inputs) for wrong in shown))


def _whole(wrong: WrongOf[Other], problem: Other, inputs: Arrays) -> Suspect:
    """A part of it would cost as much as the whole."""
    return Suspect(wrong.name, wrong.words, lambda _: wrong.outputs(problem, inputs))


def _of_attention(problem: Problem, inputs: Arrays) -> Lineup:
    workshop = Workshop(problem, inputs)
    known = catalogue.relevant(problem)
    alone = tuple(_alone(workshop, wrong) for wrong in known)

    def relevant(wrongs: Iterable[Wrong]) -> Iterator[Suspect]:
        return (_alone(workshop, wrong) for wrong in wrongs if wrong.relevant(problem))

    others = tuple(relevant(readings.READINGS))
    likely = chain(relevant((*scores.HYPOTHESES, *masks.HYPOTHESES)), others, relevant(blocks.HYPOTHESES))
    return Lineup(alone, (likely, _pairs(workshop, known)), others)


def _alone(workshop: Workshop, wrong: Wrong) -> Suspect:
    return Suspect(wrong.name, wrong.words, lambda parts: _computed(workshop, wrong.change(workshop.right), parts))


def _computed(workshop: Workshop, recipe: Recipe, parts: Parts | None) -> dict[str, Float]:
    return workshop.compute(recipe if parts is None else replace(recipe, parts=parts))


def _pairs(workshop: Workshop, known: Iterable[Wrong]) -> Iterator[Suspect]:
    """Two faults at once, as a feature that a kernel ignores in a path that gets its blocks wrong."""
    right = workshop.right
    problem = right.problem
    if problem.batch * problem.heads * problem.rows * problem.capacity > PAIRS_UP_TO:
        return
    for first, second in combinations([wrong for wrong in known if wrong.pairs], 2):
        once = first.change(right)
        if not second.relevant(once.problem):
            continue
        twice = second.change(once)
        if _both_stand(right, once, twice):
            yield Suspect("", f"{first.words}, and {second.words}", partial(_computed, workshop, twice))


def _both_stand(neither: Recipe, once: Recipe, twice: Recipe) -> bool:
    """Whether the second change left the steps alone that the first one replaced."""
    steps = [field.name for field in fields(Recipe) if field.name not in ("problem", "inputs", "parts")]
    return all(
        getattr(once, step) is getattr(neither, step) or getattr(twice, step) is getattr(once, step) for step in steps
    )
