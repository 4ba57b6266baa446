"""Rows that lie scattered in an array: copied together before kernels see them, and back after."""

from __future__ import annotations

import math

import numpy as np

from attncheck.kernels.draft import INVOCATIONS, Draft, View, itemsize
from attncheck.kernels.plan import Buffer
from attncheck.kernels.store import STRIDES, append
from attncheck.problem import Problem, Scattered, Tensor


def gathered(draft: Draft[Problem], role: str, tensor: Tensor, at: Scattered, heads: int, dim: int) -> View:
    """The rows of an input [batch, heads, rows, dim] in a buffer of their own; one that lies nowhere is not written."""
    draft.buffers[tensor.name] = Buffer(tensor.name, _bytes(draft, at), input=tensor.name)
    rows = draft.scratch(f"gathered {role}", draft.elem, heads, at.places.shape[1], dim)
    params = _params(draft, rows, at, (tensor.packed or heads) * dim)
    params |= {"place_first": tensor.first * dim} | rows.strides("row")
    places = draft.constant(f"places of {role}", at.places)
    draft.dispatch(
        "gather", {"elem": draft.elem}, params, (places, tensor.name, rows.buffer), -(-params["total"] // INVOCATIONS)
    )
    return rows


def given_out(draft: Draft[Problem], rows: View, tensor: Tensor, at: Scattered, before: Tensor | None = None) -> None:
    """An output out of its rows; where it changes an input in place, all of that is copied before."""
    draft.buffers[tensor.name] = Buffer(tensor.name, _bytes(draft, at), output=tensor.name)
    if before is not None:
        draft.buffers[before.name] = Buffer(before.name, _bytes(draft, at), input=before.name)
        _copy(draft, before.name, tensor.name, math.prod(at.shape))
    params = _params(draft, rows, at, rows.heads * rows.dim) | rows.strides("row")
    places = draft.constant(f"places of {tensor.name}", at.places)
    draft.dispatch(
        "scatter", {"elem": draft.elem}, params, (places, rows.buffer, tensor.name), -(-params["total"] // INVOCATIONS)
    )


def _params(draft: Draft[Problem], rows: View, at: Scattered, width: int) -> dict[str, int]:
    count = at.places.shape[1]
    total = draft.problem.batch * rows.heads * count * rows.dim
    return {"total": total, "heads": rows.heads, "rows": count, "dim": rows.dim, "place": width}


def _copy(draft: Draft[Problem], source: str, target: str, count: int) -> None:
    """As one row of `count` elements."""
    params = {"total": count, "first_beside": count, "heads": 1, "rows": 1, "dim": count, "source_first": 0}
    params |= {f"{side}_{axis}": 0 for side in ("source", "slot") for axis in STRIDES}
    extents = draft.constant("the whole", np.array([(0, 1)], np.int32))
    append(draft, {"elem": draft.elem, "stored": draft.elem}, params, extents, (source, target))


def _bytes(draft: Draft[Problem], at: Scattered) -> int:
    return math.prod(at.shape) * itemsize(draft.elem)
