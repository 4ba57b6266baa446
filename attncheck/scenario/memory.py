"""How much memory a case takes, before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

DEFAULT_LIMIT = 2 * 2**30
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_WIDE = 8
"""The oracle computes in float64."""


@dataclass(frozen=True)
class Part:
    """One group of equal arrays: what they are, their named sizes, bytes an element, how many there are."""

    what: str
    sizes: tuple[tuple[str, int], ...]
    itemsize: int
    count: int

    @property
    def size(self) -> int:
        """Bytes."""
        return prod(size for _, size in self.sizes) * self.itemsize * self.count

    def __str__(self) -> str:
        factors = " x ".join(f"{name} {size}" for name, size in self.sizes)
        return f"{self.what}, {self.count} x {factors} x {self.itemsize} bytes = {readable(self.size)}"


@dataclass(frozen=True)
class Shape:
    """The numbers that memory depends on; `rows` and `slots` are the padded lengths of queries and keys.

    input_dim     width of the rows that are projected to queries, keys and values; 0 where none are
    over_scores   how many inputs and outputs lie over the scores: bias, mask, score output
    state_rows    head_dim of a state [head_dim, v_head_dim] that stands in the place of keys, then `slots` is 0
    """

    dtype: str
    batch: int
    rows: int
    slots: int
    heads: int
    kv_heads: int
    head_dim: int
    rotary_cache: int = 0
    rotary_dim: int = 0
    over_scores: int = 0
    input_dim: int = 0
    state_rows: int = 0


def parts(shape: Shape) -> tuple[Part, ...]:
    """Inputs, outputs, and the oracle's float64 arrays: a score, a weight and an error bound for each query and key."""
    narrow = _BYTES[shape.dtype]
    batch, heads, rows = ("batch", shape.batch), ("heads", shape.heads), ("q_len", shape.rows)
    slots, kv_heads, dim = ("keys", shape.slots), ("kv_heads", shape.kv_heads), ("head_dim", shape.head_dim)
    cache, half = ("rotary_cache", shape.rotary_cache), ("rotary_dim/2", shape.rotary_dim // 2)
    held = ("head_dim", shape.state_rows)
    listed = (
        Part("queries and outputs", (batch, heads, rows, dim), narrow + _WIDE, 2),
        Part("past and present", (batch, kv_heads, slots, dim), narrow + _WIDE, 4),
        Part("keys and values", (batch, kv_heads, rows, dim), narrow + _WIDE, 2 if shape.state_rows else 0),
        Part("states", (batch, kv_heads, held, ("v_head_dim", shape.head_dim)), narrow + _WIDE, 4),
        Part("scores", (batch, heads, rows, slots), _WIDE, 3),
        Part("bias, mask and score output", (batch, heads, rows, slots), narrow + _WIDE, shape.over_scores),
        Part("weights of the projection", (("input_dim", shape.input_dim), heads, dim), narrow + _WIDE, 3),
        Part("rotary caches", (cache, half), narrow + _WIDE, 2),
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
