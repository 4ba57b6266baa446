"""The masks of a Problem as one buffer of f32, and its sinks likewise, so that kernels bind one of each.

Where each query row has biases of its own, the buffer would be as large as all scores: so it holds a block of the rows,
and a kernel is asked for one block after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from attncheck.kernels.draft import INVOCATIONS, Draft, itemsize
from attncheck.kernels.plan import Buffer
from attncheck.problem import Mask, Problem

FORMATS = {"f32": 0, "f16": 1, "boolean": 2, "integer": 3}
"""F32, F16, BOOLEAN and INTEGER of mask.wgsl."""
SIZES = {"boolean": 1, "integer": 4}
"""Bytes of an element that is no number to compute with."""

BLOCK_BYTES, FEW_ROWS = 64 << 20, 64
"""Most bytes of combined masks that are held at a time, and so many query rows of which they are held together all the
same: fewer fill no tile, and kernels of few rows go over slices of keys whose length follows from how many there
are."""


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


def blocks(problem: Problem) -> Iterator[tuple[int, Problem]]:
    """The problem's query rows in blocks, whose lengths differ by one at most: the first row, and a problem of them.

    All of them at once, where that keeps within BLOCK_BYTES, and where a score output is asked for, which is as large.
    Of several none has less than half of FEW_ROWS.
    """
    count = _count(problem)
    bounds = [problem.rows * each // count for each in range(count + 1)]
    for first, end in pairwise(bounds):
        q_len = tuple(min(max(each - first, 0), end - first) for each in problem.q_len)
        yield first, replace(problem, rows=end - first, q_len=q_len, visible=problem.visible[:, first:end])


def nbytes(problem: Problem) -> int:
    """Bytes of the combined masks that are held at a time."""
    batch, heads, rows, slots = _shape(problem)
    return 4 * batch * heads * -(-rows // _count(problem)) * slots if problem.masks else 0


def given_bytes(mask: Mask, elem: str) -> int:
    """Bytes of a mask as it is given; of numbers those of `elem`."""
    return (itemsize(elem) if mask.kind == "additive" else SIZES[mask.kind]) * math.prod(mask.shape)


def masks(draft: Draft[Problem], first: int) -> Bias:
    """Dispatches that combine the masks of a block of rows, the problem's, from row `first` of all; else a stand-in."""
    problem = draft.problem
    batch, heads, rows, slots = _shape(problem)
    strides = _strides((batch, heads, rows, slots))
    params: dict[str, int | float] = {"masked": int(bool(problem.masks))}
    params |= dict(zip(("bias_batch", "bias_head", "bias_row"), strides, strict=False))
    if not problem.masks:
        return Bias(_stand_in(draft), params)
    combined = draft.scratch("bias", "f32", heads, rows, slots, batch=batch)
    for index, mask in enumerate(problem.masks):
        _combine(draft, mask, first, (batch, heads, rows, slots), combined.buffer, more=index > 0)
    return Bias(combined.buffer, params)


def sinks(draft: Draft[Problem]) -> Sinks:
    """A dispatch that reads the sinks; a stand-in where there are none."""
    problem = draft.problem
    params: dict[str, int | float] = {"sinks": int(problem.sink is not None), "zero_sink": int(problem.smooth)}
    if problem.sink is None:
        return Sinks(_stand_in(draft), params)
    given = Mask(problem.sink, "additive", (1, problem.heads, 1, 1), slots=1)
    read = draft.scratch("sinks", "f32", problem.heads, 1, 1, batch=1)
    _combine(draft, given, 0, (1, problem.heads, 1, 1), read.buffer, more=False)
    return Sinks(read.buffer, params)


def _shape(problem: Problem) -> tuple[int, int, int, int]:
    """The shape that all masks of a problem have together: each axis as wide as the widest, the last all slots.

    Masks keep all of their rows where the problem is a block of them: of these it has its own.
    """
    aligned = [_aligned(mask) for mask in problem.masks]
    batch, heads, rows = (max((each[axis] for each in aligned), default=1) for axis in range(3))
    return batch, heads, min(rows, problem.rows), max(1, *problem.kv_len)


def _count(problem: Problem) -> int:
    """How many blocks there are."""
    batch, heads, rows, slots = _shape(problem)
    if rows <= 1 or problem.scores is not None:
        return 1
    return -(-rows // max(FEW_ROWS, BLOCK_BYTES // (4 * batch * heads * slots)))


def _aligned(mask: Mask) -> tuple[int, ...]:
    return (1,) * (4 - len(mask.shape)) + mask.shape


def _combine(
    draft: Draft[Problem], mask: Mask, first: int, onto: tuple[int, ...], target: str, *, more: bool
) -> None:
    own = _aligned(mask)
    size = given_bytes(mask, draft.elem)
    if mask.content is None:
        draft.buffers[mask.name] = Buffer(mask.name, size, input=mask.name)
    else:
        draft.buffers[mask.name] = Buffer(mask.name, size, content=mask.content.tobytes())
    total = int(np.prod(onto))
    params: dict[str, int | float] = {"total": total, "heads": onto[1], "rows": onto[2], "slots": onto[3]}
    strides = dict(zip(("mask_batch", "mask_head", "mask_row", "mask_slot"), _strides(own), strict=True))
    params |= strides | {"mask_first": first * strides["mask_row"]}
    kind = draft.elem if mask.kind == "additive" else mask.kind
    params |= {"mask_slots": mask.slots, "format": FORMATS[kind], "more": int(more)}
    draft.dispatch("mask", {}, params, (mask.name, target), -(-total // INVOCATIONS))


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Elements from one index to the next along each axis, 0 where the axis is broadcast."""
    return tuple(0 if size == 1 else int(np.prod(shape[axis + 1 :])) for axis, size in enumerate(shape))


def _stand_in(draft: Draft[Problem]) -> str:
    """Something to bind where a kernel reads nothing."""
    return draft.constant("nothing", np.zeros(1, np.int32))
