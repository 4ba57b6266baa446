"""Scores in float64, stage by stage: scale * q.k, softcap, masks; and how far rounding may move them.

What a dot product q.k rounds is said in `sums`.

Sources: ai.onnx Attention-23 to -25: "softcap", then "at_mask Add", then softmax; com.microsoft GroupQueryAttention.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.bounded import Bounded
from attncheck.oracle.masks import Cover
from attncheck.oracle.sums import walked
from attncheck.problem import Problem

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """Scores of a block, [members, kv_heads, group, rows, keys] each.

    values   the scores
    compute  their error / u, first order
    storage  magnitude that was rounded to the storage dtype on its way, in turned queries and keys
    """

    values: Float
    compute: Float
    storage: Float


def raw(problem: Problem, q: Bounded, k: Bounded) -> Scores:
    """Dot products times scale: q [members, kv_heads, group, rows, dim] with k [members, kv_heads, keys, dim]."""
    scale = abs(problem.scale)
    size_q, size_k = np.abs(q.values), np.abs(k.values)
    values = _dot(q.values, k.values)
    error = _dot(size_q, size_k) + walked(values, _terms(q.values, k.values))
    stored = np.zeros_like(error)
    if problem.rotary or problem.norm or problem.projection or problem.quantised:
        error += _dot(q.compute, size_k) + _dot(size_q, k.compute)
        stored += _dot(q.storage, size_k) + _dot(size_q, k.storage)
    error *= scale
    stored *= scale
    return Scores(problem.scale * values, error, stored)


def capped(problem: Problem, before: Scores) -> Scores:
    """Scores bent to s' = softcap * tanh(s / softcap), where there is a softcap.

    The error of a score shrinks by the slope 1 - tanh^2. Three more roundings are each relative to s', however large
    the softcap is: the quotient x = s / softcap is wrong by u x, which moves s' by u softcap x (1 - tanh^2 x) at most
    u |s'|, and tanh itself and the product with softcap by u |s'| each.
    """
    if not problem.softcap:
        return before
    bent = np.tanh(before.values / problem.softcap)
    slope = 1.0 - bent * bent
    values = problem.softcap * bent
    return Scores(values, before.compute * slope + 3.0 * np.abs(values), before.storage * slope)


def biased(before: Scores, cover: Cover) -> Scores:
    """What masks add is added. Each sum is rounded by what its terms amount to."""
    if not cover.size.any():
        return before
    added = np.abs(before.values) + cover.size
    return Scores(before.values + cover.adds, before.compute + added, before.storage)


def _terms(q: Float, k: Float) -> NDArray[np.intp]:
    """At most how many terms of a dot product are not 0, broadcastable to [members, kv_heads, group, rows, keys]."""
    of_q: NDArray[np.intp] = np.count_nonzero(q, axis=-1)[..., None]
    of_k: NDArray[np.intp] = np.count_nonzero(k, axis=-1)[:, :, None, None, :]
    fewer: NDArray[np.intp] = np.minimum(of_q, of_k)
    return fewer


def _dot(q: Float, k: Float) -> Float:
    """[members, kv_heads, group, rows, dim] with [members, kv_heads, keys, dim] -> [..., group, rows, keys]."""
    batch, heads, group, rows, dim = q.shape
    flat = q.reshape(batch, heads, group * rows, dim) @ k.swapaxes(-1, -2)
    return flat.reshape(batch, heads, group, rows, -1)
