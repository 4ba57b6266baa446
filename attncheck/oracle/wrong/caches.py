"""Wrong kernels with buffers of integers: other roundings, other scales, halves of bytes in another order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Float, Recipe
from attncheck.problem import Problem, Quantised
from attncheck.tensors.dtypes import dtype


def _has(told: Callable[[Problem, Quantised], bool]) -> Callable[[Problem], bool]:
    return lambda problem: problem.quantised is not None and told(problem, problem.quantised)


def _appends(problem: Problem, _: Quantised) -> bool:
    return any(problem.new_len)


def _appends_coarsely(problem: Problem, held: Quantised) -> bool:
    """A step of 8 bits is as small as what numbers of 16 bits may be rounded by on their way to it."""
    return _appends(problem, held) and (held.dtype == "int4x2" or dtype(problem.dtype).storage.itemsize == 4)


def _packed_past(problem: Problem, held: Quantised) -> bool:
    return held.dtype == "int4x2" and any(problem.past_len)


def _quantising(step: Callable[[Float, Float, str], Float]) -> Callable[[Recipe], Recipe]:
    return lambda recipe: replace(recipe, quantise=step)


def _cut_off(rows: Float, scale: Float, cache: str) -> Float:
    largest = dtype(cache).largest
    return np.asarray(np.clip(np.trunc(rows / scale), -largest - 1.0, largest) * scale)


def _unrounded(rows: Float, _: Float, __: str) -> Float:
    return rows


def _swapped(recipe: Recipe) -> Recipe:
    held = recipe.problem.quantised
    if held is None:
        return recipe
    other = replace(held, key=held.value, value=held.key)
    return replace(recipe, problem=replace(recipe.problem, quantised=other))


def _past(change: Callable[[NDArray[Any]], NDArray[Any]]) -> Callable[[Recipe], Recipe]:
    """The bytes of the past are looked at otherwise."""

    def changed(recipe: Recipe) -> Recipe:
        names = [past.name for past in (recipe.problem.past_key, recipe.problem.past_value) if past is not None]
        return replace(recipe, inputs={**recipe.inputs, **{name: change(recipe.inputs[name]) for name in names}})

    return changed


def _halves_swapped(stored: NDArray[Any]) -> NDArray[Any]:
    return np.asarray((stored << np.uint8(4)) | (stored >> np.uint8(4)))


def _as_twos_complement(stored: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(stored ^ np.uint8(0x88))


CACHES = (
    Wrong("cache-new-unrounded", "new keys and values read before they are quantised",
          _has(_appends_coarsely), _quantising(_unrounded)),
    Wrong("cache-cut-off", "new keys and values cut off to integers, not rounded", _has(_appends),
          _quantising(_cut_off)),
    Wrong("cache-scales-swapped", "the scales of keys and values swapped", _has(lambda *_: True), _swapped),
    Wrong("cache-halves-swapped", "the halves of each byte of the past swapped", _has(_packed_past),
          _past(_halves_swapped)),
    Wrong("cache-twos-complement", "the halves of bytes of the past read in two's complement", _has(_packed_past),
          _past(_as_twos_complement)),
)  # fmt: skip
