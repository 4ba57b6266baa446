"""Wrong kernels that mix up batch entries: one length, or one entry's keys, for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attncheck.oracle.wrong import intervals
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Recipe, Results
from attncheck.problem import Problem

Pick = Callable[[tuple[int, ...]], int]


def _one_length(pick: Pick) -> Callable[[Problem], Problem | None]:
    """Take one entry's lengths for all: where it appends, how far it reads, at which position it turns."""

    def other(problem: Problem) -> Problem | None:
        how = intervals.read(problem)
        if how is None:
            return None
        if len(set(zip(problem.past_len, problem.new_len, strict=True))) == 1:
            end = np.full_like(how.end, pick(tuple(how.end.tolist())))
            return replace(problem, visible=intervals.visible(problem, replace(how, end=end)))
        past_len = (pick(problem.past_len),) * problem.batch
        new_len = (pick(problem.new_len),) * problem.batch
        end = np.asarray(past_len) + np.asarray(new_len)
        moved = replace(problem, past_len=past_len, new_len=new_len)
        return _with_positions(replace(moved, visible=intervals.visible(moved, replace(how, end=end))))

    return other


def _with_positions(problem: Problem) -> Problem:
    """Positions that follow past_len; padded rows, which are not read, stay at 0."""
    if problem.rotary is None:
        return problem
    last = int(problem.rotary.positions.max())
    positions = np.asarray(problem.past_len)[:, None] + np.arange(problem.rotary.positions.shape[1])
    return replace(
        problem, rotary=replace(problem.rotary, positions=np.where(positions > last, 0, positions).astype(np.int32))
    )


def _lengths(name: str, words: str, pick: Pick) -> Wrong:
    other = _one_length(pick)

    def relevant(problem: Problem) -> bool:
        """Padded new rows that are appended beyond an entry's own show nowhere, unless a query sees them."""
        found = other(problem)
        if found is None:
            return False
        fewer = any(theirs < own for theirs, own in zip(found.new_len, problem.new_len, strict=True))
        return fewer or found.past_len != problem.past_len or intervals.changed(problem, found.visible)

    def change(recipe: Recipe) -> Recipe:
        found = other(recipe.problem)
        return recipe if found is None else replace(recipe, problem=found)

    return Wrong(name, words, relevant, change)


def _buffer_longer(problem: Problem) -> bool:
    """Some query sees its entry's last key, behind which the buffer goes on."""
    queries = problem.stated_rows
    last = problem.visible[..., 1] == np.asarray(problem.kv_len)[:, None]
    longer = np.asarray(problem.kv_len)[:, None] < problem.capacity
    sees = problem.visible[..., 0] < problem.visible[..., 1]
    return not problem.masks and bool((queries & last & longer & sees).any())


def _buffer_for_length(recipe: Recipe) -> Recipe:
    """Reads to the end of the buffer wherever a query sees its entry's last key."""
    problem = recipe.problem
    last = problem.visible[..., 1] == np.asarray(problem.kv_len)[:, None]
    sees = problem.visible[..., 0] < problem.visible[..., 1]
    visible = problem.visible.copy()
    visible[..., 1] = np.where(last & sees, problem.capacity, visible[..., 1])
    return replace(recipe, problem=replace(problem, visible=visible))


def _entry_zero(recipe: Recipe) -> Recipe:
    def finish(_: Problem, results: Results) -> Results:
        return replace(results, output=np.broadcast_to(results.output[:1], results.output.shape))

    return replace(recipe, finish=finish)


def _first(lengths: tuple[int, ...]) -> int:
    return lengths[0]


def _times_zero(recipe: Recipe) -> Recipe:
    """A NaN in a slot that an entry does not fill, but that others do, spoils all the entry's rows."""

    def finish(problem: Problem, results: Results) -> Results:
        unknown = np.isnan(results.present_value[:, :, : max(problem.kv_len)]).any(axis=(2, 3))
        spoilt = np.repeat(unknown, problem.group, axis=1)[..., None, None]
        return replace(results, output=np.where(spoilt, np.nan, results.output))

    return replace(recipe, finish=finish)


LENGTHS = (
    _lengths("length-of-entry-0", "the length of batch entry 0 used for all", _first),
    _lengths("longest-length", "the longest length used for all batch entries", max),
    _lengths("shortest-length", "the shortest length used for all batch entries", min),
    Wrong(
        "unread-times-zero",
        "slots beyond an entry's length read and weighted 0 (0 times NaN is NaN)",
        lambda problem: problem.quantised is None and len(set(problem.kv_len)) > 1,
        _times_zero,
    ),
    Wrong("buffer-for-length", "the buffer's length used as the number of keys", _buffer_longer, _buffer_for_length),
    Wrong("entry-0-for-all", "batch entry 0's rows given for all", lambda problem: problem.batch > 1, _entry_zero),
)
