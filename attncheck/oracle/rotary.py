"""Rotary position embedding in float64, and how far rounding may move it.

Source: com.microsoft RotaryEmbedding and GroupQueryAttention (do_rotary, rotary_interleaved), and ai.onnx
RotaryEmbedding-23: a pair (x1, x2) of the leading `dim` dims becomes (x1 cos - x2 sin, x2 cos + x1 sin), with the cache
row of the token's position; "interleaved" pairs dims (2i, 2i + 1), "half" pairs (i, i + dim / 2), both with cache
column i.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.answer import Answer, laid_out, refuse_invalid
from attncheck.oracle.bounded import Bounded, exact
from attncheck.problem import Arrays, Rotary, RotaryProblem, role_heads
from attncheck.tensors.dtypes import widen


def answer(problem: RotaryProblem, inputs: Arrays) -> tuple[Answer, ...]:
    """The one output of rotary embedding alone: what turns is computed and rounded once, the rest is copied.

    Raises NoAnswer where the operator forbids the graph.
    """
    refuse_invalid(problem)
    rows = widen(role_heads(inputs[problem.input.name], problem.input, problem.heads), problem.dtype)
    turned = turn(exact(rows), problem.rotary, inputs, problem.dtype)
    everywhere = np.ones(rows.shape, np.bool_)
    return (laid_out(problem.turned, turned.values, turned.compute, turned.storage, everywhere),)


def turn(given: Bounded, rotary: Rotary, inputs: Arrays, dtype: str) -> Bounded:
    """Rotate [batch, heads, rows, head_dim] by the positions [batch, rows] of its tokens; errors turn along.

    Each product and the sum of both move a dim that turns by u (|x1 cos| + |x2 sin|) at most, to first order; angles
    that are computed, not given, move it by u (1 + angle) (|x1 sin| + |x2 cos|) more.
    """
    rows = given.values
    positions = rotary.positions[:, : rows.shape[2]]
    angles = rotary.angles(positions)[:, None] if rotary.base else np.zeros(1)
    if rotary.base:
        cos, sin = np.cos(angles), np.sin(angles)
    else:
        cos, sin = (_cache(inputs[name], dtype)[positions][:, None] for name in (rotary.cos, rotary.sin))
    if rotary.style == "interleaved":
        first, second = slice(0, rotary.dim, 2), slice(1, rotary.dim, 2)
    else:
        first, second = slice(0, rotary.dim // 2), slice(rotary.dim // 2, rotary.dim)
    x1, x2 = rows[..., first], rows[..., second]
    cos, sin = cos[..., : rotary.dim // 2], sin[..., : rotary.dim // 2]
    values, compute, storage = rows.copy(), given.compute.copy(), given.storage.copy()
    values[..., first] = x1 * cos - x2 * sin
    values[..., second] = x2 * cos + x1 * sin
    cos, sin = np.abs(cos), np.abs(sin)
    # An angle that is computed is off by u of itself, its cosine by u more: what its sine moves, and the reverse.
    off = 1.0 + angles if rotary.base else np.zeros(1)
    moved = [(np.abs(x1) * sin + np.abs(x2) * cos) * off, (np.abs(x2) * sin + np.abs(x1) * cos) * off]
    for bound, own in ((compute, np.abs(rows)), (storage, np.zeros_like(rows))):
        e1, e2 = bound[..., first] + own[..., first], bound[..., second] + own[..., second]
        bound[..., first], bound[..., second] = e1 * cos + e2 * sin, e2 * cos + e1 * sin
    compute[..., first], compute[..., second] = compute[..., first] + moved[0], compute[..., second] + moved[1]
    storage[..., : rotary.dim] += np.abs(values[..., : rotary.dim])
    return Bounded(values, compute, storage)


def _cache(array: NDArray[np.generic], dtype: str) -> NDArray[np.float64]:
    return widen(array, dtype).reshape(-1, array.shape[-1])
