"""What a backend declares that it does not cover: condition, reason, and the versions of its runtime that refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from attncheck.backends.base import Hello
from attncheck.graph.case import Case
from attncheck.problem import Problem


@dataclass(frozen=True)
class Refusal:
    """One declared limit of a runtime, in the versions that have it (">=1.20,<1.24"; "" for all that are served).

    A refusal that no declaration covers is an `error`: the declaration is what is checked, not what is believed.
    """

    applies: Callable[[Case, Problem, Hello], bool]
    reason: str
    versions: str = ""

    def holds(self, case: Case, problem: Problem, hello: Hello, version: Version) -> bool:
        """Whether a runtime of this version, on the device that `hello` tells of, refuses the case."""
        return SpecifierSet(self.versions).contains(version, prereleases=True) and self.applies(case, problem, hello)


def first(refusals: Iterable[Refusal], case: Case, problem: Problem, hello: Hello, runtime: str) -> str | None:
    """The reason of the first refusal that holds, or None. `runtime` is the package whose version counts."""
    version = Version(hello.versions[runtime])
    return next((refusal.reason for refusal in refusals if refusal.holds(case, problem, hello, version)), None)


def older(version: str, oldest: str) -> bool:
    """Whether a runtime is older than the oldest that serves."""
    return Version(version) < Version(oldest)
