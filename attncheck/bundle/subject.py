"""What a bundle is about: one case that failed on one backend, with all that decides what it computes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.backends.base import Hello, Launch
from attncheck.compare.difference import Difference
from attncheck.engine.events import Result
from attncheck.graph.case import Case, Origin
from attncheck.graph.session import Bound
from attncheck.oracle.answer import Answer
from attncheck.problem import AnyProblem, role_of, split_heads
from attncheck.reports import rows
from attncheck.scenario.model import Scenario


@dataclass(frozen=True)
class Call:
    """One call of those that it takes to show a failure.

    payload  what the worker was given to compute it
    bind     inputs that are what the call before has left as an output; in the case stands what the oracle has there
    """

    case: Case
    problem: AnyProblem
    answers: tuple[Answer, ...]
    payload: Mapping[str, Any]
    bind: Mapping[str, Bound] = field(default_factory=dict)

    def feeds(self, *, held: bool = False) -> dict[str, NDArray[np.generic]]:
        """Its arrays: not what the call before left, nor, unless `held`, what the graph holds itself."""
        names = self.case.inputs if held else self.case.fed
        return {name: self.case.inputs[name] for name in names if name not in self.bind}


@dataclass(frozen=True)
class Subject:
    """A failure that was seen.

    case       the one call that fails: of a session, the step by itself with its past
    answers    of the oracle; none for a graph that must be refused
    result     of the backend; reference: of the reference, where there is one
    launch     how the backend's worker was started, its environment made; hello: what it said of itself
    required   packages that its environment was made of, as pip writes them
    time_limit seconds that the backend was given
    payload    what the worker was given to compute the kernel that the result is about
    earlier    calls of the session without which it does not fail, in their order; bind: what it takes of the last
    session    of which these are calls, where there are any
    """

    case: Case
    problem: AnyProblem
    answers: tuple[Answer, ...]
    result: Result
    reference: Result | None
    launch: Launch
    hello: Hello
    payload: Mapping[str, Any]
    required: tuple[str, ...] = ()
    time_limit: float = 60.0
    earlier: tuple[Call, ...] = ()
    bind: Mapping[str, Bound] = field(default_factory=dict)
    session: Scenario | None = None

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call that it takes, the one that fails last."""
        return (*self.earlier, Call(self.case, self.problem, self.answers, self.payload, self.bind))

    @property
    def origin(self) -> Origin:
        """Where what is run comes from: of several calls their session."""
        return self.case.origin if self.session is None else self.session

    @property
    def scenario(self) -> Scenario | None:
        """What the case was written as, None for a model that was there before."""
        return self.case.origin if isinstance(self.case.origin, Scenario) else None

    @property
    def worst(self) -> Difference | None:
        """The difference to tell of: out of tolerance, and against the oracle where one is."""
        found = rows.told(self.result)
        return found if found is not None and not found.passed else None


def index(subject: Subject, worst: Difference) -> tuple[int, ...]:
    """Where the element of a difference stands in its output as the graph gives it."""
    output = next(it for it in subject.case.outputs if it.name == worst.place.output)
    role = role_of(subject.problem.outputs, output.name)
    flat = np.arange(np.prod(output.shape, dtype=int)).reshape(output.shape)
    place = worst.place
    at = int(split_heads(flat, role.tensor.layout, role.shape[1])[place.batch, place.head, place.row, place.dim])
    return tuple(int(one) for one in np.unravel_index(at, output.shape))


@dataclass(frozen=True)
class Piece:
    """What a runtime puts into a script.

    needs      packages to install, as pip writes them
    imports    lines that import them
    constants  lines that say what is computed; inputs are said by the script itself
    run        the function `run(inputs)`, of several calls `run(inputs, at)`: outputs by name, once it has proved what
               ran. It raises CannotRun, and WrongProvider or StrayWrite where these are the failure
    files      further files that must lie beside the script
    lacks      why the script cannot run although it is written; empty where nothing is known to be missing
    held       whether `run` does not run the graph itself, and so takes the arrays that the graph holds too
    """

    needs: tuple[str, ...]
    imports: str
    run: str
    constants: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    lacks: str = ""
    held: bool = False


def plain(data: Any) -> Any:
    """Plain data as JSON holds it: an array as its dtype, shape and elements."""
    return json.loads(json.dumps(data, default=_told))


def _told(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "shape": value.shape, "elements": value.ravel().tolist()}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is no plain data")
