"""Rows into consecutive slots of a tensor, as they are or turned by their positions; of two tensors in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attncheck.kernels.draft import INVOCATIONS, Draft, View, itemsize, own
from attncheck.kernels.parts import parts
from attncheck.kernels.plan import Buffer, Range
from attncheck.problem import Rotary

STRIDES = ("batch", "head", "row")
SKIPS = ("source_skip", "slot_skip", "beside_skip", "beside_slot_skip")


def store(
    draft: Draft[Any],
    extents: str,
    source: View,
    slots: View,
    rotary: Rotary | None = None,
    beside: tuple[View, View] | None = None,
) -> None:
    """Store the valid rows of `source` in consecutive slots, in their dtype, turned where there is a rotary.

    extents  a buffer [batch] of pairs: the first slot, and how many rows are stored
    beside   source and slots of a second tensor, of as many heads and rows and the same dtypes, which is copied in the
             same dispatch
    """
    params = {"heads": source.heads, "rows": source.rows, "dim": source.dim}
    params |= source.place("source") | slots.strides("slot")
    views = [source, slots]
    if beside is not None:
        params |= {"beside_dim": beside[0].dim} | beside[0].place("beside") | beside[1].strides("beside_slot")
        views += beside
    buffers = tuple(view.buffer for view in views)
    aliases = {"elem": source.elem, "stored": slots.elem}
    for part in parts(views, draft.problem.batch * source.heads, draft.limits.binding_bytes):
        rows = (part.end - part.first) * source.rows
        place = {"first_member": part.first, "first_beside": rows * source.dim}
        place |= {"total": rows * (source.dim + params.get("beside_dim", 0))}
        place |= dict(zip(SKIPS, part.skips, strict=False))
        append(draft, aliases, params | place, extents, buffers, rotary, part.ranges)


def append(
    draft: Draft[Any],
    aliases: Mapping[str, str],
    params: Mapping[str, int],
    extents: str,
    buffers: tuple[str, ...],
    rotary: Rotary | None = None,
    ranges: tuple[Range | None, ...] = (),
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
    none |= dict.fromkeys(("beside_dim", "beside_first", "first_member", *SKIPS), 0)
    given = none | turning | dict(params)
    bindings = (extents, *caches, *buffers)
    draft.dispatch("append", aliases, given, bindings, -(-given["total"] // INVOCATIONS), ranges=(None,) * 4 + ranges)


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
