"""KV buffers of integers in float64: what they stand for, and what becomes of new rows.

Source: com.microsoft GroupQueryAttention, "KV Cache Quantization": k_scale and v_scale, one for all or one for each
channel, broadcast to present_key; symmetric, without a zero point. A row x is held as the integer nearest to x / scale,
and an integer n stands for n * scale; attention reads what the buffers stand for. The text is silent on the rounding of
a tie and of numbers that lie so near to one that their own rounding decides: there either integer is right, and the
bounds hold one step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.bounded import Bounded
from attncheck.tensors.dtypes import dtype

Float = NDArray[np.float64]

ROUNDINGS = 16.0
"""How many roundings of float32 may decide on which side of a tie a number lies."""
STORED = 2.0
"""And how many of the storage dtype, where new rows are stored before they are quantised."""
LEAST = 5.5
"""Fewer roundings than any judge allows, 6 or 10, and more than half as many: a step is stated as that part of it which
then becomes a whole one, and not two."""


def scale_of(array: NDArray[np.generic]) -> Float:
    """The scales of keys or values, as they broadcast over [batch, kv_heads, rows, head_dim]."""
    scale: Float = array.astype(np.float64)
    return scale


def nearest(rows: Float, scale: Float, cache: str) -> Float:
    """What new rows [batch, kv_heads, rows, head_dim] are once they are held in the dtype `cache`."""
    largest = dtype(cache).largest
    return np.asarray(np.clip(np.rint(rows / scale), -largest - 1.0, largest) * scale)


def quantised(new: Bounded, scale: Float, cache: str, storage: str) -> Bounded:
    """New rows as they are held, with a step of error where a rounding before may choose the other integer."""
    u = dtype("float32").roundoff
    steps = new.values / scale
    moved = ROUNDINGS * u * (new.compute + np.abs(new.values)) + STORED * dtype(storage).roundoff * new.storage
    doubtful = np.abs(steps - np.floor(steps) - 0.5) <= moved / scale
    error = np.where(doubtful, scale / (LEAST * u), 0.0)
    return Bounded(nearest(new.values, scale, cache), error, np.zeros_like(error))
