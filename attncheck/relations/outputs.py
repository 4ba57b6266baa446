"""What the outputs of a scenario must be, from those of its twin, step by step. Pure functions of arrays by role."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attncheck.problem import AnyProblem, Problem
from attncheck.relations.changes import V
from attncheck.relations.relation import Roles

ROWS = ("output", "turned")
"""Roles that have a row for every new token."""
PRESENTS = ("present_key", "present_value", "present", "present_state")
"""Roles that a call hands on."""


def same(_: AnyProblem, _own: Roles, twin: Sequence[Roles]) -> Roles:
    """All of the twin's one step."""
    return twin[0]


def rows(_: AnyProblem, _own: Roles, twin: Sequence[Roles]) -> Roles:
    """What it has for every new token."""
    return {role: array for role, array in twin[0].items() if role in ROWS}


def joined(_: AnyProblem, _own: Roles, twin: Sequence[Roles]) -> Roles:
    """The rows of all steps one after the other, and the presents of the last."""
    presents = {role: array for role, array in twin[-1].items() if role in PRESENTS}
    return presents | {
        role: np.concatenate([step[role] for step in twin], axis=2) for role in twin[-1] if role in ROWS
    }


def one_of_each_group(_: AnyProblem, own: Roles, twin: Sequence[Roles]) -> Roles:
    """The presents of repeated heads, each KV head once."""
    found = dict(twin[0])
    for role in PRESENTS:
        if role in own and role in found:
            found[role] = found[role][:, :: found[role].shape[1] // own[role].shape[1]]
    return found


def reversed_batch(problem: AnyProblem, _: Roles, twin: Sequence[Roles]) -> Roles:
    """The batch entries in reverse order. Pages stay where they are, whichever sequence has them."""
    stay = PRESENTS if isinstance(problem, Problem) and problem.paged else ()
    return {role: array if role in stay else array[::-1] for role, array in twin[0].items()}


def constant(_: AnyProblem, own: Roles, _twin: Sequence[Roles]) -> Roles:
    """The number that V is."""
    return {"output": np.full(own["output"].shape, V)}


def other_packing(_: AnyProblem, own: Roles, twin: Sequence[Roles]) -> Roles:
    """The same, and of rows that follow each other in one entry: those of each entry, or the other way round."""
    if "turned" not in own or own["turned"].shape == twin[0]["turned"].shape:
        return twin[0]
    (batch, heads, count, dim), wanted = twin[0]["turned"].shape, own["turned"].shape
    entries = max(batch, wanted[0])
    if batch == 1:
        apart = twin[0]["turned"].reshape(heads, entries, count // entries, dim)
        return {"turned": apart.transpose(1, 0, 2, 3)}
    return {"turned": twin[0]["turned"].transpose(1, 0, 2, 3).reshape(wanted)}
