"""What problems of every kind are made of: where a role's array is found, how to look at it, how its rows turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.generic]]
"""Graph input or output name -> array."""

Layout = Literal["bsnh", "bnsh", "bsnph", "pbnsh"]
"""``bsnh``: [batch, rows, heads * dim] or [batch, rows, heads, dim]; ``bnsh``: [batch, heads, rows, dim]. Where roles
share an array, p is the part that belongs to each: ``bsnph`` [batch, rows, heads, part, dim], ``pbnsh`` [2, batch,
heads, rows, dim], keys and values; the heads of one part then count before those of the next."""

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class Tensor:
    """Where a role's array is found: the graph input or output name, and how its axes are laid out.

    packed, first   a role that shares its array with others: how many heads the array has in all, and which is the
                    role's first; packed 0: the array is the role's own
    """

    name: str
    layout: Layout
    packed: int = 0
    first: int = 0


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
    """

    style: Literal["half", "interleaved"]
    dim: int
    cos: str
    sin: str
    positions: NDArray[np.int32]


def role_of(roles: Sequence[Role], name: str) -> Role:
    """The role of the graph's input or output `name`. Raises KeyError for one that has none."""
    for role in roles:
        if role.tensor.name == name:
            return role
    raise KeyError(name)


def role_heads(array: NDArray[np.generic], tensor: Tensor, heads: int) -> NDArray[np.generic]:
    """View the `heads` heads of a role in its array as [batch, heads, rows, dim], whatever the layout or packing."""
    if not tensor.packed:
        return split_heads(array, tensor.layout, heads)
    return split_heads(array, tensor.layout, tensor.packed)[:, tensor.first : tensor.first + heads]


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
