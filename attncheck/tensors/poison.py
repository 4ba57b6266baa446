"""What the slots hold that must not matter.

Two poisons, because a slot can be unread in two ways:

- The operator never reads it (beyond the valid length, padded query rows): NaN, which survives any arithmetic.
- A key under the mask or outside the window *is* read by correct kernels, and multiplied by a weight of 0. 0 * NaN is
  NaN, and MultiHeadAttention masks by adding -10000, so NaN in V or a huge K would condemn correct kernels. There K
  stays as generated and V is 1e4: harmless at weight 0, glaring at any other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

UNREAD = float("nan")
HIDDEN_VALUE = 1.0e4


def blank_unread(values: NDArray[np.float64], read: NDArray[np.bool_]) -> NDArray[np.float64]:
    """A copy of [batch, heads, rows, dim] with NaN in the rows where read [batch, rows] is false."""
    return np.where(read[:, None, :, None], values, UNREAD)


def overwrite_hidden(values: NDArray[np.float64], seen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """A copy of V [batch, kv_heads, rows, dim] with 1e4 in the rows that no query sees, by seen [batch, rows]."""
    return np.where(seen[:, None, :, None], values, HIDDEN_VALUE)
