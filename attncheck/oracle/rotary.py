"""Rotary position embedding in float64, and how far rounding may move it.

Source: com.microsoft RotaryEmbedding and GroupQueryAttention (do_rotary, rotary_interleaved), and ai.onnx
RotaryEmbedding-23: a pair (x1, x2) of the leading `dim` dims becomes (x1 cos - x2 sin, x2 cos + x1 sin), with the cache
row of the token's position; "interleaved" pairs dims (2i, 2i + 1), "half" pairs (i, i + dim / 2), both with cache
column i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.problem import Arrays, Rotary
from attncheck.tensors.dtypes import widen


@dataclass(frozen=True)
class Turned:
    """Rows after rotation, [batch, heads, rows, head_dim] each.

    values   the rotated rows
    compute  |x1 cos| + |x2 sin|: times u, a first-order bound on the rotation's error; 0 in dims that do not turn
    storage  |values| where they are rounded to the storage dtype on their way, 0 in dims that do not turn
    """

    values: NDArray[np.float64]
    compute: NDArray[np.float64]
    storage: NDArray[np.float64]


def unturned(rows: NDArray[np.float64]) -> Turned:
    """Rows that no rotation touches: exact."""
    nothing = np.broadcast_to(0.0, rows.shape)
    return Turned(rows, nothing, nothing)


def turn(rows: NDArray[np.float64], rotary: Rotary, inputs: Arrays, dtype: str) -> Turned:
    """Rotate [batch, heads, rows, head_dim] by the positions [batch, rows] of its tokens."""
    positions = rotary.positions[:, : rows.shape[2]]
    cos = widen(inputs[rotary.cos], dtype)[positions][:, None]
    sin = widen(inputs[rotary.sin], dtype)[positions][:, None]
    if rotary.style == "interleaved":
        first, second = slice(0, rotary.dim, 2), slice(1, rotary.dim, 2)
    else:
        first, second = slice(0, rotary.dim // 2), slice(rotary.dim // 2, rotary.dim)
    x1, x2 = rows[..., first], rows[..., second]
    cos, sin = cos[..., : rotary.dim // 2], sin[..., : rotary.dim // 2]
    values, compute, storage = rows.copy(), np.zeros_like(rows), np.zeros_like(rows)
    values[..., first] = x1 * cos - x2 * sin
    values[..., second] = x2 * cos + x1 * sin
    compute[..., first] = np.abs(x1 * cos) + np.abs(x2 * sin)
    compute[..., second] = np.abs(x2 * cos) + np.abs(x1 * sin)
    storage[..., : rotary.dim] = np.abs(values[..., : rotary.dim])
    return Turned(values, compute, storage)
