"""A relation, and what it makes of one scenario: the cases to run, and how their outputs must correspond."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.graph import read
from attncheck.graph.case import Case, digest
from attncheck.graph.session import Session, session
from attncheck.problem import AnyProblem
from attncheck.scenario import Scenario

Roles = Mapping[str, NDArray[Any]]
"""Role ("output", "turned", "present_key", "present_state", ...) -> its array, [batch, heads, rows, dim]."""

Inputs = Mapping[str, NDArray[np.generic]]
Twin = Scenario | str
"""What a scenario is compared with; or, in words, why a relation says nothing of it."""


@dataclass(frozen=True)
class Given:
    """A call: its problem and its inputs."""

    problem: AnyProblem
    inputs: Inputs


Change = Callable[[Given, Given], Inputs]
"""What a call is given instead, of the same names, shapes and dtypes; the second is the scenario's own call."""
Corresponds = Callable[[AnyProblem, Roles, Sequence[Roles]], Roles]
"""Of the scenario's own problem and outputs, and of the twin's outputs step by step."""


@dataclass(frozen=True)
class Relation:
    """What must hold of every backend, by arithmetic alone.

    words        the rule, in a sentence
    breaks       what a kernel gets wrong where it does not hold
    twin         the scenario that a scenario is compared with, or why the relation says nothing of it
    twin_words   what that is, to follow "differs from"
    corresponds  what the outputs must be, from the scenario's own (for their shapes) and from the twin's, step by step
    own          how the inputs of the scenario itself are changed, where they are
    change       how the inputs of the twin are changed, where they are
    alone        no twin is run: `corresponds` is told none
    by_design    the twin's exact outputs are others, by a known difference
    """

    name: str
    words: str
    breaks: str
    twin: Callable[[Scenario], Twin]
    twin_words: str
    corresponds: Corresponds
    own: Change | None = None
    change: Change | None = None
    alone: bool = False
    by_design: bool = False


SIGN = "/"
"""What stands in an id between a case and a relation of it."""


@dataclass(frozen=True)
class Related:
    """One relation of one scenario: a case of its own, with the id `window.yaml::edges:window=3/padded-buffer`."""

    relation: Relation
    scenario: Scenario
    twin: Scenario

    @property
    def id(self) -> str:
        """The case's address."""
        return f"{self.scenario.id}{SIGN}{self.relation.name}"

    @property
    def origin(self) -> Scenario:
        """The scenario, as results name it."""
        return replace(self.scenario, id=self.id, about=self.relation.words)

    def sessions(self) -> tuple[Session, ...]:
        """What is run: the scenario, and its twin where there is one."""
        own = session(self.scenario)
        changed = _changed(own, self.relation.own, own)
        if self.relation.alone:
            return (changed,)
        return changed, _changed(session(self.twin), self.relation.change, own)


def split(address: str) -> tuple[str, str]:
    """An address into that of a case and the name of a relation, "" where there is none: a path may have a `/`."""
    file, between, case = address.partition("::")
    name, _, relation = case.partition(SIGN)
    return f"{file}{between}{name}", relation


def content(sessions: Sequence[Session]) -> str:
    """The digest of all that is run."""
    return hashlib.sha256("\n".join(each.digest for each in sessions).encode()).hexdigest()


def _changed(whole: Session, change: Change | None, own: Session) -> Session:
    if change is None:
        return whole
    first = _given(own.cases[0])
    cases = tuple(_with(case, change(_given(case), first)) for case in whole.cases)
    return replace(whole, cases=cases, digest=hashlib.sha256("\n".join(it.digest for it in cases).encode()).hexdigest())


def _given(case: Case) -> Given:
    return Given(read.any_problem(case.model, case.inputs), case.inputs)


def _with(case: Case, inputs: Inputs) -> Case:
    return replace(case, inputs=inputs, digest=digest(case.model, inputs))
