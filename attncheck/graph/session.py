"""A session: cases that run one after the other, each with the present of the one before as its past.

A case by itself is a session of one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from attncheck.graph import write
from attncheck.graph.case import Case, Origin
from attncheck.problem import AnyProblem, LinearProblem, Problem, Tensor
from attncheck.scenario import steps
from attncheck.scenario.model import Scenario


@dataclass(frozen=True)
class Session:
    """What one result is about. `digest` names the content of all its cases, as each case's does."""

    id: str
    origin: Origin
    digest: str
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Bound:
    """What an input is given: the output of this name of the case before, its first `rows` slots."""

    output: str
    rows: int


def session(given: Scenario | Case) -> Session:
    """The cases of a scenario, written; a case that is there already by itself.

    The past of a later step is written as generated: whoever knows the presents puts them in its place.
    """
    if isinstance(given, Case):
        return Session(given.id, given.origin, given.digest, (given,))
    cases = tuple(write.build(call) for call in steps.calls(given))
    if len(cases) == 1 and not given.steps:
        return Session(given.id, given, cases[0].digest, cases)
    content = hashlib.sha256("\n".join(case.digest for case in cases).encode())
    return Session(given.id, given, content.hexdigest(), cases)


def bindings(before: AnyProblem, after: AnyProblem) -> Mapping[str, Bound]:
    """The inputs of `after` that the presents of `before` are for; none where the caller keeps the cache."""
    handed: tuple[tuple[Tensor | None, Tensor | None], ...] = ()
    rows = 0
    if isinstance(before, LinearProblem) and isinstance(after, LinearProblem):
        handed, rows = ((after.past_state, before.present_state),), after.head_dim
    elif isinstance(before, Problem) and isinstance(after, Problem):
        handed = ((after.past_key, before.present_key), (after.past_value, before.present_value))
        # Pages are handed on whole: of the last two axes the first is that of the heads.
        rows = after.kv_heads if after.paged else after.past_capacity
    return {
        past.name: Bound(present.name, rows) for past, present in handed if past is not None and present is not None
    }
