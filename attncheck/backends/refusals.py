"""What a backend declares that it does not cover: condition, reason, and the versions of its runtime that refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from attncheck.backends.base import Hello
from attncheck.graph.case import Case
from attncheck.problem import AnyProblem, Problem


@dataclass(frozen=True)
class Refusal:
    """One declared limit of a runtime on attention, in the versions that have it (">=1.20,<1.24"; "" for all).

    A refusal that no declaration covers is an `error`: the declaration is what is checked, not what is believed.
    """

    applies: Callable[[Case, Problem, Hello], bool]
    reason: str
    versions: str = ""

    def holds(self, case: Case, problem: AnyProblem, hello: Hello) -> bool:
        """Whether the case is attention, and refused on the device that `hello` tells of."""
        return isinstance(problem, Problem) and self.applies(case, problem, hello)


@dataclass(frozen=True)
class RefusalOfAny:
    """As `Refusal`, on problems of any kind."""

    applies: Callable[[Case, AnyProblem, Hello], bool]
    reason: str
    versions: str = ""

    def holds(self, case: Case, problem: AnyProblem, hello: Hello) -> bool:
        """Whether the case is refused on the device that `hello` tells of."""
        return self.applies(case, problem, hello)


Declared = Refusal | RefusalOfAny


def first(refusals: Iterable[Declared], case: Case, problem: AnyProblem, hello: Hello, runtime: str) -> str | None:
    """The reason of the first refusal that holds, or None. `runtime` is the package whose version counts."""
    version = Version(hello.versions[runtime])
    return next(
        (
            refusal.reason
            for refusal in refusals
            if SpecifierSet(refusal.versions).contains(version, prereleases=True)
            and refusal.holds(case, problem, hello)
        ),
        None,
    )


def older(version: str, oldest: str) -> bool:
    """Whether a runtime is older than the oldest that serves."""
    return Version(version) < Version(oldest)
