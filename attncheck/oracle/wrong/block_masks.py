"""Wrong kernels with block masks: another head's, or those of another place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.wrong import intervals
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Recipe
from attncheck.problem import Blocks, Mask, Problem

Shown = Callable[[Problem, Mask, Blocks], NDArray[np.bool_]]
"""What a wrong kernel takes a mask of blocks to show, [batch, heads or 1, rows, slots]."""


def _from_new(problem: Problem, mask: Mask, blocks: Blocks) -> NDArray[np.bool_]:
    new = np.broadcast_to(np.arange(problem.rows), (problem.batch, problem.rows))
    return blocks.over(problem.heads, new, mask.slots)


def _neighbours_alike(problem: Problem, mask: Mask, blocks: Blocks) -> NDArray[np.bool_]:
    """Each layout for as many heads in a row as there are for each."""
    count = len(blocks.layouts)
    order = np.arange(problem.heads) * count // problem.heads
    return blocks.over(count, intervals.own_slots(problem), mask.slots)[:, order if count > 1 else slice(None)]


def _changes(problem: Problem, shown: Shown) -> bool:
    """Whether a query that means something sees another key."""
    slots = np.arange(problem.capacity)
    low, high = problem.visible[..., 0, None], problem.visible[..., 1, None]
    counts = (problem.stated_rows[..., None] & (low <= slots) & (slots < high))[:, None]
    return any(
        bool((counts[..., : mask.slots] & (mask.array({}) != shown(problem, mask, mask.blocks))).any())
        for mask in problem.masks
        if mask.blocks is not None
    )


def _wrong(name: str, words: str, shown: Shown) -> Wrong:
    def change(recipe: Recipe) -> Recipe:
        problem = recipe.problem
        masks = tuple(mask if mask.blocks is None else _of(problem, mask, mask.blocks) for mask in problem.masks)
        return replace(recipe, problem=replace(problem, masks=masks))

    def _of(problem: Problem, mask: Mask, blocks: Blocks) -> Mask:
        content = np.ascontiguousarray(shown(problem, mask, blocks))
        return replace(mask, shape=content.shape, content=content)

    return Wrong(name, words, lambda problem: _changes(problem, shown), change)


BLOCK_MASKS = (
    _wrong("block-rows-from-new", "block rows counted from the first new token", _from_new),
    _wrong("block-layouts-in-groups", "block masks shared by neighbouring heads, not taken in turn", _neighbours_alike),
)
