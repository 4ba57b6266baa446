"""What a backend declares that it does not cover: condition, reason, and the versions of its runtime that refuse."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from attncheck.graph.case import Case
from attncheck.problem import Problem

Version = tuple[int, ...]


@dataclass(frozen=True)
class Refusal:
    """One declared limit of a runtime: versions from `since` on and before `until`, None for no bound.

    A refusal that no declaration covers is an `error`: the declaration is what is checked, not what is believed.
    """

    applies: Callable[[Case, Problem], bool]
    reason: str
    since: Version | None = None
    until: Version | None = None

    def holds(self, case: Case, problem: Problem, version: Version) -> bool:
        """Whether a runtime of this version refuses the case."""
        return (
            (self.since is None or version >= self.since)
            and (self.until is None or version < self.until)
            and self.applies(case, problem)
        )


def first(refusals: Iterable[Refusal], case: Case, problem: Problem, version: str) -> str | None:
    """The reason of the first refusal that holds for a runtime of this version, or None."""
    parsed = parse(version)
    return next((refusal.reason for refusal in refusals if refusal.holds(case, problem, parsed)), None)


def parse(version: str) -> Version:
    """The numbers in front of a version: 1.23.2 -> (1, 23, 2), 1.27.0.dev3 -> (1, 27, 0)."""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else ()
