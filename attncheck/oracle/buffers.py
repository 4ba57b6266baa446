"""The slots of all keys: the past rows that are kept, then the new rows; and which of them the present buffers hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attncheck.problem import Problem


def held(problem: Problem) -> NDArray[np.bool_]:
    """Which rows of the present buffers hold something: bool [batch, present_capacity]."""
    count = np.array(problem.kv_len, np.int64) - np.array(problem.present_first, np.int64)
    return np.arange(problem.present_capacity)[None, :] < count[:, None]


def present(problem: Problem, past: NDArray[np.float64] | None, new: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every slot: the rows of `past` from slot past_first to past_len, then rows [0, new_len) of `new`, 0 elsewhere.

    past [batch, kv_heads, past_capacity, dim] (None: zeros), new [batch, kv_heads, new_rows, dim];
    the result is [batch, kv_heads, capacity, dim].
    """
    batch, heads, _, dim = new.shape
    whole = np.zeros((batch, heads, problem.capacity, dim))
    for past_len, new_len, first, members in _alike(problem):
        if past is not None and past_len > first:
            whole[members, :, first:past_len] = past[members, :, : past_len - first]
        whole[members, :, past_len : past_len + new_len] = new[members, :, :new_len]
    return whole


def kept(problem: Problem, slots: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows of the present buffers [batch, kv_heads, present_capacity, dim] out of all slots."""
    if problem.evicts is None:
        return slots
    rows = np.asarray(problem.present_first)[:, None] + np.arange(problem.present_capacity)
    return np.take_along_axis(slots, np.minimum(rows, problem.capacity - 1)[:, None, :, None], axis=2)


def _alike(problem: Problem) -> list[tuple[int, int, int, slice | NDArray[np.intp]]]:
    """Batch members grouped by (past_len, new_len, past_first): a few groups however many members."""
    lengths = np.array([problem.past_len, problem.new_len, problem.past_first]).T
    kinds, kind = np.unique(lengths, axis=0, return_inverse=True)
    if len(kinds) == 1:
        past, new, first = kinds[0].tolist()
        return [(past, new, first, slice(None))]
    return [(*one.tolist(), np.flatnonzero(kind == i)) for i, one in enumerate(kinds)]
