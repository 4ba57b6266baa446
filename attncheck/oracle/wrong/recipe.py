"""What a kernel of attention computes, step by step: a wrong kernel takes a step otherwise, or has another Problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle import rotary
from attncheck.oracle.bounded import exact
from attncheck.oracle.norm import normalised
from attncheck.oracle.quantised import nearest
from attncheck.problem import Arrays, Problem, Rotary

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class Tile:
    """Scores on their way to weights.

    score    [members, kv_heads, group, rows, slots], after scale, softcap and what masks add
    shown    bool, broadcastable to that: the keys that the row sees
    sinks    [kv_heads, group, 1, number of them]: scores that only count in the denominator
    slots    which slots of the present buffer these are; members, rows: which batch entries and query rows
    """

    score: Float
    shown: Bool
    sinks: Float
    slots: Int
    members: slice
    rows: slice


@dataclass(frozen=True)
class Results:
    """The outputs: [batch, heads, rows, v_head_dim], [batch, kv_heads, capacity, dim] twice, scores where asked for."""

    output: Float
    present_key: Float
    present_value: Float
    scores: Float | None = None


def softmax(tile: Tile) -> Float:
    """The weights of a right kernel; a row that sees no key has none."""
    seen = np.where(tile.shown, tile.score, -np.inf)
    top = np.max(seen, axis=-1, keepdims=True)
    if tile.sinks.shape[-1]:
        top = np.maximum(top, np.max(tile.sinks, axis=-1, keepdims=True))
    weight = np.exp(seen - finite(top))
    total = np.sum(weight, axis=-1, keepdims=True) + np.sum(np.exp(tile.sinks - finite(top)), axis=-1, keepdims=True)
    return weight / np.where(total == 0.0, 1.0, total)


def turn(rows: Float, how: Rotary, inputs: Arrays, dtype: str) -> Float:
    """The rotation of a right kernel: [batch, heads, rows, head_dim] by the positions of its tokens."""
    return rotary.turn(exact(rows), how, inputs, dtype).values


def normalise(rows: Float, gain: Float, epsilon: float) -> Float:
    """The RMS normalisation of a right kernel: each row of [batch, heads, rows, head_dim]."""
    return normalised(rows, gain, epsilon).values


def finite(top: Float) -> Float:
    """0 in the place of a maximum over no key."""
    return np.where(np.isneginf(top), 0.0, top)


def _as_it_is(_: Problem, rows: Float) -> Float:
    return rows


def _finished(_: Problem, results: Results) -> Results:
    return results


@dataclass(frozen=True)
class Recipe:
    """What a kernel computes: a Problem and its inputs, and the steps that it takes otherwise.

    kv_head     the KV head that each query head reads; None: the one of its group
    score_dims  leading dims of q and k that enter their dot product; None: all
    parts       batch entries and query rows whose output is wanted; None: all, in blocks that bound the memory
    normalise       RMS normalisation of new queries or new keys by a gain [head_dim] and an epsilon
    quantise        what new rows are read as where the buffers hold integers, by a scale and the dtype of the buffers
    turn_q, turn_k  rotate new queries and new keys
    arrange     reorders the slots of a present buffer [batch, kv_heads, capacity, dim] before it is read and given out
    weights     makes weights of scores
    finish      what is done to the outputs at the end
    """

    problem: Problem
    inputs: Arrays
    kv_head: tuple[int, ...] | None = None
    score_dims: int | None = None
    parts: tuple[tuple[slice, slice], ...] | None = None
    normalise: Callable[[Float, Float, float], Float] = normalise
    quantise: Callable[[Float, Float, str], Float] = nearest
    turn_q: Callable[[Float, Rotary, Arrays, str], Float] = turn
    turn_k: Callable[[Float, Rotary, Arrays, str], Float] = turn
    arrange: Callable[[Problem, Float], Float] = _as_it_is
    weights: Callable[[Tile], Float] = softmax
    finish: Callable[[Problem, Results], Results] = _finished
