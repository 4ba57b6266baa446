"""How much memory a case takes, before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

DEFAULT_LIMIT = 2 * 2**30
_BYTES = {"float32": 4, "float16": 2}
_WIDE = 8
"""The oracle computes in float64."""


@dataclass(frozen=True)
class Part:
    """One group of equal arrays: what they are, their shape, bytes an element, how many there are."""

    what: str
    shape: tuple[int, ...]
    itemsize: int
    count: int = 1

    @property
    def size(self) -> int:
        """Bytes."""
        return prod(self.shape) * self.itemsize * self.count

    def __str__(self) -> str:
        count = f"{self.count} x " if self.count > 1 else ""
        return f"{count}{self.what} {' x '.join(map(str, self.shape))} x {self.itemsize} bytes = {readable(self.size)}"


@dataclass(frozen=True)
class Shape:
    """The numbers that memory depends on; `rows` and `slots` are the padded lengths of queries and keys."""

    dtype: str
    batch: int
    rows: int
    slots: int
    heads: int
    kv_heads: int
    head_dim: int
    rotary_cache: int = 0
    rotary_dim: int = 0


def parts(shape: Shape) -> tuple[Part, ...]:
    """Inputs, outputs, and the oracle's float64 arrays: a score, a weight and an error bound for each query and key."""
    narrow = _BYTES[shape.dtype]
    query = (shape.batch, shape.heads, shape.rows, shape.head_dim)
    cache = (shape.batch, shape.kv_heads, shape.slots, shape.head_dim)
    listed = (
        Part("query and output", query, narrow + _WIDE, 2),
        Part("past and present keys and values", cache, narrow + _WIDE, 4),
        Part("scores", (shape.batch, shape.heads, shape.rows, shape.slots), _WIDE, 3),
        Part("rotary caches", (shape.rotary_cache, shape.rotary_dim // 2), narrow + _WIDE, 2),
    )
    return tuple(part for part in listed if part.size)


def readable(size: int) -> str:
    """Bytes for people: `1.5 GiB`."""
    amount, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
