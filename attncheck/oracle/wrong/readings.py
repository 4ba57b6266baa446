"""Other readings of an operator's text that diagnosis tries beside the catalogue (see `oracle.conventions`).

Whether one shows depends on the numbers in a mask, or on what else a backend does, so that no case is held to reject
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.wrong import intervals
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.placements import PLACEMENTS
from attncheck.oracle.wrong.recipe import Float, Recipe, Tile, softmax
from attncheck.problem import Mask, Problem, ScoreStage

FILLED = np.float32(-10000.0)
"""What `mask_filter_value` of com.microsoft operators is by default: added to the scores of hidden keys."""

STAGES: dict[ScoreStage, str] = {
    "raw": "before softcap",
    "capped": "after softcap",
    "biased": "after masks and bias",
    "weights": "after the softmax",
}


def _may_leave_a_row_empty(problem: Problem) -> bool:
    """Whether a query may have no key, by its interval or by what a mask holds, and no sink takes its weight."""
    empty = problem.stated_rows & (problem.visible[..., 0] >= problem.visible[..., 1])
    return (bool(problem.masks) or bool(empty.any())) and problem.sink is None and not problem.smooth


def _everything(problem: Problem) -> Problem:
    """Every key that an entry holds is looked at, and no row gives a mean."""
    end = np.broadcast_to(np.asarray(problem.kv_len, np.int64)[:, None], problem.visible.shape[:2])
    return replace(problem, visible=intervals.between(np.zeros_like(end), end), empty_row="zero")


def _seen(problem: Problem, tile: Tile) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """The keys that each row of a tile over `_everything` sees by its interval."""
    interval = problem.visible[tile.members, tile.rows]
    seen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = (interval[..., :1] <= tile.slots) & (
        tile.slots < interval[..., 1:]
    )
    return seen[:, None, None]


def _nan_if_empty(recipe: Recipe) -> Recipe:
    problem = recipe.problem

    def weights(tile: Tile) -> Float:
        shown = _seen(problem, tile) & tile.shown
        found = softmax(replace(tile, shown=shown))
        return np.where(shown.any(axis=-1, keepdims=True), found, np.nan)

    return replace(recipe, problem=_everything(problem), weights=weights)


def _mean_of_seen_if_empty(recipe: Recipe) -> Recipe:
    """A row that masks leave no key weighs all keys alike that its interval shows: a finite number hides, not -inf."""
    problem = recipe.problem

    def weights(tile: Tile) -> Float:
        seen = np.broadcast_to(_seen(problem, tile), (*tile.score.shape[:-1], tile.slots.shape[-1]))
        shown = seen & tile.shown
        found = softmax(replace(tile, shown=shown))
        alike = seen / np.maximum(seen.sum(axis=-1, keepdims=True), 1)
        return np.where(shown.any(axis=-1, keepdims=True), found, alike)

    return replace(recipe, problem=_everything(problem), weights=weights)


def _leaves_a_buffer_unread(problem: Problem) -> bool:
    """Whether a row may be empty in an entry behind whose keys its buffer goes on."""
    return _may_leave_a_row_empty(problem) and min(problem.kv_len) < problem.capacity


def _mean_of_buffer_if_empty(recipe: Recipe) -> Recipe:
    """A row without a key weighs all slots of its buffer alike, of which those behind its keys hold anything."""
    problem = recipe.problem
    slots = np.full_like(problem.visible[..., 0], problem.capacity).astype(np.int64)
    whole = replace(_everything(problem), visible=intervals.between(np.zeros_like(slots), slots))

    def weights(tile: Tile) -> Float:
        shown = _seen(problem, tile) & tile.shown
        found = softmax(replace(tile, shown=shown))
        return np.where(shown.any(axis=-1, keepdims=True), found, 1.0 / problem.capacity)

    return replace(recipe, problem=whole, weights=weights)


def _fills(*, every_row: bool) -> Callable[[Recipe], Recipe]:
    """Keys that a mask hides have -10000 added; causality hides for good.

    That decides nothing where the mask hides all, and something of `every_row` where scores lie further apart.
    """

    def change(recipe: Recipe) -> Recipe:
        problem = recipe.problem
        reach = _reach(problem)

        def weights(tile: Tile) -> Float:
            shown = _seen(problem, tile) & tile.shown
            within = (tile.slots < reach[tile.members, tile.rows][..., None])[:, None, None]
            filled = (tile.score.astype(np.float32) + FILLED).astype(np.float64)
            if every_row:
                return softmax(replace(tile, score=np.where(shown, tile.score, filled), shown=within))
            empty = ~shown.any(axis=-1, keepdims=True)
            score, shown = np.where(empty, filled, tile.score), np.where(empty, within, shown)
            return softmax(replace(tile, score=score, shown=shown))

        return replace(recipe, problem=_everything(problem), weights=weights)

    return change


def _reach(problem: Problem) -> NDArray[np.int64]:
    """Behind which slot causality hides what follows, int64 [batch, rows]; all slots without it."""
    mask = intervals.read(problem)
    whole = np.asarray(problem.kv_len, np.int64)[:, None] + np.zeros(problem.rows, np.int64)
    if mask is None or not mask.causal or problem.rows == 1:
        return whole
    return np.minimum(intervals.own_slots(problem, mask.from_end) + 1, whole)


def _may_hide_by_mask(problem: Problem) -> bool:
    """Whether keys may be hidden otherwise than by causality, where -10000 is what hides."""
    low, high = problem.visible[..., 0], problem.visible[..., 1]
    hidden = problem.stated_rows & ((low > 0) | (high < _reach(problem)))
    return problem.empty_row == "mean" and (bool(problem.masks) or bool(hidden.any()))


def _cap_after_additions(*, all_of_them: bool) -> Wrong:
    """Softcap after the bias, -inf in it included; of `all_of_them`, after causality, windows and lengths, too."""

    def change(recipe: Recipe) -> Recipe:
        problem = recipe.problem

        def weights(tile: Tile) -> Float:
            seen = _seen(problem, tile)
            counts = seen & tile.shown
            bent = np.where(counts, problem.softcap * np.tanh(tile.score / problem.softcap), -problem.softcap)
            held = (tile.slots < np.asarray(problem.kv_len)[tile.members, None])[:, None, None, None]
            return softmax(replace(tile, score=bent, shown=held if all_of_them else seen))

        return replace(recipe, problem=replace(_everything(problem), softcap=0.0), weights=weights)

    name, what = ("masks", "every mask") if all_of_them else ("holes", "its -inf")
    return Wrong(
        f"softcap-after-bias-and-{name}",
        f"softcap after the bias and {what} (hidden keys at -softcap)",
        lambda problem: problem.softcap > 0.0 and bool(problem.masks) and intervals.scores_matter(problem),
        change,
    )


def _at_stage(stage: ScoreStage) -> Wrong:
    def relevant(problem: Problem) -> bool:
        return problem.scores is not None and problem.scores.stage != stage

    def change(recipe: Recipe) -> Recipe:
        assert recipe.problem.scores is not None
        scores = replace(recipe.problem.scores, stage=stage)
        return replace(recipe, problem=replace(recipe.problem, scores=scores))

    return Wrong(f"scores-{stage}", f"scores of another stage, {STAGES[stage]}", relevant, change)


def _column(problem: Problem, mask: Mask) -> bool:
    return bool(mask.shape) and mask.shape[-1] == 1 and mask.content is None and max(problem.kv_len) > 1


def _column_speaks_for(name: str, words: str, *, the_first_alone: bool) -> Wrong:
    """A mask of one column read in the other way."""

    def slots(problem: Problem) -> int:
        return 1 if the_first_alone else max(problem.kv_len)

    def relevant(problem: Problem) -> bool:
        return any(_column(problem, mask) and mask.slots != slots(problem) for mask in problem.masks)

    def change(recipe: Recipe) -> Recipe:
        problem = recipe.problem
        masks = tuple(
            replace(mask, slots=slots(problem)) if _column(problem, mask) else mask for mask in problem.masks
        )
        return replace(recipe, problem=replace(problem, masks=masks))

    return Wrong(name, words, relevant, change)


def _row_for_all(masks: Iterable[Mask]) -> bool:
    return any(len(mask.shape) < 2 or mask.shape[-2] == 1 for mask in masks)


def _first_interval(recipe: Recipe) -> Recipe:
    visible = np.broadcast_to(recipe.problem.visible[:, :1], recipe.problem.visible.shape)
    return replace(recipe, problem=replace(recipe.problem, visible=visible))


READINGS = (
    Wrong("empty-row-nan", "NaN for a query without a key", _may_leave_a_row_empty, _nan_if_empty),
    Wrong(
        "empty-row-filled",
        "the softmax of the scores - 10000 for a query without a key",
        _may_leave_a_row_empty,
        _fills(every_row=False),
    ),
    Wrong(
        "empty-row-mean-of-seen",
        "the mean of V over the keys that causality shows for a query whose keys are all masked",
        lambda problem: bool(problem.masks) and problem.sink is None and not problem.smooth,
        _mean_of_seen_if_empty,
    ),
    Wrong(
        "empty-row-mean-of-buffer",
        "the mean of V over all slots of a longer buffer for a query without a key",
        _leaves_a_buffer_unread,
        _mean_of_buffer_if_empty,
    ),
    Wrong(
        "hidden-key-filled",
        "-10000 added to the score of a hidden key, which may still be the highest",
        _may_hide_by_mask,
        _fills(every_row=True),
    ),
    _cap_after_additions(all_of_them=False),
    _cap_after_additions(all_of_them=True),
    *(_at_stage(stage) for stage in STAGES),
    _column_speaks_for("mask-column-padded", "a mask of one column taken for the first key's", the_first_alone=True),
    _column_speaks_for("mask-column-for-all", "a mask of one column taken for every key's", the_first_alone=False),
    Wrong(
        "triangle-of-one-row",
        "the first query's causal row for every query, as the mask has one row",
        lambda problem: _row_for_all(problem.masks) and intervals.changed(
            problem, np.broadcast_to(problem.visible[:, :1], problem.visible.shape).astype(np.int64)
        ),
        _first_interval,
    ),
    *PLACEMENTS,
)
