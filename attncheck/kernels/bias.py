"""All masks of a Problem as one buffer of f32, and its sinks likewise, so that kernels bind one of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attncheck.kernels.draft import INVOCATIONS, Draft, itemsize
from attncheck.kernels.plan import Buffer
from attncheck.problem import Mask, Problem

FORMATS = {"f32": 0, "f16": 1, "boolean": 2, "integer": 3}
"""F32, F16, BOOLEAN and INTEGER of mask.wgsl."""
SIZES = {"boolean": 1, "integer": 4}
"""Bytes of an element that is no number to compute with."""


@dataclass(frozen=True)
class Bias:
    """The combined masks [batch or 1, heads or 1, rows or 1, slots] in a buffer, and the uniforms that address them."""

    buffer: str
    params: dict[str, int | float]


@dataclass(frozen=True)
class Sinks:
    """The sinks [heads] in a buffer, and the uniforms that say which there are."""

    buffer: str
    params: dict[str, int | float]


def shape(problem: Problem) -> tuple[int, int, int, int]:
    """The shape that all masks of a problem have together: each axis as wide as the widest, the last all slots."""
    aligned = [(1,) * (4 - len(mask.shape)) + mask.shape for mask in problem.masks]
    batch, heads, rows = (max((each[axis] for each in aligned), default=1) for axis in range(3))
    return batch, heads, rows, max(1, *problem.kv_len)


def masks(draft: Draft[Problem]) -> Bias:
    """Dispatches that combine the masks; a stand-in where there are none."""
    problem = draft.problem
    batch, heads, rows, slots = shape(problem)
    strides = _strides((batch, heads, rows, slots))
    params: dict[str, int | float] = {"masked": int(bool(problem.masks))}
    params |= dict(zip(("bias_batch", "bias_head", "bias_row"), strides, strict=False))
    if not problem.masks:
        return Bias(_stand_in(draft), params)
    combined = draft.scratch("bias", "f32", heads, rows, slots, batch=batch)
    for index, mask in enumerate(problem.masks):
        elem = draft.elem if mask.kind == "additive" else mask.kind
        _combine(draft, mask, elem, (batch, heads, rows, slots), combined.buffer, more=index > 0)
    return Bias(combined.buffer, params)


def sinks(draft: Draft[Problem]) -> Sinks:
    """A dispatch that reads the sinks; a stand-in where there are none."""
    problem = draft.problem
    params: dict[str, int | float] = {"sinks": int(problem.sink is not None), "zero_sink": int(problem.smooth)}
    if problem.sink is None:
        return Sinks(_stand_in(draft), params)
    given = Mask(problem.sink, "additive", (1, problem.heads, 1, 1), slots=1)
    read = draft.scratch("sinks", "f32", problem.heads, 1, 1, batch=1)
    _combine(draft, given, draft.elem, (1, problem.heads, 1, 1), read.buffer, more=False)
    return Sinks(read.buffer, params)


def _combine(draft: Draft[Problem], mask: Mask, elem: str, onto: tuple[int, ...], target: str, *, more: bool) -> None:
    own = (1,) * (4 - len(mask.shape)) + mask.shape
    size = SIZES[elem] if elem in SIZES else itemsize(elem)
    nbytes = size * int(np.prod(own))
    if mask.content is None:
        draft.buffers[mask.name] = Buffer(mask.name, nbytes, input=mask.name)
    else:
        draft.buffers[mask.name] = Buffer(mask.name, nbytes, content=mask.content.tobytes())
    total = int(np.prod(onto))
    params: dict[str, int | float] = {"total": total, "heads": onto[1], "rows": onto[2], "slots": onto[3]}
    params |= dict(zip(("mask_batch", "mask_head", "mask_row", "mask_slot"), _strides(own), strict=True))
    params |= {"mask_slots": mask.slots, "format": FORMATS[elem], "more": int(more)}
    draft.dispatch("mask", {}, params, (mask.name, target), -(-total // INVOCATIONS))


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Elements from one index to the next along each axis, 0 where the axis is broadcast."""
    return tuple(0 if size == 1 else int(np.prod(shape[axis + 1 :])) for axis, size in enumerate(shape))


def _stand_in(draft: Draft[Problem]) -> str:
    """Something to bind where a kernel reads nothing."""
    return draft.constant("nothing", np.zeros(1, np.int32))
