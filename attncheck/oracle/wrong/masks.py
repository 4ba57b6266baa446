"""Wrong kernels with masks and biases: ignored, one head's for all, cut, capped, or taken for something simpler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.wrong import intervals
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Float, Recipe, Tile, softmax
from attncheck.problem import Mask, Problem


def _no_masks(recipe: Recipe) -> Recipe:
    return replace(recipe, problem=replace(recipe.problem, masks=()))


def _first_of(axis: int) -> Callable[[Recipe], Recipe]:
    """Along `axis`, from the right, a mask's first part stands for all."""

    def change(recipe: Recipe) -> Recipe:
        inputs = dict(recipe.inputs)
        for mask in recipe.problem.masks:
            array = mask.array(inputs)
            if _spans(mask, axis):
                array = np.broadcast_to(np.take(array, [0], axis=axis), mask.shape)
            inputs[mask.name] = array
        masks = tuple(replace(mask, content=None) for mask in recipe.problem.masks)
        return replace(recipe, problem=replace(recipe.problem, masks=masks), inputs=inputs)

    return change


def _spans(mask: Mask, axis: int) -> bool:
    return len(mask.shape) >= -axis and mask.shape[axis] > 1


def _some_mask_spans(axis: int) -> Callable[[Problem], bool]:
    return lambda problem: any(_spans(mask, axis) and _varies(mask, axis) for mask in problem.masks)


def _varies(mask: Mask, axis: int) -> bool:
    """Whether a mask that the problem itself holds says something else along `axis`; of others nobody knows."""
    return mask.content is None or bool((mask.content != np.take(mask.content, [0], axis=axis)).any())


def _changed(recipe: Recipe, masks: list[tuple[Mask, NDArray[Any]]]) -> Recipe:
    """The recipe with other masks in place of its own."""
    inputs = {**recipe.inputs, **{mask.name: array for mask, array in masks}}
    told = tuple(replace(mask, content=None) for mask, _ in masks)
    return replace(recipe, problem=replace(recipe.problem, masks=told), inputs=inputs)


def _counted(recipe: Recipe) -> Recipe:
    """As many keys as a mask lets take part, but the first ones."""
    masks = []
    for mask in recipe.problem.masks:
        array = mask.array(recipe.inputs)
        if _has_rows(mask):
            array = np.arange(mask.shape[-1]) < np.count_nonzero(array, axis=-1, keepdims=True)
        masks.append((mask, array))
    return _changed(recipe, masks)


def _has_rows(mask: Mask) -> bool:
    """Whether a boolean mask differs from row to row, as padding of keys does not."""
    return mask.kind != "additive" and len(mask.shape) >= 2 and mask.shape[-2] > 1 and mask.shape[-1] > 2


def _extended(recipe: Recipe) -> Recipe:
    """Keys behind a mask's end take part, with nothing added."""
    problem = recipe.problem
    slots = max(problem.kv_len)
    masks = []
    for mask in problem.masks:
        array = mask.array(recipe.inputs)
        array = np.broadcast_to(array, (*mask.shape[:-1], mask.slots)) if mask.shape[-1] == 1 else array
        beyond = np.zeros((*array.shape[:-1], max(0, slots - mask.slots)), array.dtype)
        whole = np.concatenate([array, beyond if mask.kind == "additive" else beyond == 0], axis=-1)
        masks.append((replace(mask, shape=whole.shape, slots=whole.shape[-1]), whole))
    return _changed(recipe, masks)


def _ends_early(problem: Problem) -> bool:
    if not problem.masks:
        return False
    end = min(mask.slots for mask in problem.masks)
    rows = problem.stated_rows & (problem.visible[..., 0] < problem.visible[..., 1])
    return bool((rows & (problem.visible[..., 1] > end)).any())


def _cap_after_bias(recipe: Recipe) -> Recipe:
    softcap = recipe.problem.softcap

    def weights(tile: Tile) -> Float:
        return softmax(replace(tile, score=softcap * np.tanh(tile.score / softcap)))

    return replace(recipe, problem=replace(recipe.problem, softcap=0.0), weights=weights)


def _caps_a_bias(problem: Problem) -> bool:
    biased = any(mask.kind == "additive" and mask.shape[-1] > 1 for mask in problem.masks)
    return problem.softcap > 0.0 and biased and intervals.scores_matter(problem)


def _inverted(recipe: Recipe) -> Recipe:
    masks = []
    for mask in recipe.problem.masks:
        array = mask.array(recipe.inputs)
        masks.append((mask, array if mask.kind == "additive" else array == 0))
    return _changed(recipe, masks)


MASKS = (
    Wrong("mask-ignored", "the mask or bias ignored", lambda problem: bool(problem.masks), _no_masks),
    Wrong("mask-of-head-0", "the mask or bias of head 0 used for all heads", _some_mask_spans(-3), _first_of(-3)),
    Wrong("mask-of-entry-0", "the mask or bias of batch entry 0 used for all", _some_mask_spans(-4), _first_of(-4)),
    Wrong("mask-of-row-0", "the mask or bias of query row 0 used for all rows", _some_mask_spans(-2), _first_of(-2)),
    Wrong(
        "mask-to-length",
        "a boolean mask with holes taken for a length (the number of its keys)",
        lambda problem: any(_has_rows(mask) for mask in problem.masks),
        _counted,
    ),
    Wrong("mask-end-ignored", "keys behind the end of a shorter mask visible", _ends_early, _extended),
    Wrong("softcap-after-bias", "softcap after the bias", _caps_a_bias, _cap_after_bias),
)

HYPOTHESES = (
    Wrong(
        "mask-inverted",
        "a boolean mask read the other way round, true for a hidden key",
        lambda problem: any(mask.kind != "additive" and mask.content is None for mask in problem.masks),
        _inverted,
    ),
)
"""What diagnosis tries besides the catalogue: whether it shows depends on the numbers in the mask."""
