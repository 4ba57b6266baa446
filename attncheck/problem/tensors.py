"""What problems of every kind are made of: where a role's array is found, how to look at it, how its rows turn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.generic]]
"""Graph input or output name -> array."""

Layout = Literal["bsnh", "bnsh", "bsnph", "pbnsh", "scattered"]
"""``bsnh``: [batch, rows, heads * dim] or [batch, rows, heads, dim]; ``bnsh``: [batch, heads, rows, dim]. Where roles
share an array, p is the part that belongs to each: ``bsnph`` [batch, rows, heads, part, dim], ``pbnsh`` [2, batch,
heads, rows, dim], keys and values; the heads of one part then count before those of the next. ``scattered``: no axis of
the array is batch or rows, and `Scattered` says where each row lies."""

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class Scattered:
    """Where the rows of all batch entries lie in an array whose leading axes, taken as one, count places for them.

    shape   of the array: [places, heads * dim], or in pages [pages, page, heads, dim]
    places  int32 [batch, rows]: the place of row i of batch entry b, -1 for one that lies nowhere. Entries may share
            places that are only read
    page    rows of a page, 0 where there are none
    """

    shape: tuple[int, ...]
    places: NDArray[np.int32]
    page: int = 0


@dataclass(frozen=True)
class Tensor:
    """Where a role's array is found: the graph input or output name, and how its axes are laid out.

    packed, first   a role that shares its array with others: how many heads the array has in all, and which is the
                    role's first; packed 0: the array is the role's own
    scattered       where the rows lie, in the layout of that name; None in every other
    """

    name: str
    layout: Layout
    packed: int = 0
    first: int = 0
    scattered: Scattered | None = None


@dataclass(frozen=True)
class Role:
    """What a tensor is to its problem, its shape as [batch, heads, rows, dim], whatever the layout, and its dtype."""

    name: str
    tensor: Tensor
    shape: tuple[int, int, int, int]
    dtype: str


@dataclass(frozen=True)
class Rotary:
    """Rotary position embedding of the new queries and new keys.

    style      "half" pairs dim d with d + dim/2; "interleaved" pairs 2d with 2d+1
    dim        how many leading dims of head_dim turn (even, <= head_dim)
    cos, sin   graph input names of the caches, [..., dim/2], in the case's dtype; all axes but the last count as one
    positions  int32 [batch, rows]: the cache row that token `i` of batch entry `b` uses
    base       where the operator has no caches, so that cos and sin name none (""): what its angles follow from; else 0
    """

    style: Literal["half", "interleaved"]
    dim: int
    cos: str
    sin: str
    positions: NDArray[np.int32]
    base: float = 0.0

    @property
    def caches(self) -> tuple[str, ...]:
        """The graph inputs that hold cosines and sines; none where the operator has its angles by itself."""
        return () if self.base else (self.cos, self.sin)

    def angles(self, positions: NDArray[np.int32]) -> NDArray[np.float64]:
        """Without caches, how far position p turns pair i: p / base ** (2 i / dim), [*positions.shape, dim / 2]."""
        pairs = np.arange(self.dim // 2)
        return np.asarray(positions[..., None] * self.base ** (-2.0 * pairs / self.dim), np.float64)


def role_of(roles: Sequence[Role], name: str) -> Role:
    """The role of the graph's input or output `name`. Raises KeyError for one that has none."""
    for role in roles:
        if role.tensor.name == name:
            return role
    raise KeyError(name)


def role_heads(array: NDArray[np.generic], tensor: Tensor, heads: int) -> NDArray[np.generic]:
    """View the `heads` heads of a role in its array as [batch, heads, rows, dim], whatever the layout or packing."""
    held = tensor.packed or heads
    if tensor.scattered is not None:
        whole = gathered(array, tensor.scattered, held)
    else:
        whole = split_heads(array, tensor.layout, held)
    return whole[:, tensor.first : tensor.first + heads] if tensor.packed else whole


def judged_heads(array: NDArray[np.generic], role: Role) -> NDArray[np.generic]:
    """View an output [batch, heads, rows, dim] as its places are told; of an array of pages, [pages, heads, page, dim].

    What no batch entry owns has to be looked at too: it is another's.
    """
    at = role.tensor.scattered
    if at is None:
        return split_heads(array, role.tensor.layout, role.shape[1])
    return array.transpose(0, 2, 1, 3) if at.page else gathered(array, at, role.shape[1])


def gathered(array: NDArray[np.generic], at: Scattered, heads: int) -> NDArray[np.generic]:
    """The rows [batch, heads, rows, dim] of a scattered array; one that lies nowhere is NaN, or false."""
    flat = array.reshape(-1, heads, math.prod(at.shape[1:] if not at.page else at.shape[2:]) // heads)
    rows = flat[np.maximum(at.places, 0)]
    rows[at.places < 0] = _NOTHING.get(array.dtype.kind, 0)
    return rows.transpose(0, 2, 1, 3)


_NOTHING: Mapping[str, float | int] = {"f": math.nan, "b": 0, "u": 0x7FC0}
"""What is read where no row lies, by kind of dtype; unsigned integers are the bits of bfloat16."""


def scattered(rows: NDArray[T], at: Scattered, onto: NDArray[T] | None = None) -> NDArray[T]:
    """The array of `rows` [batch, heads, rows, dim]; elsewhere it holds what `onto` does, or 0. `gathered` undone."""
    whole = np.zeros(at.shape, rows.dtype) if onto is None else onto.copy()
    inside = at.places >= 0
    whole.reshape(-1, rows.shape[1], rows.shape[3])[at.places[inside]] = rows.transpose(0, 2, 1, 3)[inside]
    return whole


def split_heads(array: NDArray[np.generic], layout: Layout, heads: int) -> NDArray[np.generic]:
    """View `array` as [batch, heads, rows, dim] whatever its layout (3-D bsnh arrays are unpacked by `heads`)."""
    if layout == "bnsh":
        return array
    if layout in ("bsnph", "pbnsh"):
        parts_first = array.transpose(0, 3, 2, 1, 4) if layout == "bsnph" else array.transpose(1, 0, 2, 3, 4)
        batch, parts, own, rows, dim = parts_first.shape
        return parts_first.reshape(batch, parts * own, rows, dim)
    if array.ndim == 3:
        batch, rows, width = array.shape
        array = array.reshape(batch, rows, heads, width // heads)
    return array.transpose(0, 2, 1, 3)


def joined(rows: NDArray[T], tensor: Tensor, onto: NDArray[T] | None = None) -> NDArray[T]:
    """All heads [batch, heads, rows, dim] as the array of an output; `onto` holds what scattered rows leave alone."""
    if tensor.scattered is not None:
        return scattered(rows, tensor.scattered, onto)
    return join_heads(rows, tensor.layout)


def output_shape(role: Role) -> tuple[int, ...]:
    """The shape of the array of an output."""
    at = role.tensor.scattered
    return joined_shape(role.shape, role.tensor.layout) if at is None else at.shape


def join_heads(array: NDArray[T], layout: Layout) -> NDArray[T]:
    """All heads [batch, heads, rows, dim] as the array of an output: `split_heads` undone, bsnh in three axes."""
    batch, heads, rows, dim = array.shape
    if layout == "bsnh":
        return array.transpose(0, 2, 1, 3).reshape(batch, rows, heads * dim)
    if layout == "pbnsh":
        return array.reshape(batch, 2, heads // 2, rows, dim).transpose(1, 0, 2, 3, 4)
    return array


def joined_shape(shape: tuple[int, int, int, int], layout: Layout) -> tuple[int, ...]:
    """The shape that `join_heads` gives."""
    batch, heads, rows, dim = shape
    if layout == "bsnh":
        return (batch, rows, heads * dim)
    return (2, batch, heads // 2, rows, dim) if layout == "pbnsh" else shape
