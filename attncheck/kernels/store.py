"""Rows into consecutive slots of a tensor, as they are or turned by their positions."""

from __future__ import annotations

from typing import Any

from attncheck.kernels.draft import INVOCATIONS, Draft, View, itemsize
from attncheck.kernels.plan import Buffer
from attncheck.problem import Rotary


def store(
    draft: Draft[Any],
    extents: str,
    source: View,
    slots: View,
    stored: str,
    rotary: Rotary | None = None,
    elem: str | None = None,
) -> None:
    """Store the valid rows of `source` in consecutive slots, as `stored`, turned where there is a rotary.

    extents  a buffer [batch] of pairs: the first slot, and how many rows are stored
    elem     what `source` holds, if not the problem's dtype
    """
    total = draft.problem.batch * source.heads * source.rows * source.dim
    copying = {"total": total, "heads": source.heads, "rows": source.rows, "dim": source.dim}
    copying |= source.strides("source") | slots.strides("slot")
    copying |= {"source_first": source.first}
    aliases = {"elem": elem or draft.elem, "stored": stored}
    groups = -(-total // INVOCATIONS)
    if rotary is None:
        draft.dispatch("append", aliases, copying, (extents, source.buffer, slots.buffer), groups)
        return
    turning = {
        "rotary_dim": rotary.dim,
        "interleaved": int(rotary.style == "interleaved"),
        "positions_batch": rotary.positions.shape[1],
    }
    positions = draft.constant("positions", rotary.positions)
    for cache in (rotary.cos, rotary.sin):
        rows_read = int(rotary.positions.max(initial=0)) + 1
        draft.buffers[cache] = Buffer(cache, rows_read * (rotary.dim // 2) * itemsize(draft.elem), input=cache)
    bindings = (extents, positions, rotary.cos, rotary.sin, source.buffer, slots.buffer)
    draft.dispatch("rotary", aliases, copying | turning, bindings, groups)
