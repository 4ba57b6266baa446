"""What a Problem's intervals were made of, read back: causality, a window, and where each entry's keys begin and end.

A Problem holds intervals and not conventions; a kernel that gets a convention wrong has other intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.problem import Problem

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Mask:
    """causal: no query sees beyond its own slot; window: keys that a query sees, None for all; first, end: [batch]."""

    causal: bool
    window: int | None
    first: Int
    end: Int


def own_slots(problem: Problem) -> Int:
    """The slot at which each query row stands, [batch, rows], were its entry's new keys its own."""
    return np.asarray(problem.past_len, np.int64)[:, None] + np.arange(problem.rows)


def read(problem: Problem) -> Mask | None:
    """The Mask that gives exactly these intervals, or None. One new token is causal as well as not: causal is said."""
    low, high = problem.visible[..., 0].astype(np.int64), problem.visible[..., 1].astype(np.int64)
    rows = problem.stated_rows & (low < high)
    end = np.max(high, axis=1, where=rows, initial=0)
    for causal in (True, False):
        for window, first in _left_edges(problem, low, high, rows):
            mask = Mask(causal, window, first, end)
            if not changed(problem, visible(problem, mask)):
                return mask
    return None


def _left_edges(problem: Problem, low: Int, high: Int, rows: NDArray[np.bool_]) -> tuple[tuple[int | None, Int], ...]:
    nowhere = np.zeros(problem.batch, np.int64)
    if not (rows & (low > 0)).any():
        return ((None, nowhere),)
    window = int(np.max(high - low, where=rows, initial=0))
    return (window, nowhere), (None, np.min(low, axis=1, where=rows, initial=problem.capacity))


def visible(problem: Problem, mask: Mask, own: Int | None = None) -> NDArray[np.int32]:
    """The intervals [batch, rows, 2] of `mask`, query row i standing at slot own[b, i] (None: at its right one)."""
    own = own_slots(problem) if own is None else own
    end = np.broadcast_to(mask.end[:, None], own.shape)
    reach = own + 1 if mask.causal else end
    low = np.broadcast_to(mask.first[:, None], own.shape)
    if mask.window is not None:
        low = np.maximum(low, reach - mask.window)
    return between(low, np.minimum(reach, end))


def between(low: Int, high: Int) -> NDArray[np.int32]:
    """[batch, rows, 2] of both ends; an empty interval is [0, 0)."""
    both = np.stack([np.maximum(low, 0), high], axis=-1)
    return np.where((both[..., :1] < both[..., 1:]), both, 0).astype(np.int32)


def changed(problem: Problem, other: NDArray[np.int32]) -> bool:
    """Whether a query row that means something sees other keys under the intervals `other`.

    Where a row without a key gives the mean of V, it is as good as seeing the only key that there is.
    """
    here = between(problem.visible[..., 0].astype(np.int64), problem.visible[..., 1].astype(np.int64))
    differ = (here != other).any(axis=-1)
    if problem.empty_row == "mean":
        differ &= np.asarray(problem.kv_len)[:, None] > 1
    return bool((problem.stated_rows & differ).any())


def widths(problem: Problem) -> Int:
    """How many keys each query row that means something sees, in one flat array."""
    return (problem.visible[..., 1] - problem.visible[..., 0]).astype(np.int64)[problem.stated_rows]


def plain(problem: Problem) -> bool:
    """Whether intervals alone say what a row weighs: no mask that may hide the difference, no sink beside the keys."""
    return not problem.masks and problem.sink is None and not problem.smooth


def several_keys(problem: Problem) -> bool:
    """Whether some query row sees two keys: with one its weight is 1 whatever the score."""
    return bool((widths(problem) >= 2).any())


def scores_matter(problem: Problem) -> bool:
    """Whether weights depend on q.k: some query row sees two keys, and the scale is not 0."""
    return problem.scale != 0.0 and several_keys(problem)
