"""What joins q, k and their scores: bias, holes, sink, gains, positions, states, weights. By coordinates alone.

The recipe is that of `coordinates`, with the tensor names "bias", "holes", "sink", "positions", "state", "decay",
"beta", "pages", "key_cache", those of the gains, and of the projection "wq", "wk", "wv", "bq", "bk", "bv". A bias and a
hole stand at (b, h, s of the query, s of the key): cutting the past keeps what the nearest keys had.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attncheck.tensors.coordinates import Bits, element_bits, fold, normal, rows_bits, uniform


def bias(
    seed: int, batch: int, heads: int, queries: int, keys: NDArray[np.int64], first: int = 0
) -> NDArray[np.float64]:
    """Uniform on [-2, 2), float64 [batch, heads, queries, keys]; int64 `keys` are the keys' s, `first` is query 0's."""
    return 2.0 * uniform(_bits("bias", seed, batch, heads, first + np.arange(queries), keys))


def holes(
    seed: int, batch: int, heads: int, queries: int, keys: NDArray[np.int64], first: int = 0
) -> NDArray[np.bool_]:
    """About a third of the keys, bool [batch, heads, queries, keys], by positions as `bias`."""
    return np.asarray(_bits("holes", seed, batch, heads, first + np.arange(queries), keys) % np.uint64(3) == 0)


def sink(seed: int, heads: int) -> NDArray[np.float64]:
    """Nearly normal, float64 [heads]: another for each head, about as large as a score."""
    return normal(rows_bits(seed, "sink", 1, heads, np.zeros((1, 1), np.int64)))[0, :, 0]


def gain(seed: int, tensor: str, dim: int) -> NDArray[np.float64]:
    """Uniform on [0.5, 1.5), float64 [dim]: the gain of a normalisation."""
    bits = element_bits(rows_bits(seed, tensor, 1, 1, np.zeros((1, 1), np.int64)), dim)
    swing: NDArray[np.float64] = 0.5 * uniform(bits)[0, 0, 0]
    return 1.0 + swing


def scattered(seed: int, tokens: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Positions within [0, limit), in no order, int64 [batch, rows]: one for each token, int64 `tokens` alike."""
    bits = rows_bits(seed, "positions", len(tokens), 1, tokens)[:, 0]
    return np.asarray(bits % np.uint64(limit), np.int64)


def beams(seed: int, batch: int, slots: int, width: int) -> NDArray[np.int64]:
    """Beams below `width` in no order, int64 [batch, slots]: the one that each slot came from."""
    bits = rows_bits(seed, "beams", batch, 1, np.broadcast_to(np.arange(slots), (batch, slots)))[:, 0]
    return np.asarray(bits % np.uint64(width), np.int64)


def rows(seed: int, tensor: str, batch: int, heads: int, count: int, dim: int, first: int = 0) -> NDArray[np.float64]:
    """Nearly normal on [-3, 3), float64 [batch, heads, count, dim]: a state, or what its gates are made of.

    first   what is counted before the first row
    """
    places = np.broadcast_to(first + np.arange(count), (batch, count))
    return normal(element_bits(rows_bits(seed, tensor, batch, heads, places), dim))


def order(seed: int, tensor: str, count: int) -> NDArray[np.int64]:
    """The numbers below `count` in no order, int64 [count]."""
    bits = rows_bits(seed, tensor, 1, 1, np.arange(count)[None])[0, 0]
    return np.argsort(bits, kind="stable")


def weights(seed: int, role: str, width: int, heads: int, dim: int) -> NDArray[np.float64]:
    """Nearly normal, divided by the first power of two that is not below sqrt(width), float64 [width, heads, dim].

    Rows of variance 1 become rows of variance 1/4 to 1. role "q", "k" or "v".
    """
    root = 1
    while root * root < width:
        root *= 2
    rows = rows_bits(seed, f"w{role}", 1, heads, np.arange(width, dtype=np.int64)[None, :])
    values: NDArray[np.float64] = normal(element_bits(rows, dim))[0].transpose(1, 0, 2) / root
    return values


def projection_bias(seed: int, role: str, heads: int, dim: int) -> NDArray[np.float64]:
    """Uniform on [-1, 1), float64 [heads, dim]; role "q", "k" or "v"."""
    rows = rows_bits(seed, f"b{role}", 1, heads, np.zeros((1, 1), np.int64))
    return uniform(element_bits(rows, dim))[0, :, 0]


def _bits(tensor: str, seed: int, batch: int, heads: int, queries: NDArray[np.int64], keys: NDArray[np.int64]) -> Bits:
    rows = rows_bits(seed, tensor, batch, heads, np.broadcast_to(queries, (batch, len(queries))))
    return fold(rows[..., None], keys.astype(np.int64).view(np.uint64))
