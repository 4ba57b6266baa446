"""What q, k and v hold: kinds of data, each there to expose a kind of fault.

A value is a pure function of (seed, tensor, b, h, s, d); the random bits come from `coordinates`, whose docstring holds
the recipe. `s` counts from the first new token, the past is negative: cutting the past keeps the nearest keys and every
query. Kinds that shape the scores also know head_dim, to bring them to a stated size at the default scale
1 / sqrt(head_dim). What is said of scores below holds for the bare q.k, before rotary turns it.

The rows below use `bits` for the bits of an element, `row` for those of (seed, tensor, b, h, s), and `root` for the
smallest power of two that is at least sqrt(head_dim). V is normal in every kind but "uniform" and "few-rows".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.scenario.model import DataKind
from attncheck.tensors.coordinates import element_bits, normal, rows_bits, uniform

GENERATOR_VERSION = 1
"""Raised with every change of a value below; content digests hold it."""

ROTARY_BASE = 10000.0


@dataclass(frozen=True)
class _Rows:
    """The coordinates that a kind works from.

    dim         as given to `generate`
    s           int64 [batch, 1, rows]
    first       uint64 [1, 1, FEW]: the bits of the rows at s = 0, 1, ... of the first head of the first batch entry
    row         uint64 [batch, heads, rows], the bits of each row
    head        uint64 [batch, heads, 1], the bits of (b, h) alone: those of the row at `_HEAD_ONLY`
    """

    dim: int
    s: NDArray[np.int64]
    first: NDArray[np.uint64]
    row: NDArray[np.uint64]
    head: NDArray[np.uint64]


FEW = 1021
"""How many rows "few-rows" draws from."""

_HEAD_ONLY = 1 << 62
"""A position that no token has: its bits stand for the whole head."""

Fill = Callable[[_Rows], NDArray[np.float64]]


def generate(
    kind: DataKind, seed: int, tensor: str, batch: int, heads: int, positions: NDArray[np.int64], dim: int
) -> NDArray[np.float64]:
    """Values of one tensor, float64 [batch, heads, rows, dim], all within float16's range.

    tensor      "q", "k" or "v"
    positions   int64 [batch, rows], s of each row: 0 is the first new token, negative is the past
    Raises ValueError for an unknown kind or tensor, and for positions of another shape.
    """
    if kind not in _KINDS:
        raise ValueError(f"unknown data kind {kind!r}; the kinds are {', '.join(_KINDS)}")
    if tensor not in ("q", "k", "v"):
        raise ValueError(f"unknown tensor {tensor!r}; data is generated for q, k and v")
    if positions.ndim != 2 or positions.shape[0] != batch:
        raise ValueError(f"positions must be [batch={batch}, rows], not {list(positions.shape)}")
    head_only = np.full((batch, 1), _HEAD_ONLY, dtype=np.int64)
    rows = _Rows(
        dim=dim,
        s=positions.astype(np.int64)[:, None, :],
        first=rows_bits(seed, tensor, 1, 1, np.arange(FEW)[None, :]),
        row=rows_bits(seed, tensor, batch, heads, positions),
        head=rows_bits(seed, tensor, batch, heads, head_only),
    )
    values = _KINDS[kind].fill[tensor](rows)
    shape = (batch, heads, positions.shape[1], dim)
    # Not a view that can only be read: writers go on in the array.
    return values if values.shape == shape else np.ascontiguousarray(np.broadcast_to(values, shape))


def listed(
    numbers: Sequence[float], oldest: int, heads: int, positions: NDArray[np.int64], dim: int
) -> NDArray[np.float64]:
    """Values of one tensor from a list, float64 [batch, heads, rows, dim], read again from its start when it ends.

    numbers     token by token from the one at s = `oldest`; of each token by batch entry, head and dim
    positions   int64 [batch, rows], s of each row; what is older than `oldest` counts from the end of the list
    """
    batch = positions.shape[0]
    tokens = (positions - oldest)[:, None, :, None]
    entries = np.arange(batch)[:, None, None, None]
    each_head = np.arange(heads)[None, :, None, None]
    index = ((tokens * batch + entries) * heads + each_head) * dim + np.arange(dim)
    values: NDArray[np.float64] = np.asarray(numbers, np.float64)[index % len(numbers)]
    return values


def purpose(kind: DataKind) -> str:
    """What the kind is there to expose, in a sentence."""
    return _KINDS[kind].purpose


def rotary_cache(rows: int, dim: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The cos and sin of position * 10000^(-2i / dim), each float64 [rows, dim / 2].

    The only data that needs a power, a cosine and a sine: they are taken in float64 and then rounded to the case's
    dtype by the caller, so that a last bit that differs between processors all but never survives the rounding.
    """
    frequency = ROTARY_BASE ** (-2.0 * np.arange(dim // 2) / dim)
    angle = np.arange(rows)[:, None] * frequency[None, :]
    return np.cos(angle), np.sin(angle)


def _normal(rows: _Rows) -> NDArray[np.float64]:
    return normal(element_bits(rows.row, rows.dim))


def _uniform(rows: _Rows) -> NDArray[np.float64]:
    return uniform(element_bits(rows.row, rows.dim))


def _one_hot(rows: _Rows) -> NDArray[np.float64]:
    """4 in dim `row mod head_dim`, 0 elsewhere."""
    hot = rows.row % np.uint64(rows.dim)
    return np.where(hot[..., None] == np.arange(rows.dim, dtype=np.uint64), 4.0, 0.0)


def _constant(rows: _Rows) -> NDArray[np.float64]:
    """0.5 everywhere."""
    return np.full((*rows.row.shape, rows.dim), 0.5)


def _large(rows: _Rows) -> NDArray[np.float64]:
    """Normal times 2^5: scores at the default scale then have a standard deviation of 2^5."""
    return _normal(rows) * 32.0


_DIGITS = 3
_RADIX = 32


def _rising_q(rows: _Rows) -> NDArray[np.float64]:
    """32^(d mod n) * step * (1 + (row mod 4) / 4), 0 in the dims beyond a multiple of n = min(3, head_dim).

    step = root / (copies * 32), copies = head_dim // n rounded down to a power of two: neighbouring keys differ by
    1/32 to 3/8 at the default scale, so that several keys share the weight.
    """
    digits = min(_DIGITS, rows.dim)
    copies = rows.dim // digits
    d = np.arange(rows.dim)
    weight = np.where(d < copies * digits, float(_RADIX) ** (d % digits), 0.0)
    step = 2.0 ** -(5 + _exponent(copies)) * _root(rows.dim)
    return weight * step * _amplitude(rows.row)[..., None]


def _rising_k(rows: _Rows) -> NDArray[np.float64]:
    """Digit `d mod n` of |s| in base 32 (the last one unbounded), signed as s, times 1 + ((b, h) bits mod 4) / 4."""
    digits = min(_DIGITS, rows.dim)
    magnitude = np.abs(rows.s)
    place = [magnitude // _RADIX**i % _RADIX for i in range(digits - 1)] + [magnitude // _RADIX ** (digits - 1)]
    by_dim = np.stack([place[d % digits] for d in range(rows.dim)], axis=-1) * np.sign(rows.s)[..., None]
    return by_dim * _amplitude(rows.head)[..., None]


def _huge_q(rows: _Rows) -> NDArray[np.float64]:
    """Normal, but 8 in dim 0."""
    return _with_first(_normal(rows), np.float64(8.0))


def _huge_k(rows: _Rows) -> NDArray[np.float64]:
    """Normal, but dim 0 is 16 * root in the key at s = 0, and 0 in every other."""
    return _with_first(_normal(rows), np.where(rows.s == 0, 16.0 * _root(rows.dim), 0.0))


def _ties_q(rows: _Rows) -> NDArray[np.float64]:
    """Normal, but 2 in dim 0."""
    return _with_first(_normal(rows), np.float64(2.0))


def _ties_k(rows: _Rows) -> NDArray[np.float64]:
    """One normal vector a head (that of the bits of (b, h)), but dim 0 is -level * root / 2.

    level is 0 where s mod 3 == 0, else 1 + row mod 7: a level lower is about 1 less in score at the default scale.
    """
    level = np.where(rows.s % 3 == 0, 0.0, 1.0 + (rows.row % np.uint64(7)).astype(np.float64))
    shared = np.broadcast_to(normal(element_bits(rows.head, rows.dim)), (*rows.row.shape, rows.dim))
    return _with_first(shared.copy(), -level * (_root(rows.dim) / 2.0))


def _few_rows(rows: _Rows) -> NDArray[np.float64]:
    """The normal row number `row mod 1021` of the first head, negated where bit 32 of `row` is set."""
    table = normal(element_bits(rows.first, rows.dim)).reshape(FEW, rows.dim)
    signed = np.concatenate([table, -table])
    negated = (rows.row >> np.uint64(32)) & np.uint64(1)
    values: NDArray[np.float64] = signed[(rows.row % np.uint64(FEW) + negated * np.uint64(FEW)).astype(np.int64)]
    return values


def _with_first(values: NDArray[np.float64], first: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    values[..., 0] = first
    return values


def _amplitude(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """1, 1.25, 1.5 or 1.75, so that heads and queries differ while an order of scores stays."""
    return 1.0 + (bits % np.uint64(4)).astype(np.float64) / 4.0


def _root(dim: int) -> float:
    """The smallest power of two that is at least sqrt(dim), by integers alone."""
    root = 1
    while root * root < dim:
        root *= 2
    return float(root)


def _exponent(count: int) -> int:
    """log2 of the largest power of two that is at most `count`."""
    return count.bit_length() - 1


@dataclass(frozen=True)
class _Kind:
    purpose: str
    fill: dict[str, Fill]


_KINDS: dict[DataKind, _Kind] = {
    "normal": _Kind(
        "nearly normal values of variance 1: indexing, strides, tails, head mapping",
        {"q": _normal, "k": _normal, "v": _normal},
    ),
    "uniform": _Kind(
        "values in [-1, 1), nearly flat weights: normalisation, and sums over many keys of equal weight",
        {"q": _uniform, "k": _uniform, "v": _uniform},
    ),
    "one-hot": _Kind(
        "q and k are 4 in one dim: a dim that is dropped, doubled or permuted changes a score from 16 to 0",
        {"q": _one_hot, "k": _one_hot, "v": _normal},
    ),
    "constant": _Kind(
        "all scores equal: the output is the mean of the visible V, so a key too many or too few shows plainly",
        {"q": _constant, "k": _constant, "v": _normal},
    ),
    "large-logits": _Kind(
        "scores of standard deviation 32: an exponential without the maximum taken off overflows",
        {"q": _large, "k": _normal, "v": _normal},
    ),
    "rising-scores": _Kind(
        "every key beats all keys before it: the running maximum changes, and must rescale, at every key",
        {"q": _rising_q, "k": _rising_k, "v": _normal},
    ),
    "huge-logit": _Kind(
        "the key at s = 0 beats all others by some 100: one jump of the running maximum, and weights that underflow",
        {"q": _huge_q, "k": _huge_k, "v": _normal},
    ),
    "ties": _Kind(
        "a third of the keys share the maximum exactly: a maximum that is counted once or skipped when it repeats",
        {"q": _ties_q, "k": _ties_k, "v": _normal},
    ),
    "few-rows": _Kind(
        "every row is one of 1021 normal ones, or its negative: made quickly, for cases of gigabytes that are timed",
        {"q": _few_rows, "k": _few_rows, "v": _few_rows},
    ),
}
