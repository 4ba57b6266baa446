"""Softmax over the keys that count, the weighted sum of V, and how far rounding may move both.

Bounds are first order in u. An error d_ij of score s_ij moves the output o_i, with weights p, by

    sum_j p_ij (v_j - o_i) d_ij  <=  sqrt(sum_j p_ij d_ij^2) * sqrt(sum_j p_ij v_j^2 - o_i^2)       (Cauchy-Schwarz)

so that scores matter as far as the values they choose between differ. With |d_ij| <= u * e_ij,

    |o_i - exact|  <=  u * (sqrt(sum_j p_ij e_ij^2) * spread_i + 2 sum_j p_ij |v_j| + sqrt(n_i) |o_i|)
    e_ij            =  the score's own error (`oracle.scores`)
                       + |s_ij - max_k s_ik|         (the argument of the exponential is rounded)

The 2 stands for the exponential and the division; the last term for the sum of the weights, whose rounding errors grow
like sqrt(n) (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019), n being the number of
keys heavy enough to move a float32 sum. A weight moves by p_ij (d_ij - sum_k p_ik d_ik), so that

    |p_ij - exact|  <=  u * p_ij * (e_ij + sqrt(sum_k p_ik e_ik^2) + 2 + sqrt(n_i))

Weights that are rounded before they meet the values move the output by sum_j p_ij (v_j - o_i) r_j with |r_j| <= u. As
independent errors, their standard deviation is at most

    u * sqrt(sum_j p_ij^2 (v_j - o_i)^2)  <=  u * sqrt(max_j p_ij) * spread_i

A sink is one more key, whose score is given and whose value is 0: com.microsoft GroupQueryAttention, `head_sink` ("each
head has a smooth factor adding to the denominator of softmax") and `smooth_softmax`, a sink of 0. A row without a key
gives 0: ai.onnx Attention ("a fully-masked query row produces a zero output row"), and with a sink by arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.bounded import Bounded
from attncheck.oracle.scores import Scores

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

WEIGHTLESS = 2.0**-25
"""A share of a sum at or below this is lost when it is added in float32, and its own rounding with it."""

FLUSHED = 2.0**-126 / 2.0**-24
"""A weight below the smallest normal float32 may become 0: the most that is lost, over float32's u."""


@dataclass(frozen=True)
class Weights:
    """Weights of a block, [members, kv_heads, group, rows, keys]; a row without keys has none.

    values   the weights
    error    the score's error / u, rounding of the exponential's argument included; stored: its storage rounding
    moved    sqrt(sum p error^2), carried: sqrt(sum p stored^2): [..., 1]; keys: how many move a sum: [..., 1]
    sunk     whether a sink may leave so little to the keys that their weights are lost
    """

    values: Float
    error: Float
    stored: Float
    moved: Float
    carried: Float
    keys: Float
    sunk: bool

    def bounds(self) -> tuple[Float, Float]:
        """The compute and storage of an Answer that holds the weights themselves."""
        compute = self.values * (self.error + self.moved + 2.0 + np.sqrt(self.keys)) + FLUSHED * (self.values > 0.0)
        storage = self.values * (1.0 + self.stored + self.carried)
        return compute, storage


@dataclass(frozen=True)
class Attended:
    """Output rows and their bounds, each [members, kv_heads, group, rows, v_head_dim]; `weights` as in Answer."""

    values: Float
    compute: Float
    storage: Float
    weights: Float


def weigh(scores: Scores, shown: Bool, sinks: Float) -> Weights:
    """Softmax over the shown keys and the sinks [kv_heads, group, 1, number of sinks]."""
    hidden = np.where(shown, scores.values, -np.inf)
    top = np.max(hidden, axis=-1, keepdims=True, initial=-np.inf)
    if sinks.shape[-1]:
        top = np.maximum(top, np.max(sinks, axis=-1, keepdims=True))
    top = np.where(np.isneginf(top), 0.0, top)
    below = np.where(shown, scores.values - top, -np.inf)
    weight = np.exp(below)
    sink_below = np.where(np.isneginf(sinks), 0.0, sinks - top)
    sink = np.where(np.isneginf(sinks), 0.0, np.exp(sink_below))
    total = np.sum(weight, axis=-1, keepdims=True) + np.sum(sink, axis=-1, keepdims=True)
    total = np.where(total == 0.0, 1.0, total)
    weight /= total
    sink /= total

    error = np.where(shown, scores.compute - below, 0.0)
    stored = np.where(shown, scores.storage, 0.0)
    keys: Float = np.count_nonzero(weight > WEIGHTLESS, axis=-1, keepdims=True).astype(np.float64)
    keys += np.count_nonzero(sink > WEIGHTLESS, axis=-1, keepdims=True)
    moved = np.sqrt(_mean_square(weight, error) + _mean_square(sink, sink_below))
    return Weights(weight, error, stored, moved, np.sqrt(_mean_square(weight, stored)), keys, sinks.shape[-1] > 0)


def attend(weights: Weights, shown: Bool, value: Bounded) -> Attended:
    """The weighted sum of v [members, kv_heads, keys, dim], whose own errors it averages; a row without keys is 0."""
    v = value.values
    finite = np.where(np.isfinite(v), v, 0.0)
    weight = weights.values
    values = _sum(weight, finite)
    spread = np.sqrt(np.maximum(_sum(weight, finite * finite) - values * values, 0.0))
    compute = spread * weights.moved
    compute += 2.0 * _sum(weight, np.abs(finite)) + np.abs(values) * np.sqrt(weights.keys)
    if weights.sunk:
        compute += FLUSHED * _sum(np.broadcast_to(shown, weight.shape).astype(np.float64), np.abs(finite))
    if not np.isfinite(v).all():
        values += _nonfinite(shown, v, weight.shape)
    storage = np.abs(values) + spread * weights.carried
    if value.compute.any():
        compute += _sum(weight, value.compute)
        storage += _sum(weight, value.storage)
    heaviest: Float = np.sqrt(np.max(weight, axis=-1, keepdims=True, initial=0.0))
    return Attended(values, compute, storage, spread * heaviest)


def _mean_square(weight: Float, error: Float) -> Float:
    """The sum of p e^2 over the last axis, [..., 1]."""
    mean_square: Float = np.sum(weight * error * error, axis=-1, keepdims=True)
    return mean_square


def _nonfinite(shown: Bool, v: Float, shape: tuple[int, ...]) -> Float:
    """What shown NaN and infinities add to the weighted sum: 0 where none is shown, whatever hidden keys hold."""
    weight = np.broadcast_to(shown, shape).astype(np.float64)
    above = np.where(_sum(weight, (v == np.inf).astype(np.float64)) > 0, np.inf, 0.0)
    below = np.where(_sum(weight, (v == -np.inf).astype(np.float64)) > 0, -np.inf, 0.0)
    unknown = np.where(_sum(weight, np.isnan(v).astype(np.float64)) > 0, np.nan, 0.0)
    return above + below + unknown


def _sum(weight: Float, v: Float) -> Float:
    """[members, kv_heads, group, rows, keys] with [members, kv_heads, keys, dim] -> [..., group, rows, dim]."""
    batch, heads, group, rows, keys = weight.shape
    flat = weight.reshape(batch, heads, group * rows, keys) @ v
    return flat.reshape(batch, heads, group, rows, -1)
