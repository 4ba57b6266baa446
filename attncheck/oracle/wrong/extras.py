"""Wrong kernels with sinks and masks: ignored, counted twice, or one head's for all heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Float, Recipe, Tile, softmax
from attncheck.problem import Mask, Problem


def _with(**changes: object) -> Callable[[Recipe], Recipe]:
    return lambda recipe: replace(recipe, problem=replace(recipe.problem, **changes))  # type: ignore[arg-type]


def _sinks_twice(recipe: Recipe) -> Recipe:
    def weights(tile: Tile) -> Float:
        return softmax(replace(tile, sinks=np.concatenate([tile.sinks, tile.sinks], axis=-1)))

    return replace(recipe, weights=weights)


def _sink_of_head_0(recipe: Recipe) -> Recipe:
    name = recipe.problem.sink
    if name is None:
        return recipe
    sinks = recipe.inputs[name]
    first = np.broadcast_to(sinks.reshape(-1)[:1], (sinks.size,)).reshape(sinks.shape)
    return replace(recipe, inputs={**recipe.inputs, name: first})


def _has_sink(problem: Problem) -> bool:
    return problem.sink is not None or problem.smooth


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


EXTRAS = (
    Wrong("sink-ignored", "the sink ignored", _has_sink, _with(sink=None, smooth=False)),
    Wrong("sink-twice", "the sink counted twice", _has_sink, _sinks_twice),
    Wrong(
        "sink-of-head-0",
        "the sink of head 0 used for all heads",
        lambda problem: problem.sink is not None and problem.heads > 1,
        _sink_of_head_0,
    ),
    Wrong("mask-ignored", "the mask or bias ignored", lambda problem: bool(problem.masks), _with(masks=())),
    Wrong("mask-of-head-0", "the mask or bias of head 0 used for all heads", _some_mask_spans(-3), _first_of(-3)),
    Wrong("mask-of-entry-0", "the mask or bias of batch entry 0 used for all", _some_mask_spans(-4), _first_of(-4)),
    Wrong("mask-of-row-0", "the mask or bias of query row 0 used for all rows", _some_mask_spans(-2), _first_of(-2)),
)
