"""RMS normalisation of heads in float64, and how far rounding may move it.

Source: com.microsoft GroupQueryAttention, `q_norm_weight` and `k_norm_weight` ("a per-head RMS normalization to Q (and
K) before any rotary embedding"; epsilon "used by the per-head RMS norm"), and SimplifiedLayerNormalization, the pattern
that it stands for: y = x / sqrt(mean(x^2) + epsilon) * gain.

With n terms in the mean, each square and the sum are rounded: the mean is off by at most (1 + sqrt(n)) u (Higham and
Mary, 2019), the root by half of that, and the root, the division and the product by the gain each round once more:

    |y - exact|  <=  u * |y| * (3 + (1 + sqrt(n)) / 2)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.bounded import Bounded


def normalised(rows: NDArray[np.float64], gain: NDArray[np.float64], epsilon: float) -> Bounded:
    """Normalise each row of [batch, heads, rows, head_dim]; gain [head_dim]. Its result may be stored before rotary."""
    mean = np.mean(rows * rows, axis=-1, keepdims=True)
    values = rows / np.sqrt(mean + epsilon) * gain
    size = np.abs(values)
    return Bounded(values, size * (3.0 + (1.0 + math.sqrt(rows.shape[-1])) / 2.0), size)
