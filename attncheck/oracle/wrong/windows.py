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


def _seeing(name: str, words: str, other: Other) -> Wrong:
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


def _top_left(problem: Problem, how: Mask) -> Intervals | None:
    own = intervals.own_slots(problem) - np.asarray(problem.past_len)[:, None]
    return intervals.visible(problem, how, own) if how.causal else None


def _bottom_right(problem: Problem, how: Mask) -> Intervals | None:
    """The last of all rows, padding included, is taken to see the last key."""
    own = how.end[:, None] - problem.rows + np.arange(problem.rows)
    return intervals.visible(problem, how, own) if how.causal else None


def _last_key_aligned(problem: Problem, how: Mask) -> Intervals | None:
    """The last query sees the last key, as after a past, where there is none."""
    if not how.causal or any(problem.past_len):
        return None
    kv_len = np.asarray(problem.kv_len, np.int64)
    own = (kv_len - np.asarray(problem.q_len))[:, None] + np.arange(problem.rows)
    return intervals.visible(problem, replace(how, end=kv_len), own)


def _shifted(by: int) -> Other:
    def other(problem: Problem, how: Mask) -> Intervals | None:
        return intervals.visible(problem, how, intervals.own_slots(problem) + by) if how.causal else None

    return other


def _window(by: int | None) -> Other:
    def other(problem: Problem, how: Mask) -> Intervals | None:
        if how.window is None:
            return None
        return intervals.visible(problem, replace(how, window=None if by is None else how.window + by))

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
    _seeing("causal-ignored", "the causal mask ignored", _no_triangle),
    _seeing("causal-forced", "a causal mask where none is asked for", _triangle),
    _seeing("causal-top-left", "the causal mask at the top left (past_len forgotten)", _top_left),
    _seeing("causal-bottom-right", "the causal mask aligned to the last row of the padded query", _bottom_right),
    _seeing("causal-last-key", "the causal mask at the last key (as after a past)", _last_key_aligned),
    _seeing("causal-one-ahead", "the causal mask off by one: each query also sees the next key", _shifted(1)),
    _seeing("causal-one-behind", "the causal mask off by one: no query sees its own key", _shifted(-1)),
    _seeing("window-ignored", "the window ignored", _window(None)),
    _seeing("window-one-long", "the window one key too long", _window(1)),
    _seeing("window-one-short", "the window one key too short", _window(-1)),
    _seeing("window-of-first-row", "the window of the first query for all queries", _window_of_first_row),
    _seeing("last-key-dropped", "the last key dropped (valid length one too short)", _last_key),
    _seeing("first-key-dropped", "the first key dropped", _first_key),
    _seeing("one-key-more", "one key beyond the valid length read", _one_key_more),
    _seeing("past-ignored", "the past keys ignored", _no_past),
    _seeing("new-ignored", "the new keys ignored", _past_only),
)
