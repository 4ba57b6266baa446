"""A backend under a name of its own, in an interpreter and environment of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from attncheck.backends.base import Backend, Evidence, Hello, Launch, Request
from attncheck.compare.arithmetic import Compute
from attncheck.graph.case import Case
from attncheck.problem import AnyProblem


@dataclass(frozen=True)
class Place:
    """Where a backend's worker runs.

    python        an interpreter, None for attncheck's own
    requirements  packages as pip writes them: an environment with them is made from the interpreter, once
    environment   variables added to the worker's
    """

    python: str | None = None
    requirements: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class Placed:
    """`backend` in all but its name and its worker's place."""

    def __init__(self, backend: Backend, name: str, place: Place) -> None:
        self.name = name
        self._backend = backend
        self._place = place

    def arithmetic(self, problem: AnyProblem) -> Compute:
        """As the backend does."""
        return self._backend.arithmetic(problem)

    def launch(self) -> Launch:
        """The backend's own launch, elsewhere."""
        launch = self._backend.launch()
        return replace(
            launch,
            python=self._place.python or launch.python,
            requirements=self._place.requirements or launch.requirements,
            environment={**launch.environment, **self._place.environment},
        )

    def check(self, hello: Hello) -> None:
        """As the backend does."""
        self._backend.check(hello)

    def unsupported(self, case: Case, problem: AnyProblem, hello: Hello) -> str | None:
        """As the backend declares, for the version that its worker found."""
        return self._backend.unsupported(case, problem, hello)

    def requests(self, case: Case, problem: AnyProblem, hello: Hello) -> Sequence[Request]:
        """As the backend does."""
        return self._backend.requests(case, problem, hello)

    def fallback(self, evidence: Evidence) -> str | None:
        """As the backend does."""
        return self._backend.fallback(evidence)
