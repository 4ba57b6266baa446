"""Rows on their way to attention, with how far rounding may have moved them: projected, normalised, turned, kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Bounded:
    """Rows after what is done to them before attention, [batch, heads, rows, head_dim] each.

    values   the rows
    compute  times u, a first-order bound on their error
    storage  |values| where they are rounded to the storage dtype on their way, 0 in dims that are only copied
    """

    values: Float
    compute: Float
    storage: Float

    @property
    def arrays(self) -> tuple[Float, Float, Float]:
        """All three, in order."""
        return self.values, self.compute, self.storage

    def each(self, change: Callable[..., Float], *beside: Bounded) -> Bounded:
        """The rows after a change that moves elements and computes none: of each array, and the same of `beside`."""
        return Bounded(*map(change, self.arrays, *(rows.arrays for rows in beside)))


def exact(rows: Float) -> Bounded:
    """Rows that are only copied."""
    nothing = np.broadcast_to(0.0, rows.shape)
    return Bounded(rows, nothing, nothing)
