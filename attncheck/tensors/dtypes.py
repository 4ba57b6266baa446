"""The dtypes attncheck knows, under their ONNX names: how they are stored and how they round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class DType:
    """A floating-point format.

    storage          NumPy dtype of its arrays; bfloat16, which NumPy lacks, travels as its bits in uint16
    roundoff         unit roundoff u: rounding to nearest moves a normal number x by at most u * |x|
    smallest_normal  below it numbers are subnormal: spaced evenly, and on many GPUs flushed to 0
    largest          the largest finite number
    """

    name: str
    storage: np.dtype[np.generic]
    roundoff: float
    smallest_normal: float
    largest: float


_KNOWN = {
    dtype.name: dtype
    for dtype in (
        DType("float32", np.dtype(np.float32), 2.0**-24, 2.0**-126, (2.0 - 2.0**-23) * 2.0**127),
        DType("float16", np.dtype(np.float16), 2.0**-11, 2.0**-14, 65504.0),
        DType("int8", np.dtype(np.int8), 0.0, 0.0, 127.0),
        DType("int4x2", np.dtype(np.uint8), 0.0, 0.0, 7.0),
        DType("bfloat16", np.dtype(np.uint16), 2.0**-8, 2.0**-126, (2.0 - 2.0**-7) * 2.0**127),
    )
}


def dtype(name: str) -> DType:
    """The format with this ONNX name. Raises ValueError, naming the known ones, for any other."""
    try:
        return _KNOWN[name]
    except KeyError:
        raise ValueError(f"unknown dtype {name!r}; attncheck knows {', '.join(_KNOWN)}") from None


def narrow(values: NDArray[np.float64], name: str) -> NDArray[np.generic]:
    """Round float64 `values` to the dtype (to nearest, ties to even), in its storage form, same shape."""
    if name == "bfloat16":
        return _bfloat16_bits(values)
    if name in INTEGERS:
        return _integers(values, name)
    return values.astype(dtype(name).storage)


def unknown(shape: tuple[int, ...], name: str) -> NDArray[np.generic]:
    """NaN in the dtype's storage form: what stands where nobody knows what does."""
    return narrow(np.full(shape, np.nan), name)


def widen(stored: NDArray[np.generic], name: str) -> NDArray[np.float64]:
    """The exact float64 values of an array in the dtype's storage form, same shape; any NaN stays NaN."""
    with np.errstate(invalid="ignore"):  # a signalling NaN, as garbage in a GPU buffer may be, is no reason to warn
        if name == "bfloat16":
            return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        if name == "int4x2":
            both = stored.astype(np.uint8)
            halves = np.stack([both & np.uint8(15), both >> np.uint8(4)], axis=-1).astype(np.float64) - 8.0
            return halves.reshape(*stored.shape[:-1], 2 * stored.shape[-1])
        return stored.astype(np.float64)


def stored_shape(shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """The shape of the arrays that hold a tensor of this shape: two elements to a byte in int4x2."""
    return (*shape[:-1], shape[-1] // 2) if name == "int4x2" else shape


INTEGERS = ("int8", "int4x2")
"""Integers in quantised buffers; int4x2: two to a byte, each plus 8, the even element in the lower half."""


def _integers(values: NDArray[np.float64], name: str) -> NDArray[np.generic]:
    """To the nearest, within the range; NaN, of which there is none, becomes the largest."""
    largest = dtype(name).largest
    whole = np.clip(np.rint(np.where(np.isnan(values), largest, values)), -largest - 1.0, largest)
    if name == "int8":
        return whole.astype(np.int8)
    halves = (whole + 8.0).astype(np.uint8)
    return halves[..., 0::2] | (halves[..., 1::2] << np.uint8(4))


def _bfloat16_bits(values: NDArray[np.float64]) -> NDArray[np.generic]:
    """Round to odd in float32 first (sticky last bit), so that the second rounding cannot double-round."""
    single = values.astype(np.float32)
    finite = np.isfinite(values) & np.isfinite(single)
    inexact = finite & (single.astype(np.float64) != values)
    away = inexact & (np.abs(single.astype(np.float64)) > np.abs(values))
    bits = single.view(np.uint32) - away.astype(np.uint32)
    bits = bits | inexact.astype(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)
