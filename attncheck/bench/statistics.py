"""Durations in a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Summary:
    """Of so many runs, in seconds: the median, and what a tenth of them stay below and above."""

    runs: int
    median: float
    p10: float
    p90: float


def summary(seconds: Sequence[float]) -> Summary:
    """Between two runs a quantile is interpolated. Raises ValueError where there is no run."""
    if not seconds:
        raise ValueError("no run to summarise")
    p10, median, p90 = (float(it) for it in np.percentile(np.asarray(seconds, np.float64), (10.0, 50.0, 90.0)))
    return Summary(len(seconds), median, p10, p90)
