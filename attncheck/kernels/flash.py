"""Flash attention: tiles of query rows over tiles of keys, with scores and sums in registers."""

from __future__ import annotations

import math

from attncheck.kernels.draft import Draft, Limits, View
from attncheck.kernels.online import LOOP_ROUNDS
from attncheck.kernels.operands import Operands
from attncheck.problem import Problem

ROW_QUADS, DIM_QUADS, COLUMNS, KEYS = 16, 4, 8, 64
"""Of flash.wgsl: quads of rows in a tile and of head_dim in a stage, invocations abreast on a row, keys in a tile."""

VALUE_COLUMNS = (2, 4, 8)
"""Quads of v_head_dim that an invocation sums, in the forms there are: up to 64, 128 and 256 dims."""


def lacks(problem: Problem, limits: Limits) -> str | None:
    """Heads that are not whole vectors, and on software more keys than loops may take."""
    for name, dim in (("head_dim", problem.head_dim), ("v_head_dim", problem.v_head_dim)):
        if dim % 4:
            return f"{name} {dim}, no multiple of 4"
    keys = most_keys(problem)
    if limits.software and max(problem.kv_len) > keys:
        return f"kv_len {max(problem.kv_len)}, above {keys} on a software adapter"
    return None


def attend(draft: Draft[Problem], given: Operands, output: View) -> None:
    """One dispatch a part of the members, a workgroup for 64 packed rows of a KV head, tiles with most keys first."""
    problem = draft.problem
    columns = _columns(problem)
    chunk = _chunk(columns)
    head_tiles = -(-problem.group * problem.rows // (4 * ROW_QUADS))
    places = given.query.place("query") | given.key.strides("key")
    places |= given.value.strides("value") | output.strides("output")
    params: dict[str, int | float] = {name: place // 4 for name, place in places.items()}
    params |= {
        "kv_heads": problem.kv_heads,
        "head_group": problem.group,
        "rows": problem.rows,
        "head_quads": problem.head_dim // 4,
        "value_quads": problem.v_head_dim // 4,
        "mean": int(problem.averages_empty_rows),
        "factor": problem.scale / problem.softcap if problem.softcap else problem.scale * math.log2(math.e),
        "cap": problem.softcap * math.log2(math.e),
    }
    params |= given.bias.params | given.sinks.params
    operands = (given.visible, given.query.buffer, given.key.buffer, given.value.buffer)
    bindings = (*operands, output.buffer, given.bias.buffer, given.sinks.buffer)
    products = 4 * DIM_QUADS * (ROW_QUADS + KEYS // 4)
    stage = max(products, chunk * (ROW_QUADS + 1 + COLUMNS * columns))
    constants = {"KEY_CHUNK": chunk, "VALUE_COLUMNS": columns, "STAGE": stage}
    for part, ranges, skips in given.parts(problem, draft.limits):
        members = part.end - part.first
        place = {"tiles": members * head_tiles, "members": members, "first_member": part.first}
        place |= {name: skip // 4 for name, skip in skips.items()}
        aliases = {"elem": draft.elem, "query_elem": given.query.elem}
        draft.dispatch("flash", aliases, params | place, bindings, members * head_tiles, constants, ranges=ranges)


def _columns(problem: Problem) -> int:
    return next(columns for columns in VALUE_COLUMNS if 4 * COLUMNS * columns >= problem.v_head_dim)


def _chunk(columns: int) -> int:
    """Keys whose weights and values are staged together, within 16 KiB."""
    return 8 if columns > 4 else 16


def most_keys(problem: Problem) -> int:
    """Keys whose loops stay within LOOP_ROUNDS, each counted as it stands in the text, unrolled or not."""
    columns = _columns(problem)
    chunk = _chunk(columns)
    products = -(-problem.head_dim // (4 * DIM_QUADS)) * (1 + DIM_QUADS)
    judging, reducing = KEYS // COLUMNS, COLUMNS
    staging = chunk * columns // ROW_QUADS + chunk // COLUMNS
    values = KEYS // chunk * (1 + staging + chunk)
    around = 4 * ROW_QUADS + COLUMNS + 4
    return (LOOP_ROUNDS - around) // (1 + products + judging + reducing + values) * KEYS
