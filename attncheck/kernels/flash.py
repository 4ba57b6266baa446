"""Flash attention: tiles of query rows over tiles of keys, with scores and sums in registers; in two forms."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attncheck.kernels.draft import Draft, Limits, View
from attncheck.kernels.online import LOOP_ROUNDS
from attncheck.kernels.operands import Operands
from attncheck.problem import Problem

LINES, DIM_QUADS, COLUMNS, KEYS, ABREAST = 16, 4, 8, 64, 4
"""Of flash.wgsl: invocations down a tile, quads of head_dim in a stage, invocations abreast on a row, keys in a
tile, and keys that a round of its last loop takes."""

VALUE_COLUMNS = (2, 4, 8)
"""Quads of v_head_dim that an invocation sums, in the widths there are: up to 64, 128 and 256 dims."""


@dataclass(frozen=True)
class Form:
    """The shader in one of its sizes.

    parts            quads of rows that an invocation owns: a tile is LINES quads of each
    widest           v_head_dim up to which registers hold the sums
    workgroup_bytes  memory that its workgroups share, at most
    """

    parts: int
    widest: int
    workgroup_bytes: int

    def lacks(self, problem: Problem, limits: Limits) -> str | None:
        """Heads that are not whole vectors, or too wide; and on software more keys than loops may take."""
        for name, dim in (("head_dim", problem.head_dim), ("v_head_dim", problem.v_head_dim)):
            if dim % 4:
                return f"{name} {dim}, no multiple of 4"
        if problem.v_head_dim > self.widest:
            return f"v_head_dim {problem.v_head_dim}, above {self.widest}"
        if limits.workgroup_bytes < self.workgroup_bytes:
            return f"an adapter with less than {self.workgroup_bytes} bytes of workgroup memory"
        keys = self.most_keys(problem)
        if limits.software and max(problem.kv_len) > keys:
            return f"kv_len {max(problem.kv_len)}, above {keys} on a software adapter"
        return None

    def attend(self, draft: Draft[Problem], given: Operands, output: View) -> None:
        """One dispatch a part of the members, a workgroup a tile of a KV head's rows, those with most keys first."""
        problem = draft.problem
        head_tiles = -(-problem.group * problem.rows // (4 * LINES * self.parts))
        places = given.query.place("query") | given.key.strides("key")
        places |= given.value.strides("value") | output.place("output")
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
        aliases = {"elem": draft.elem, "query_elem": given.query.elem}
        constants = self.constants(problem)
        for part, ranges, skips in given.parts(problem, draft.limits):
            members = part.end - part.first
            place = {"tiles": members * head_tiles, "members": members, "first_member": part.first}
            place |= {name: skip // 4 for name, skip in skips.items()}
            draft.dispatch("flash", aliases, params | place, bindings, members * head_tiles, constants, ranges=ranges)

    def constants(self, problem: Problem) -> dict[str, int]:
        """What the shader is specialised by."""
        columns, chunk = _columns(problem), _chunk(problem)
        products = 4 * DIM_QUADS * (self.parts * LINES + KEYS // 4)
        weighed = chunk * (self.parts * LINES + 1 + COLUMNS * columns)
        return {"PARTS": self.parts, "KEY_CHUNK": chunk, "VALUE_COLUMNS": columns, "STAGE": max(products, weighed)}

    def most_keys(self, problem: Problem) -> int:
        """Keys whose loops stay within LOOP_ROUNDS, each counted as it stands in the text, unrolled or not."""
        columns, chunk = _columns(problem), _chunk(problem)
        products = -(-problem.head_dim // (4 * DIM_QUADS)) * (1 + DIM_QUADS)
        judging, reducing = self.parts * KEYS // COLUMNS, self.parts * COLUMNS
        staging = chunk * columns // LINES + chunk // COLUMNS
        values = KEYS // chunk * (1 + staging + chunk // ABREAST)
        around = self.parts * (4 * LINES + COLUMNS) + 4
        return (LOOP_ROUNDS - around) // (1 + products + judging + reducing + values) * KEYS


SMALL = Form(parts=1, widest=256, workgroup_bytes=16 << 10)
LARGE = Form(parts=2, widest=128, workgroup_bytes=24 << 10)


def _columns(problem: Problem) -> int:
    return next(columns for columns in VALUE_COLUMNS if 4 * COLUMNS * columns >= problem.v_head_dim)


def _chunk(problem: Problem) -> int:
    """Keys whose weights and values are staged together, within the memory of a form."""
    return 8 if _columns(problem) > 4 else 16
