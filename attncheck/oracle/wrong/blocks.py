"""Wrong kernels that take the keys in blocks and get a block wrong: keys that no block reads, or that two count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.wrong import intervals
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Float, Recipe, Tile, softmax
from attncheck.problem import Problem


def skipped(size: int, first: int, end: int) -> Wrong:
    """The keys [first, end) of each block of `size` keys are not read."""

    def weights(tile: Tile) -> Float:
        within = tile.slots % size
        return softmax(replace(tile, shown=tile.shown & ((within < first) | (within >= end))))

    def relevant(problem: Problem) -> bool:
        """Some query sees a key that is skipped, and another besides."""
        within = np.arange(problem.capacity) % size
        return bool((_seen(problem) & (first <= within) & (within < end)).any())

    return Wrong(
        f"keys-{first}-to-{end - 1}-of-{size}-skipped",
        _words(size, first, end),
        relevant,
        lambda recipe: replace(recipe, weights=weights),
    )


def _words(size: int, first: int, end: int) -> str:
    if 2 * (end - first) > size and (first == 0 or end == size):
        read = f"{end}..{size - 1}" if first == 0 else f"0..{first - 1}"
        return f"only keys {read} of each block of {size} read"
    return f"keys {first}..{end - 1} of each block of {size} skipped"


def short(loaded: int, scored: int, kept: bool) -> Wrong:
    """A loop that steps by the `loaded` keys of a block, and scores `scored` of them.

    What lies behind the loaded ones is empty: score 0, V 0, and counted in the denominator where the query would see a
    key there. With `kept` the scores of a block are added to the weights of the block before, for want of a reset.
    ONNX Runtime 1.27 does both where a subgroup has 4 lanes (its loop steps by the subgroup size, and scores 8 or 16).
    """

    def change(recipe: Recipe) -> Recipe:
        def weights(tile: Tile) -> Float:
            return _short_blocks(tile, loaded, scored, kept)

        return replace(recipe, weights=weights)

    besides = " and a block's scores added to the weights of the block before" if kept else ""
    return Wrong(
        f"blocks-of-{loaded}-scored-as-{scored}" + ("-kept" if kept else ""),
        f"blocks of {loaded} keys scored as blocks of {scored} "
        f"(keys {loaded}..{scored - 1} of each block count with score 0 and no V){besides}",
        _beyond(loaded),
        change,
    )


def _beyond(loaded: int) -> Callable[[Problem], bool]:
    def relevant(problem: Problem) -> bool:
        rows = problem.stated_rows
        return intervals.plain(problem) and bool(
            (problem.visible[..., 1][rows] > np.maximum(loaded, problem.visible[..., 0][rows])).any()
        )

    return relevant


def _short_blocks(tile: Tile, loaded: int, scored: int, kept: bool) -> Float:
    """Weights [.., slots]; together less than 1, for the empty places take their part of the denominator."""
    low, count = int(tile.slots[0]), len(tile.slots)
    shown = np.broadcast_to(tile.shown, tile.score.shape)
    weights = np.zeros_like(tile.score)
    places = np.zeros((*tile.score.shape[:-1], scored))
    top = np.full(tile.score.shape[:-1], -np.inf)
    total = np.zeros(tile.score.shape[:-1])
    real = np.arange(scored) < loaded
    written: list[tuple[NDArray[np.int64], Float]] = []
    # No block before the first of these reaches a key that is seen.
    for start in range(max(0, low // loaded * loaded - (scored - loaded)), low + count, loaded):
        index = start + np.arange(scored) - low
        there = (index >= 0) & (index < count)
        within = np.clip(index, 0, count - 1)
        score = np.where(there & real, tile.score[..., within], 0.0) + (places if kept else 0.0)
        score = np.where(there & shown[..., within], score, -np.inf)
        new_top = np.maximum(top, score.max(axis=-1))
        finite = np.where(np.isneginf(new_top), 0.0, new_top)
        places = np.exp(score - finite[..., None])
        left = total * np.exp(top - finite)
        total = left + places.sum(axis=-1)
        divisor = np.where(total == 0.0, 1.0, total)
        places = places / divisor[..., None]
        weights[..., index[there & real]] = places[..., there & real]
        written.append((index[there & real], left / divisor))
        top = new_top
    shrunk = np.ones_like(total)
    for index, shrinks in reversed(written):
        weights[..., index] *= shrunk[..., None]
        shrunk = shrunk * shrinks
    return weights


def _seen(problem: Problem) -> NDArray[np.bool_]:
    """Which slots some query sees, of those that are not the only one of every query that sees them."""
    seen = np.zeros(problem.capacity, np.bool_)
    rows = problem.stated_rows
    for low, high in np.unique(problem.visible[rows], axis=0):
        if high - low > 1:
            seen[low:high] = True
    return seen


BLOCKS = (
    skipped(32, 16, 32),
    skipped(16, 8, 16),
    skipped(8, 4, 8),
    short(4, 8, kept=False),
    short(4, 8, kept=True),
    short(8, 16, kept=False),
)

_QUARTERS = [(first, end) for first in range(4) for end in range(first + 1, 5) if end - first < 4]

HYPOTHESES: tuple[Wrong, ...] = (
    *(skipped(size, size // 4 * a, size // 4 * b) for size in (4, 8, 16, 32, 64, 128) for a, b in _QUARTERS),
    *(short(size, times * size, kept) for size in (4, 8, 16, 32, 64) for times in (2, 4) for kept in (False, True)),
)
"""Blocks that diagnosis tries besides the catalogue: by quarters, for every usual size of a subgroup or tile."""
