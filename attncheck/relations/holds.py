"""Whether a relation holds between what a backend computed for a scenario and for its twin.

    |own - corresponding(twin)| <= tolerance(own) + corresponding(tolerance(twin))

Each side may be off by the tolerance that it has against the oracle, and no more; what the right numbers are does not
matter. Two relations compare what differs by design, by a softcap or by rounded inputs: there the exact difference is
added to the twin, and the same must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.compare import judge
from attncheck.compare.arithmetic import Compute
from attncheck.compare.difference import Difference
from attncheck.oracle.answer import Answer
from attncheck.problem import AnyProblem, Arrays, judged_heads, role_of
from attncheck.relations.relation import Relation, Roles
from attncheck.tensors.dtypes import dtype


@dataclass(frozen=True)
class Side:
    """One call: its problem with the oracle's answers, and what a backend gave for it by its arithmetic."""

    problem: AnyProblem
    answers: tuple[Answer, ...]
    outputs: Arrays
    compute: Compute


def differences(relation: Relation, own: Side, twin: Sequence[Side], subject: str) -> tuple[Difference, ...]:
    """One Difference a role that both sides have: `own` against what corresponds to it of `twin`, step by step."""
    named = {role_of(own.problem.outputs, each.output).name: each.output for each in own.answers}
    parts = [_expected(relation, own, twin, of) for of in (_got, _exact, _tolerance, _stated)]
    found = []
    for role in parts[0][1]:
        if role not in parts[0][0]:
            continue
        got, exact, tolerance, stated = (_both(mine[role], other[role]) for mine, other in parts)
        # What lies nowhere, a row that an entry does not have, is NaN there.
        where = (stated[0] == 1.0) & (stated[1] == 1.0)
        with np.errstate(invalid="ignore"):
            expected = got[1] + np.where(where, exact[0] - exact[1], 0.0) if relation.by_design else got[1]
        if where.any():
            allowed = tolerance[0] + tolerance[1]
            found.append(judge.held(role, named[role], subject, relation.twin_words, got[0], expected, allowed, where))
    return tuple(found)


def _both(own: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two arrays cut to the rows that both have: presents may have more slots on one side."""
    rows = min(own.shape[2], other.shape[2])
    return own[:, :, :rows], other[:, :, :rows]


Of = Callable[[Side, Answer], NDArray[Any]]


def _expected(relation: Relation, own: Side, twin: Sequence[Side], of: Of) -> tuple[Roles, Roles]:
    """Something of each element of the own side, and of what corresponds to it on the other."""
    mine = _roles(own, of)
    if not relation.alone:
        return mine, relation.corresponds(own.problem, mine, [_roles(side, of) for side in twin])
    fixed = relation.corresponds(own.problem, mine, ())
    # A number that is known needs no tolerance, and is stated everywhere.
    known = {_tolerance: 0.0, _stated: 1.0}
    return mine, {role: np.full_like(array, known[of]) if of in known else array for role, array in fixed.items()}


def _roles(side: Side, of: Of) -> Roles:
    found = {}
    for answer in side.answers:
        role = role_of(side.problem.outputs, answer.output)
        if role.name != "scores":
            found[role.name] = judged_heads(of(side, answer), role)
    return found


def _got(side: Side, answer: Answer) -> NDArray[Any]:
    return judge.widened(side.problem, answer, side.outputs)


def _exact(_: Side, answer: Answer) -> NDArray[Any]:
    return answer.values


def _tolerance(side: Side, answer: Answer) -> NDArray[Any]:
    return judge.tolerances(answer, dtype(side.problem.dtype), side.compute, None)


def _stated(_: Side, answer: Answer) -> NDArray[Any]:
    return answer.stated.astype(np.float64)
