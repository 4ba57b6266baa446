"""The present buffers: the past rows that are kept, then the new rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attncheck.problem import Problem


def slots(problem: Problem) -> NDArray[np.bool_]:
    """Which present slots hold something: bool [batch, capacity], true in [0, kv_len)."""
    return np.arange(problem.capacity)[None, :] < np.asarray(problem.kv_len)[:, None]


def present(problem: Problem, past: NDArray[np.float64] | None, new: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows [0, past_len) of `past`, then rows [0, new_len) of `new`, and 0 beyond.

    past [batch, kv_heads, past_capacity, dim] (None: zeros), new [batch, kv_heads, new_rows, dim];
    the result is [batch, kv_heads, capacity, dim].
    """
    batch, heads, _, dim = new.shape
    whole = np.zeros((batch, heads, problem.capacity, dim))
    for past_len, new_len, members in _alike(problem):
        if past is not None and past_len:
            whole[members, :, :past_len] = past[members, :, :past_len]
        whole[members, :, past_len : past_len + new_len] = new[members, :, :new_len]
    return whole


def _alike(problem: Problem) -> list[tuple[int, int, slice | NDArray[np.intp]]]:
    """Batch members grouped by (past_len, new_len): a few groups however many members."""
    lengths = np.array([problem.past_len, problem.new_len]).T
    kinds, kind = np.unique(lengths, axis=0, return_inverse=True)
    if len(kinds) == 1:
        return [(int(kinds[0, 0]), int(kinds[0, 1]), slice(None))]
    return [(int(p), int(n), np.flatnonzero(kind == i)) for i, (p, n) in enumerate(kinds)]
