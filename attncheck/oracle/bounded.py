"""Rows on their way to attention, with how far rounding may have moved them: projected, normalised, turned, kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Bounded:
    """Rows after what is done to them before attention, [batch, heads, rows, head_dim] each.

    values   the rows
    compute  times u, a first-order bound on their error
    storage  |values| where they are rounded to the storage dtype on their way, 0 in dims that are only copied
    """

    values: NDArray[np.float64]
    compute: NDArray[np.float64]
    storage: NDArray[np.float64]


def exact(rows: NDArray[np.float64]) -> Bounded:
    """Rows that are only copied."""
    nothing = np.broadcast_to(0.0, rows.shape)
    return Bounded(rows, nothing, nothing)
