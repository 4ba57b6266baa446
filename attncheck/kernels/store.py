"""Rows into consecutive slots of a tensor, as they are or turned by their positions; of two tensors in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attncheck.kernels.draft import INVOCATIONS, Draft, View, itemsize, own
from attncheck.kernels.plan import Buffer
from attncheck.problem import Rotary

STRIDES = ("batch", "head", "row")


def store(
    draft: Draft[Any],
    extents: str,
    source: View,
    slots: View,
    stored: str,
    rotary: Rotary | None = None,
    elem: str | None = None,
    beside: tuple[View, View] | None = None,
) -> None:
    """Store the valid rows of `source` in consecutive slots, as `stored`, turned where there is a rotary.

    extents  a buffer [batch] of pairs: the first slot, and how many rows are stored
    elem     what `source` holds, if not the problem's dtype
    beside   source and slots of a second tensor, of as many heads and rows, which is copied in the same dispatch
    """
    rows = draft.problem.batch * source.heads * source.rows
    params = {"total": rows * source.dim, "first_beside": rows * source.dim, "heads": source.heads}
    params |= {"rows": source.rows, "dim": source.dim, "source_first": source.first}
    params |= source.strides("source") | slots.strides("slot")
    buffers: tuple[str, ...] = (source.buffer, slots.buffer)
    if beside is not None:
        read, written = beside
        params |= {"total": rows * (source.dim + read.dim), "beside_dim": read.dim, "beside_first": read.first}
        params |= read.strides("beside") | written.strides("beside_slot")
        buffers = (*buffers, read.buffer, written.buffer)
    append(draft, {"elem": elem or draft.elem, "stored": stored}, params, extents, buffers, rotary)


def append(
    draft: Draft[Any],
    aliases: Mapping[str, str],
    params: Mapping[str, int],
    extents: str,
    buffers: tuple[str, ...],
    rotary: Rotary | None = None,
) -> None:
    """One dispatch of append.wgsl over a source and its slots, and a second pair where `buffers` has one."""
    turning = {"rotary_dim": 0, "interleaved": 0, "positions_batch": 0}
    caches = (draft.constant("nothing", np.zeros(1, np.int32)),) * 3
    if rotary is not None:
        turning = {"rotary_dim": rotary.dim, "interleaved": int(rotary.style == "interleaved")}
        turning |= {"positions_batch": rotary.positions.shape[1]}
        caches = (draft.constant("positions", rotary.positions), *_caches(draft, rotary))
    if len(buffers) == 2:
        draft.buffers[own("no slots")] = Buffer(own("no slots"), 4)
        buffers = (*buffers, caches[0], own("no slots"))
    none = {f"{role}_{axis}": 0 for role in ("beside", "beside_slot") for axis in STRIDES}
    given = none | {"beside_dim": 0, "beside_first": 0} | turning | dict(params)
    draft.dispatch("append", aliases, given, (extents, *caches, *buffers), -(-given["total"] // INVOCATIONS))


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
