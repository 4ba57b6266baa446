"""Online attention: every tile of query rows goes once over its keys, in as many dispatches as the loops allow."""

from __future__ import annotations

from attncheck.kernels.draft import Draft, View
from attncheck.kernels.operands import Operands
from attncheck.kernels.visible import visible_rows
from attncheck.problem import Problem

INVOCATIONS, ROWS, KEYS = 64, 8, 32
"""LANES, ROWS and KEYS of online.wgsl."""

LOOP_ROUNDS = 60_000
"""Most rounds of all loops of one invocation together: llvmpipe silently ends them after 65,535."""


def attend(draft: Draft[Problem], given: Operands, output: View) -> None:
    """One dispatch a section of the keys, and a part of the members."""
    problem = draft.problem
    head_tiles = -(-problem.group * problem.rows // ROWS)
    tiles = problem.batch * problem.kv_heads * head_tiles
    params: dict[str, int | float] = {
        "kv_heads": problem.kv_heads,
        "head_group": problem.group,
        "rows": problem.rows,
        "head_dim": problem.head_dim,
        "v_head_dim": problem.v_head_dim,
        "mean": int(problem.averages_empty_rows),
        "scale": problem.scale,
        "softcap": problem.softcap,
    }
    params |= given.query.place("query") | given.key.strides("key") | given.value.strides("value")
    params |= output.place("output") | given.bias.params | given.sinks.params
    state = draft.room("online state", 4 * tiles * ROWS * (2 + problem.v_head_dim))
    operands = (given.visible, given.query.buffer, given.key.buffer, given.value.buffer)
    bindings = (*operands, state, output.buffer, given.bias.buffer, given.sinks.buffer)
    sections = _key_sections(problem)
    for part, ranges, skips in given.parts(problem, draft.limits):
        here = params | skips | {"first_tile": part.first * head_tiles, "tiles": part.end * head_tiles}
        for first, end in sections:
            resume, finish = int(first > sections[0][0]), int(end == sections[-1][1])
            place = {"first_slot": first, "end_slot": end, "resume": resume, "finish": finish}
            workgroups = (part.end - part.first) * head_tiles
            draft.dispatch("online", {"elem": draft.elem}, here | place, bindings, workgroups, ranges=ranges)


def _key_sections(problem: Problem) -> list[tuple[int, int]]:
    """The slots gone over, cut into sections [first, end) that one dispatch covers within LOOP_ROUNDS.

    They begin at multiples of their length, which the shape alone decides: no other member of the batch moves them.
    """
    scoring = ROWS * KEYS // INVOCATIONS * (1 + problem.head_dim)
    advancing = 2 * KEYS
    adding = -(-ROWS * problem.v_head_dim // INVOCATIONS) * (1 + KEYS)
    finishing = 4 * -(-ROWS * problem.v_head_dim // INVOCATIONS)
    section = (LOOP_ROUNDS - finishing) // (1 + scoring + advancing + adding) * KEYS
    rows = visible_rows(problem)
    goes = rows[..., 2] < rows[..., 3]
    lowest = int(rows[..., 2].min(where=goes, initial=problem.capacity))
    highest = int(rows[..., 3].max(initial=0))
    firsts = range(lowest // section * section, highest, section)
    return [(first, min(first + section, highest)) for first in firsts] or [(0, 0)]
