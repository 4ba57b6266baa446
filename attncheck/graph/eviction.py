"""Which keys stay in the window-sized cache of com.microsoft GroupQueryAttention, `sliding_window_cache`.

Its text in ONNX Runtime 1.32: with a capacity C, a window W and T tokens processed so far, G = C - W + 1, the buffers
hold the last L(T) of them in order, from row 0 on: L(T) = T where T <= C, else T - G * ceil((T - C) / G).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def resident(total: NDArray[np.int64], capacity: int, window: int) -> NDArray[np.int64]:
    """L of each total: how many of the last keys the buffers hold. Needs window <= capacity."""
    at_once = capacity - window + 1
    evicted = at_once * -(-np.maximum(total - capacity, 0) // at_once)
    return np.asarray(total - evicted)
