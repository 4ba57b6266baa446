"""Random bits addressed by coordinates: the same (seed, tensor, b, h, s, d) gives the same 64 bits everywhere.

The recipe, in unsigned 64-bit arithmetic that wraps, so that any language can repeat it:

    mix(z)      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
                z = (z ^ (z >> 27)) * 0x94D049BB133111EB
                z ^ (z >> 31)                                        (the finaliser of splitmix64)
    fold(z, x)  mix((z ^ x) + 0x9E3779B97F4A7C15)
    fnv(name)   z = 0xCBF29CE484222325; for each ASCII byte: z = (z ^ byte) * 0x100000001B3      (FNV-1a)
    bits        fold(fold(fold(fold(fold(fold(0, seed), fnv(tensor)), b), h), s), d)

A negative coordinate (s of the past) enters as its two's complement. From the bits come

    third(i)    ((bits >> 21 * i) mod 2^21 - 2^20) / 2^20           for i = 0, 1, 2: uniform on [-1, 1)
    uniform     third(0)
    normal      third(0) + third(1) + third(2)                       variance 1, on [-3, 3)

Every value is a multiple of 2^-20 below 4 in magnitude, hence exact in float32; nothing calls log, exp or tanh, whose
last bits change with the processor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_WORD = (1 << 64) - 1
_THIRD = np.uint64((1 << 21) - 1)


def rows_bits(seed: int, tensor: str, batch: int, heads: int, positions: NDArray[np.int64]) -> Bits:
    """Bits of each row, not yet of each element: uint64 [batch, heads, rows] from positions int64 [batch, rows]."""
    start = np.array([seed & _WORD], dtype=np.uint64)
    root = fold(fold(np.zeros(1, np.uint64), start), np.array([_fnv(tensor)], np.uint64))
    members = fold(root, np.arange(batch, dtype=np.uint64))
    each_head = fold(members[:, None], np.arange(heads, dtype=np.uint64)[None, :])
    return fold(each_head[:, :, None], positions.astype(np.int64).view(np.uint64)[:, None, :])


def element_bits(rows: Bits, dim: int) -> Bits:
    """Bits of each element: uint64 [batch, heads, rows, dim] from row bits [batch, heads, rows]."""
    return fold(rows[..., None], np.arange(dim, dtype=np.uint64))


def uniform(bits: Bits) -> NDArray[np.float64]:
    """Uniform on [-1, 1), in multiples of 2^-20."""
    return _third(bits, 0)


def normal(bits: Bits) -> NDArray[np.float64]:
    """Mean 0 (but for 2^-20), variance 1, shaped nearly like a normal distribution, on [-3, 3)."""
    return _third(bits, 0) + _third(bits, 1) + _third(bits, 2)


def _third(bits: Bits, index: int) -> NDArray[np.float64]:
    field = (bits >> np.uint64(21 * index)) & _THIRD
    return (field.astype(np.float64) - 2.0**20) * 2.0**-20


def fold(state: Bits, coordinate: Bits) -> Bits:
    """Bits of a further coordinate: the step of the recipe above."""
    return _mix((state ^ coordinate) + _GOLDEN)


def _mix(z: Bits) -> Bits:
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def _fnv(name: str) -> int:
    z = 0xCBF29CE484222325
    for byte in name.encode("ascii"):
        z = ((z ^ byte) * 0x100000001B3) & _WORD
    return z
