"""Rows into consecutive slots of a tensor, as they are or turned by their positions."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    bindings = (extents, positions, *_caches(draft, rotary), source.buffer, slots.buffer)
    draft.dispatch("rotary", aliases, copying | turning, bindings, groups)


def _caches(draft: Draft[Any], rotary: Rotary) -> tuple[str, str]:
    """The buffers of cosines and sines, [positions, rotary_dim / 2]: the graph's, or those of computed angles."""
    rows_read = int(rotary.positions.max(initial=0)) + 1
    if rotary.base:
        angles = rotary.angles(np.arange(rows_read, dtype=np.int32))
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        return draft.constant("cosines", cos), draft.constant("sines", sin)
    for cache in (rotary.cos, rotary.sin):
        draft.buffers[cache] = Buffer(cache, rows_read * (rotary.dim // 2) * itemsize(draft.elem), input=cache)
    return rotary.cos, rotary.sin
