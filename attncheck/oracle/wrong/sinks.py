"""Wrong kernels with sinks: ignored, counted twice, or one head's for all heads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Float, Recipe, Tile, softmax
from attncheck.problem import Problem


def _no_sink(recipe: Recipe) -> Recipe:
    return replace(recipe, problem=replace(recipe.problem, sink=None, smooth=False))


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


SINKS = (
    Wrong("sink-ignored", "the sink ignored", _has_sink, _no_sink),
    Wrong("sink-twice", "the sink counted twice", _has_sink, _sinks_twice),
    Wrong(
        "sink-of-head-0",
        "the sink of head 0 used for all heads",
        lambda problem: problem.sink is not None and problem.heads > 1,
        _sink_of_head_0,
    ),
)
