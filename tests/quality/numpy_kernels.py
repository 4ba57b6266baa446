"""Attention as kernels compute it, in float32 or float16 throughout: what the tolerance must let pass.

`blocked` is an online softmax in base 2 over blocks of keys; `sequential` is the textbook's, each sum taken over one
key after the other, as the simplest kernels do. Neither fuses a multiplication with an addition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.problem import Arrays, Problem, Rotary, split_heads

Array = NDArray[Any]
Weigh = Callable[[Array, Array], Array]

BLOCK = 16
LOG2_E = 1.4426950408889634


def sequential(scores: Array, v: Array) -> Array:
    """scores [keys], v [keys, dim] -> [dim]."""
    weights = np.exp(scores - scores.max())
    return one_by_one((weights / one_by_one(weights))[:, None] * v)


def blocked(scores: Array, v: Array) -> Array:
    """scores [keys], v [keys, dim] -> [dim]."""
    number = scores.dtype.type
    scores = scores * number(LOG2_E)
    top, total, sums = number(-6e4), number(0), np.zeros(v.shape[1], v.dtype)
    for first in range(0, len(scores), BLOCK):
        block = slice(first, first + BLOCK)
        higher = max(top, scores[block].max())
        rescale = np.exp2(top - higher)
        weights = np.exp2(scores[block] - higher)
        total = total * rescale + one_by_one(weights)
        sums = sums * rescale + one_by_one(weights[:, None] * v[block])
        top = higher
    mean: Array = sums / total
    return mean


def attention(problem: Problem, inputs: Arrays, arithmetic: Any, weigh: Weigh) -> Array:
    """The output of `problem`, [batch, rows, heads * v_head_dim] in the case's dtype; no present."""
    storage = inputs[problem.query.name].dtype
    q = _turned(problem, inputs, problem.query.name, problem.heads, arithmetic)
    k = _turned(problem, inputs, problem.key.name, problem.kv_heads, arithmetic)
    v = split_heads(inputs[problem.value.name], problem.value.layout, problem.kv_heads).astype(arithmetic)
    result = np.zeros((problem.batch, problem.rows, problem.heads, problem.v_head_dim), storage)
    for b in range(problem.batch):
        keys = _appended(problem, inputs, "past_key", k, b)
        values = _appended(problem, inputs, "past_value", v, b)
        for row, head in np.ndindex(problem.q_len[b], problem.heads):
            low, high = problem.visible[b, row]
            if low >= high:
                continue
            scores = one_by_one((q[b, head, row] * keys[head // problem.group, low:high]).T) * arithmetic(problem.scale)
            if problem.softcap:
                scores = arithmetic(problem.softcap) * np.tanh(scores / arithmetic(problem.softcap))
            result[b, row, head] = weigh(scores, values[head // problem.group, low:high])
    return result.reshape(problem.batch, problem.rows, -1)


def one_by_one(terms: Array) -> Array:
    """Sum over the first axis, one term after the other, rounded after each."""
    total: Array = np.add.accumulate(terms, axis=0, dtype=terms.dtype)[-1]
    return total


def _appended(problem: Problem, inputs: Arrays, role: str, new: Array, b: int) -> Array:
    past = getattr(problem, role)
    rows = new[b, :, : problem.new_len[b]]
    if past is None:
        return rows
    kept = split_heads(inputs[past.name], past.layout, problem.kv_heads)[b, :, : problem.past_len[b]]
    return np.concatenate([kept.astype(new.dtype), rows], axis=1)


def _turned(problem: Problem, inputs: Arrays, name: str, heads: int, arithmetic: Any) -> Array:
    """New rows after rotary, rounded to storage on their way, as by a rotary pass of its own."""
    rows = split_heads(inputs[name], "bsnh", heads)
    rotary: Rotary | None = problem.rotary
    if rotary is None:
        return rows.astype(arithmetic)
    cos, sin = (inputs[cache].astype(arithmetic)[rotary.positions][:, None] for cache in (rotary.cos, rotary.sin))
    first, second = slice(0, rotary.dim // 2), slice(rotary.dim // 2, rotary.dim)
    if rotary.style == "interleaved":
        first, second = slice(0, rotary.dim, 2), slice(1, rotary.dim, 2)
    x = rows.astype(arithmetic)
    y = x.copy()
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y.astype(rows.dtype).astype(arithmetic)
