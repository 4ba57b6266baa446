"""The axes that most likely say a node of RotaryEmbedding alone: its writing half read backwards."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray

from attncheck.graph.case import Case
from attncheck.problem import RotaryProblem
from attncheck.scenario.complete import Value

Axes = dict[str, Value]
Positions = NDArray[np.int64]

_PLACES: Mapping[str, tuple[str, int]] = {"": ("rotary", 3), "com.microsoft": ("ms-rotary", 1)}
"""Domain -> the operator as scenarios call it, and where the node has its position_ids."""


def of(node: onnx.NodeProto, case: Case, it: RotaryProblem) -> Axes:
    """The axes of `node`, whose problem is `it`."""
    op, place = _PLACES[node.domain]
    cos = case.inputs[it.rotary.cos]
    axes: Axes = {
        "op": op,
        "dtype": it.dtype,
        "batch": it.batch,
        "heads": it.heads,
        "head_dim": it.head_dim,
        "layout": it.input.layout,
        "rotary": it.rotary.style,
        "rotary_dim": it.rotary.dim,
    }
    if cos.ndim == 2:
        axes["rotary_cache"] = cos.shape[0]
    said = case.inputs.get(node.input[place]) if place < len(node.input) else None
    if any(attribute.name == "is_packed_batching" and attribute.i for attribute in node.attribute):
        return axes | _packed(np.asarray(it.rotary.positions[0], np.int64))
    return axes | {"q_len": it.rows} | _positions(np.asarray(it.rotary.positions, np.int64), said, cos.shape[0])


def _positions(positions: Positions, said: NDArray[np.generic] | None, cache: int) -> Axes:
    """Where the rows stand [batch, rows], and how the node was told."""
    batch, rows = positions.shape
    steps = np.broadcast_to(np.arange(rows), positions.shape)
    first = positions[:, 0]
    if said is None:
        return {"positions": "implicit", "past_len": 0}
    if said.shape == (1,) != positions.shape:
        return {"positions": "implicit", "past_len": int(first[0])}
    words = {"zero": 0 * steps, "negative": steps - rows, "beyond": steps - rows + 1 + cache}
    for word, there in words.items():
        if np.array_equal(positions, there) and (word != "zero" or rows > 1):
            return {"positions": word, "past_len": 0}
    counted = np.array_equal(positions, first[:, None] + steps)
    word = "one-row" if said.shape[0] != batch else "explicit" if counted else "scattered"
    return {"positions": word, "past_len": _lengths(first) if counted else 0}


def _packed(positions: Positions) -> Axes:
    """Entries that follow each other in one row: a new one begins where a position does not follow on."""
    begins = np.flatnonzero(np.diff(positions, prepend=positions[0] - 2) != 1)
    lengths = np.diff(begins, append=len(positions))
    return {
        "packed_batch": True,
        "batch": len(begins),
        "q_len": _lengths(lengths),
        "past_len": _lengths(positions[begins]),
        "positions": "explicit",
    }


def _lengths(values: NDArray[np.integer]) -> Value:
    plain = tuple(int(value) for value in values)
    return plain if len(set(plain)) > 1 else plain[0]
