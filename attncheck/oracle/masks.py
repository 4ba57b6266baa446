"""Masks over scores in float64: which keys they let take part, and what they add to a score.

Source: ai.onnx Attention-23 to -25, `attn_mask`: boolean, true lets a key take part; else added to the score; shape
broadcastable to [batch, heads, rows, slots]; a last axis shorter than the keys is padded with -inf. com.microsoft
GroupQueryAttention and MultiHeadAttention, `attention_bias`: added to the score. Adding -inf hides a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from attncheck.problem import Arrays, Problem
from attncheck.tensors.dtypes import widen

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class Overlay:
    """One mask, each array [batch or 1, kv_heads or 1, group or 1, rows or 1, slots or 1].

    adds   what it adds to a score, 0 where it hides the key; hides: whether it does
    slots  slots from here on are hidden
    """

    adds: Float
    hides: Bool
    slots: int

    def of_head(self, kv_head: slice, of_group: slice) -> Overlay:
        """What it does to one head."""
        whole = slice(None)
        each = (whole if self.hides.shape[1] == 1 else kv_head, whole if self.hides.shape[2] == 1 else of_group)
        return Overlay(self.adds[:, each[0], each[1]], self.hides[:, each[0], each[1]], self.slots)


@dataclass(frozen=True)
class Cover:
    """What all masks together do to a block of scores, broadcastable to [members, kv_heads, group, rows, keys].

    adds   their sum; size: the sum of its terms' magnitudes; shows: the keys that every mask lets take part
    """

    adds: Float
    size: Float
    shows: Bool


def overlays(problem: Problem, inputs: Arrays) -> tuple[Overlay, ...]:
    """The Problem's masks, read."""
    found = []
    for mask in problem.masks:
        array = mask.array(inputs)
        if mask.kind != "additive":
            hides = ~array.astype(np.bool_)
            adds = np.zeros(array.shape)
        else:
            adds = widen(array, problem.dtype)
            hides = np.isneginf(adds)
            adds = np.where(hides, 0.0, adds)
        shape = _shape(problem, mask.shape)
        found.append(Overlay(adds.reshape(shape), hides.reshape(shape), mask.slots))
    return tuple(found)


def cover(masks: Sequence[Overlay], members: slice, rows: slice, low: int, high: int) -> Cover:
    """What `masks` do to the slots [low, high) of a block of batch entries and query rows."""
    nothing = np.zeros((1, 1, 1, 1, high - low))
    whole = Cover(nothing, nothing, nothing == 0.0)
    for mask in masks:
        spoken = np.arange(low, high) < mask.slots
        adds = _cut(mask.adds, members, rows, spoken, low)
        shows = spoken & ~_cut(mask.hides, members, rows, spoken, low)
        whole = Cover(whole.adds + adds, whole.size + np.abs(adds), whole.shows & shows)
    return whole


def _shape(problem: Problem, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A mask's shape, broadcast from the right, with its heads split into [kv_heads, group]."""
    batch, heads, rows, slots = (1,) * (4 - len(shape)) + shape
    return batch, *((1, 1) if heads == 1 else (problem.kv_heads, problem.group)), rows, slots


def _cut(array: NDArray[T], members: slice, rows: slice, spoken: Bool, low: int) -> NDArray[T]:
    """The block of a mask's array; slots that it does not speak for are 0."""
    part = array if array.shape[0] == 1 else array[members]
    part = part if array.shape[3] == 1 else part[:, :, :, rows]
    whole = np.zeros((*part.shape[:-1], len(spoken)), array.dtype)
    count = int(np.count_nonzero(spoken))
    whole[..., :count] = part if array.shape[4] == 1 else part[..., low : low + count]
    return whole
