"""Keys in slices of one length, for few query rows: which there are, their partial results, and the merge of these."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attncheck.kernels.draft import ELEMENTS, Draft, View, itemsize
from attncheck.kernels.operands import Operands
from attncheck.kernels.visible import visible_rows
from attncheck.problem import Problem

MERGED_DIMS = 32
"""DIMS of decode_merge.wgsl."""

SCRATCH = 0.015
"""Most bytes of partial results for a byte of keys and values in a full slice. A short last one adds as much as a full
one: 3% in all at most where there are several. One alone takes little more than the output in float32 does."""


@dataclass(frozen=True)
class Slices:
    """The slices that any row goes over, and where their partial results lie.

    span      slots of a slice; slice i begins at slot i * span, whatever the lengths of the batch
    first     the first of them
    count     how many there are
    rows      packed rows of a KV head that have partial results: the group's heads times query rows, or more
    partials  the buffer [batch, kv_heads, rows, count, v_head_dim + 2] f32: sums of weighted values, running maximum in
              log2 units, running sum of the weights
    """

    span: int
    first: int
    count: int
    rows: int
    partials: str

    def params(self, problem: Problem) -> dict[str, int]:
        """The uniforms that shaders of slices have in common."""
        place = {"slice": self.span, "first_slice": self.first, "slices": self.count, "partial_rows": self.rows}
        shape = {"kv_heads": problem.kv_heads, "head_group": problem.group, "rows": problem.rows}
        return place | shape | {"v_head_dim": problem.v_head_dim}


def sliced(draft: Draft[Problem], span: int, rows: int) -> Slices:
    """The slices of `span` slots, with a buffer for the partial results of `rows` packed rows."""
    problem = draft.problem
    seen = visible_rows(problem)
    goes = seen[..., 2] < seen[..., 3]
    first = int(seen[..., 2].min(where=goes, initial=problem.capacity)) // span
    count = max(0, -(-int(seen[..., 3].max(initial=0)) // span) - first)
    members = problem.batch * problem.kv_heads
    partials = draft.room("partials", max(4, members * rows * count * _row_bytes(problem)))
    return Slices(span, first, count, rows, partials)


def span_of(problem: Problem, rows: int, grain: int) -> int:
    """The least multiple of `grain` slots for which the partial results of `rows` packed rows take SCRATCH at most.

    By the shape of a key and its rows alone: neither kv_len nor other members of the batch move the borders of slices.
    """
    key_bytes = (problem.head_dim + problem.v_head_dim) * itemsize(ELEMENTS[problem.dtype])
    return grain * max(1, math.ceil(rows * _row_bytes(problem) / (SCRATCH * key_bytes * grain)))


def split(
    draft: Draft[Problem],
    given: Operands,
    slices: Slices,
    shader: str,
    tile_rows: int,
    width: int,
    params: Mapping[str, int],
    aliases: Mapping[str, str],
    constants: Mapping[str, int],
    directives: Sequence[str] = (),
) -> None:
    """The partial results: dispatches of `shader`, a workgroup for `tile_rows` packed rows of a KV head and a slice.

    width    elements in a word of keys and values, in which their skips are counted
    params   the uniforms that the shaders have not in common
    """
    problem = draft.problem
    row_tiles = -(-slices.rows // tile_rows)
    uniforms: dict[str, int | float] = {**slices.params(problem), "row_tiles": row_tiles, **params}
    uniforms |= {"mean": int(problem.averages_empty_rows), "scale": problem.scale, "softcap": problem.softcap}
    uniforms |= given.query.place("query") | given.bias.params
    operands = (given.visible, given.query.buffer, given.key.buffer, given.value.buffer)
    bindings = (*operands, given.bias.buffer, slices.partials)
    for part, ranges, skips in given.parts(problem, draft.limits):
        total = (part.end - part.first) * row_tiles * slices.count
        place = {"total": total, "first_member": part.first}
        place |= {name: skip // width for name, skip in skips.items()}
        draft.dispatch(shader, aliases, uniforms | place, bindings, total, constants, directives, ranges)


def merge(draft: Draft[Problem], given: Operands, slices: Slices, output: View) -> None:
    """Bring the partial results of each row to their common maximum; sinks enter here, once."""
    problem = draft.problem
    dim_blocks = -(-problem.v_head_dim // MERGED_DIMS)
    total = problem.batch * problem.heads * problem.rows * dim_blocks
    params = slices.params(problem) | {"total": total, "dim_blocks": dim_blocks} | output.place("output")
    bindings = (given.visible, slices.partials, given.sinks.buffer, output.buffer)
    draft.dispatch("decode_merge", {"elem": draft.elem}, params | given.sinks.params, bindings, total)


def _row_bytes(problem: Problem) -> int:
    """Bytes of a row's partial result."""
    return 4 * (problem.v_head_dim + 2)
