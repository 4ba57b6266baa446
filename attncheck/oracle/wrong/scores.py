"""Wrong kernels between score and weight: scale, softcap, softmax, and the online softmax's running maximum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attncheck.oracle.wrong import intervals
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Float, Recipe, Tile, softmax
from attncheck.problem import Problem
from attncheck.tensors.dtypes import dtype

UNMOVED = 1.0e-4
"""A running maximum counts as moving when the probability that it stays, in every row, is below this."""


def _scaled(name: str, words: str, scale: Callable[[Problem], float]) -> Wrong:
    def relevant(problem: Problem) -> bool:
        return intervals.several_keys(problem) and not math.isclose(scale(problem), problem.scale, rel_tol=1e-3)

    def change(recipe: Recipe) -> Recipe:
        return replace(recipe, problem=replace(recipe.problem, scale=scale(recipe.problem)))

    return Wrong(name, words, relevant, change)


def _capped(name: str, words: str, relevant: Callable[[Problem], bool], softcap: Callable[[Problem], float]) -> Wrong:
    def applies(problem: Problem) -> bool:
        return problem.softcap > 0.0 and intervals.scores_matter(problem) and relevant(problem)

    def change(recipe: Recipe) -> Recipe:
        return replace(recipe, problem=replace(recipe.problem, softcap=softcap(recipe.problem)))

    return Wrong(name, words, applies, change)


def _cap_after_mask(recipe: Recipe) -> Recipe:
    """Minus infinity becomes -softcap, so that hidden keys get a weight; only slots beyond kv_len have none."""
    problem = recipe.problem
    kv_len = np.asarray(problem.kv_len)

    def weights(tile: Tile) -> Float:
        interval = problem.visible[tile.members, tile.rows]
        seen = ((interval[..., :1] <= tile.slots) & (tile.slots < interval[..., 1:]))[:, None, None]
        return softmax(replace(tile, score=np.where(seen, tile.score, -problem.softcap)))

    end = np.broadcast_to(kv_len[:, None], problem.visible.shape[:2])
    everything = intervals.between(np.zeros_like(end, dtype=np.int64), end)
    return replace(recipe, problem=replace(problem, visible=everything), weights=weights)


def _cap_shows(problem: Problem) -> bool:
    """A hidden key's weight is at least exp(-2 softcap) of a seen key's: above rounding while softcap is small."""
    weight = math.exp(-2.0 * problem.softcap)
    kv_len = np.asarray(problem.kv_len)[:, None]
    hides = (problem.stated_rows & (problem.visible[..., 1] - problem.visible[..., 0] < kv_len)).any()
    heavy = weight > 512.0 * dtype(problem.dtype).roundoff
    return problem.softcap > 0.0 and intervals.plain(problem) and bool(hides) and heavy


def _weighing(weights: Callable[[Tile], Float]) -> Callable[[Recipe], Recipe]:
    def change(recipe: Recipe) -> Recipe:
        return replace(recipe, weights=weights)

    return change


def _unnormalised(tile: Tile) -> Float:
    top = np.max(np.where(tile.shown, tile.score, -np.inf), axis=-1, keepdims=True)
    return np.where(tile.shown, np.exp(tile.score - np.where(np.isneginf(top), 0.0, top)), 0.0)


def _online(block: int, sums: bool, totals: bool) -> Callable[[Tile], Float]:
    """An online softmax over blocks of keys that forgets to rescale the weighted sums, or the total of the weights.

    What a block adds stays as large as the maximum up to that block made it.
    """

    def weights(tile: Tile) -> Float:
        seen = np.where(tile.shown, tile.score, -np.inf)
        last_of_block = np.minimum((tile.slots // block + 1) * block - 1 - tile.slots[0], len(tile.slots) - 1)
        running = np.maximum.accumulate(seen, axis=-1)[..., last_of_block]
        kept = np.exp(seen - np.where(np.isneginf(running), 0.0, running))
        right = np.exp(seen - np.where(np.isneginf(running[..., -1:]), 0.0, running[..., -1:]))
        total = np.sum(kept if totals else right, axis=-1, keepdims=True)
        found: Float = (kept if sums else right) / np.where(total == 0.0, 1.0, total)
        return found

    return weights


def _moves(block: int) -> Callable[[Problem], bool]:
    """Whether the maximum nearly surely lies beyond a row's first block, in some row of some head."""

    def relevant(problem: Problem) -> bool:
        if not intervals.plain(problem):
            return False
        rows = problem.stated_rows & (problem.visible[..., 0] < problem.visible[..., 1])
        low, high = problem.visible[..., 0][rows], problem.visible[..., 1][rows]
        first = np.minimum((low // block + 1) * block, high) - low
        return bool(problem.heads * np.sum(np.log(first / (high - low))) < math.log(UNMOVED))

    return relevant


def _running(name: str, words: str, sums: bool, totals: bool) -> tuple[Wrong, ...]:
    each = Wrong(f"{name}-by-key", f"{words}, key by key", _moves(1), _weighing(_online(1, sums, totals)))
    blocks = Wrong(f"{name}-by-32", f"{words}, in blocks of 32 keys", _moves(32), _weighing(_online(32, sums, totals)))
    return each, blocks


def _leaves_a_row_empty(problem: Problem) -> bool:
    """Whether intervals alone leave a query without a key, and its entry has keys whose mean is not zero."""
    empty = problem.visible[..., 0] >= problem.visible[..., 1]
    holds = np.asarray(problem.kv_len)[:, None] > 0
    some = bool((problem.stated_rows & empty & holds).any())
    return problem.empty_row == "zero" and not _sinks(problem) and some


def _sinks(problem: Problem) -> bool:
    return problem.sink is not None or problem.smooth


def _mean_if_empty(recipe: Recipe) -> Recipe:
    return replace(recipe, problem=replace(recipe.problem, empty_row="mean"))


_EMPTY_ROW_MEAN = Wrong(
    "empty-row-mean", "the mean of V for a query without a key", _leaves_a_row_empty, _mean_if_empty
)

SCORES = (
    _scaled("uniform-weights", "uniform weights (the scores ignored)", lambda _: 0.0),
    _scaled("scale-missing", "the scale missing", lambda _: 1.0),
    _scaled("scale-twice", "the scale applied twice", lambda problem: problem.scale * problem.scale),
    _scaled(
        "scale-default", "1/sqrt(head_dim) for the scale asked for", lambda problem: 1.0 / math.sqrt(problem.head_dim)
    ),
    _capped("softcap-ignored", "softcap ignored", lambda _: True, lambda _: 0.0),
    _capped(
        "softcap-before-scale",
        "softcap before the scale",
        lambda problem: not math.isclose(problem.scale, 1.0, rel_tol=1e-3),
        # scale * cap * tanh(x / cap), with x unscaled, is a softcap of scale * cap over scale * x
        lambda problem: problem.scale * problem.softcap,
    ),
    Wrong("softcap-after-mask", "softcap after the mask (hidden keys at -softcap)", _cap_shows, _cap_after_mask),
    Wrong(
        "not-normalised",
        "weights not divided by their sum",
        lambda problem: intervals.several_keys(problem) and intervals.plain(problem),
        _weighing(_unnormalised),
    ),
    *_running("maximum-not-rescaled", "the running maximum not rescaled", sums=True, totals=True),
    *_running("sums-not-rescaled", "the running sums of V not rescaled", sums=True, totals=False),
    *_running("total-not-rescaled", "the running denominator not rescaled", sums=False, totals=True),
    _EMPTY_ROW_MEAN,
)

HYPOTHESES = (
    replace(_EMPTY_ROW_MEAN, relevant=lambda problem: bool(problem.masks) and not _leaves_a_row_empty(problem)),
)
"""What diagnosis tries besides the catalogue: the numbers in a mask may leave a query without a key."""
