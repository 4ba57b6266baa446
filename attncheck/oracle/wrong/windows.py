"""Wrong kernels that let a query see other keys: the causal triangle, the window, the first and the last key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.wrong import intervals
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.intervals import Mask
from attncheck.oracle.wrong.recipe import Recipe
from attncheck.problem import Problem

Intervals = NDArray[np.int32]
Other = Callable[[Problem, Mask], Intervals | None]


def seeing(name: str, words: str, other: Other) -> Wrong:
    """A kernel whose queries see the intervals that `other` gives (None: the question does not arise)."""

    def seen(problem: Problem) -> Intervals | None:
        how = intervals.read(problem)
        return None if how is None else other(problem, how)

    def relevant(problem: Problem) -> bool:
        found = seen(problem)
        return found is not None and not _hidden_by_masks(problem) and intervals.changed(problem, found)

    def change(recipe: Recipe) -> Recipe:
        found = seen(recipe.problem)
        return recipe if found is None else replace(recipe, problem=replace(recipe.problem, visible=found))

    return Wrong(name, words, relevant, change)


def _hidden_by_masks(problem: Problem) -> bool:
    """A boolean mask may hide what an interval shows too much of."""
    return any(each.kind == "boolean" for each in problem.masks)


def _no_triangle(problem: Problem, how: Mask) -> Intervals | None:
    """A window still begins where it did."""
    low = problem.visible[..., 0].astype(np.int64)
    end = np.broadcast_to(how.end[:, None], low.shape)
    return intervals.between(low, end) if how.causal else None


def _triangle(problem: Problem, how: Mask) -> Intervals | None:
    return None if how.causal else intervals.visible(problem, replace(how, causal=True))


def bounded(how: Mask) -> bool:
    """Whether keys are bounded by where a query stands, though none is causal."""
    return not how.causal and (how.window is not None or how.right is not None)


def _top_left(problem: Problem, how: Mask) -> Intervals | None:
    return from_first_key(problem, how) if how.causal else None


def from_first_key(problem: Problem, how: Mask) -> Intervals:
    """What is seen were the first query to stand at the first key, whatever the past."""
    return intervals.visible(problem, how, np.zeros((problem.batch, 1), np.int64) + np.arange(problem.rows))


def _bottom_right(problem: Problem, how: Mask) -> Intervals | None:
    """The last of all rows, padding included, is taken to see the last key."""
    own = how.end[:, None] - problem.rows + np.arange(problem.rows)
    return intervals.visible(problem, how, own) if how.causal else None


def _last_key_aligned(problem: Problem, how: Mask) -> Intervals | None:
    return from_last_key(problem, how) if how.causal else None


def from_last_key(problem: Problem, how: Mask) -> Intervals | None:
    """The last query stands at the last key, as after a past, where there is none."""
    if how.from_end or any(problem.past_len):
        return None
    kv_len = np.asarray(problem.kv_len, np.int64)
    own = (kv_len - np.asarray(problem.q_len))[:, None] + np.arange(problem.rows)
    return intervals.visible(problem, replace(how, end=kv_len), own)


def _shifted(by: int) -> Other:
    def other(problem: Problem, how: Mask) -> Intervals | None:
        own = intervals.own_slots(problem, how.from_end) + by
        return intervals.visible(problem, how, own) if how.causal else None

    return other


def _window(by: int | None) -> Other:
    def other(problem: Problem, how: Mask) -> Intervals | None:
        if how.window is None:
            return None
        return intervals.visible(problem, replace(how, window=None if by is None else how.window + by))

    return other


def _window_right(by: int | None) -> Other:
    def other(problem: Problem, how: Mask) -> Intervals | None:
        if how.causal or how.right is None:
            return None
        end = np.asarray(problem.kv_len, np.int64)
        return intervals.visible(problem, replace(how, end=end, right=None if by is None else how.right + by))

    return other


def _window_of_first_row(problem: Problem, how: Mask) -> Intervals | None:
    """The window begins for all rows of a call where it begins for the first."""
    if how.window is None:
        return None
    low, high = problem.visible[..., 0].astype(np.int64), problem.visible[..., 1].astype(np.int64)
    return intervals.between(np.broadcast_to(low[:, :1], low.shape), high)


def _last_key(problem: Problem, how: Mask) -> Intervals:
    low, high = problem.visible[..., 0].astype(np.int64), problem.visible[..., 1].astype(np.int64)
    return intervals.between(low, np.minimum(high, how.end[:, None] - 1))


def _first_key(problem: Problem, how: Mask) -> Intervals:
    low, high = problem.visible[..., 0].astype(np.int64), problem.visible[..., 1].astype(np.int64)
    return intervals.between(np.maximum(low, how.first[:, None] + 1), high)


def _one_key_more(problem: Problem, how: Mask) -> Intervals | None:
    """A valid length one too long shows where a further slot is there to be read, and no mask ends before it."""
    low, high = problem.visible[..., 0].astype(np.int64), problem.visible[..., 1].astype(np.int64)
    spoken_for = min((mask.slots for mask in problem.masks), default=problem.capacity)
    longer = (high == how.end[:, None]) & (high < min(problem.capacity, spoken_for))
    return intervals.between(low, high + longer)


def _no_past(problem: Problem, _: Mask) -> Intervals:
    low, high = problem.visible[..., 0].astype(np.int64), problem.visible[..., 1].astype(np.int64)
    return intervals.between(np.maximum(low, np.asarray(problem.past_len)[:, None]), high)


def _past_only(problem: Problem, _: Mask) -> Intervals:
    low, high = problem.visible[..., 0].astype(np.int64), problem.visible[..., 1].astype(np.int64)
    return intervals.between(low, np.minimum(high, np.asarray(problem.past_len)[:, None]))


WINDOWS = (
    seeing("causal-ignored", "the causal mask ignored", _no_triangle),
    seeing("causal-forced", "a causal mask where none is asked for", _triangle),
    seeing("causal-top-left", "the causal mask at the top left (past_len forgotten)", _top_left),
    seeing("causal-bottom-right", "the causal mask aligned to the last row of the padded query", _bottom_right),
    seeing("causal-last-key", "the causal mask at the last key (as after a past)", _last_key_aligned),
    seeing("causal-one-ahead", "the causal mask off by one: each query also sees the next key", _shifted(1)),
    seeing("causal-one-behind", "the causal mask off by one: no query sees its own key", _shifted(-1)),
    seeing("window-ignored", "the window ignored", _window(None)),
    seeing("window-one-long", "the window one key too long", _window(1)),
    seeing("window-one-short", "the window one key too short", _window(-1)),
    seeing("window-right-ignored", "the window to the right ignored", _window_right(None)),
    seeing("window-right-one-long", "the window to the right one key too long", _window_right(1)),
    seeing("window-right-one-short", "the window to the right one key too short", _window_right(-1)),
    seeing("window-of-first-row", "the window of the first query for all queries", _window_of_first_row),
    seeing("last-key-dropped", "the last key dropped (valid length one too short)", _last_key),
    seeing("first-key-dropped", "the first key dropped", _first_key),
    seeing("one-key-more", "one key beyond the valid length read", _one_key_more),
    seeing("past-ignored", "the past keys ignored", _no_past),
    seeing("new-ignored", "the new keys ignored", _past_only),
)
