"""What a Problem's intervals were made of, read back: causality, windows, and where each entry's keys begin and end.

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
    """What bounds the keys of each query row, which stands at a slot of its own.

    causal      no query sees beyond its own slot
    window      keys that a query sees up to its own, that included; None for all
    first, end  [batch]: the slots that an entry's queries see at most
    right       keys behind its own that a query sees where it is not causal; None for all
    from_end    the last row stands at the entry's last key, however many keys there are: over a cache that the caller
                keeps; else the first stands behind the past
    """

    causal: bool
    window: int | None
    first: Int
    end: Int
    right: int | None = None
    from_end: bool = False


def own_slots(problem: Problem, from_end: bool = False) -> Int:
    """The slot at which each query row stands, [batch, rows], were its entry's new keys its own, or the last its."""
    first = np.asarray(problem.kv_len, np.int64) - problem.rows if from_end else np.asarray(problem.past_len, np.int64)
    return first[:, None] + np.arange(problem.rows)


def read(problem: Problem) -> Mask | None:
    """The Mask that gives exactly these intervals, or None. One new token is causal as well as not: causal is said."""
    low, high = problem.visible[..., 0].astype(np.int64), problem.visible[..., 1].astype(np.int64)
    rows = problem.stated_rows & (low < high)
    end = np.max(high, axis=1, where=rows, initial=0)
    kept = not any(problem.past_len) and any(new < problem.new_rows for new in problem.new_len)
    for from_end in (True, False) if kept else (False, True):
        own = own_slots(problem, from_end)
        for causal, right in ((True, None), (False, None), (False, _right(own, high, end, rows))):
            for window, first in _left_edges(problem, own, low, rows):
                # A window to the right may end before an entry's last key.
                ends = (end,) if right is None else (np.asarray(problem.kv_len, np.int64), end)
                for last in ends:
                    mask = Mask(causal, window, first, last, right, from_end)
                    if not changed(problem, visible(problem, mask)):
                        return mask
    return None


def _right(own: Int, high: Int, end: Int, rows: NDArray[np.bool_]) -> int | None:
    """How many keys behind its own a query sees, were that what ends its keys."""
    found = int(np.max(high - own - 1, where=rows & (high < end[:, None]), initial=-1))
    return found if found >= 0 else None


def _left_edges(problem: Problem, own: Int, low: Int, rows: NDArray[np.bool_]) -> tuple[tuple[int | None, Int], ...]:
    nowhere = np.zeros(problem.batch, np.int64)
    cut = rows & (low > 0)
    if not cut.any():
        return ((None, nowhere),)
    window = int(np.max(own + 1 - low, where=cut, initial=-problem.capacity))
    edges = (None, np.min(low, axis=1, where=rows, initial=problem.capacity))
    return (edges,) if window < 1 else ((window, nowhere), edges)


def visible(problem: Problem, mask: Mask, own: Int | None = None) -> NDArray[np.int32]:
    """The intervals [batch, rows, 2] of `mask`, query row i standing at slot own[b, i] (None: at its right one)."""
    own = own_slots(problem, mask.from_end) if own is None else own
    low, end = (np.broadcast_to(edge[:, None], own.shape) for edge in (mask.first, mask.end))
    if mask.causal or mask.right is not None:
        end = np.minimum(end, own + 1 + (0 if mask.causal else mask.right or 0))
    if mask.window is not None:
        low = np.maximum(low, own + 1 - mask.window)
    return between(low, end)


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
