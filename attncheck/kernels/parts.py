"""Tensors of more than one binding: the parts of batch members and heads whose dispatches bind what they need alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attncheck.kernels.draft import ELEMENTS, Limits, View, itemsize
from attncheck.kernels.plan import Range
from attncheck.problem import Problem

ALIGNMENT = 256
"""Bytes that a part's place in its buffer is a multiple of: WebGPU's default, and so of whole vectors of any shader."""


@dataclass(frozen=True)
class Part:
    """Members [first, end) of batch x heads, the heads running fastest, and of each view what its dispatch binds.

    ranges  None binds all of the buffer; skips: elements of the view's buffer before the range
    """

    first: int
    end: int
    ranges: tuple[Range | None, ...]
    skips: tuple[int, ...]


def larger(problem: Problem, limits: Limits) -> str | None:
    """What a kernel lacks that binds all keys at once, and all values, where one of these takes more than a binding."""
    rows = problem.batch * problem.kv_heads * problem.capacity
    nbytes = rows * max(problem.head_dim, problem.v_head_dim) * itemsize(ELEMENTS[problem.dtype])
    return f"keys or values of {nbytes} bytes, more than one binding" if nbytes > limits.binding_bytes else None


def parts(views: Sequence[View], members: int, binding_bytes: int) -> Iterator[Part]:
    """The fewest parts in order whose every view fits in a binding; one of all members where all buffers do.

    views    all of so many members
    A part has one member at least: whether that fits is for `planner.refusal` to say.
    """
    if all(_range(view, 0, members).nbytes <= binding_bytes for view in views):
        yield Part(0, members, (None,) * len(views), (0,) * len(views))
        return
    first = 0
    while first < members:
        end = first + 1
        while end < members and all(_range(view, first, end + 1).nbytes <= binding_bytes for view in views):
            end += 1
        ranges = tuple(_range(view, first, end) for view in views)
        skips = tuple(it.offset // itemsize(view.elem) for it, view in zip(ranges, views, strict=True))
        yield Part(first, end, ranges, skips)
        first = end


def _range(view: View, first: int, end: int) -> Range:
    """Where members [first, end) lie, from an aligned byte on: in every layout none begins before the one before it."""
    size = itemsize(view.elem)
    whole, head, row = view.strides("").values()
    lowest, last = (view.first + it // view.heads * whole + it % view.heads * head for it in (first, end - 1))
    highest = last + (view.rows - 1) * row + view.dim
    offset = lowest * size // ALIGNMENT * ALIGNMENT
    return Range(offset, highest * size - offset)
