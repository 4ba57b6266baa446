"""How long a GPU is given work before what counts: at rest it has a slower clock, which takes a while to rise."""

from __future__ import annotations

import math
import time

from attncheck.bench.adapter import Adapter

RESTED, AWAKE = 1.5, 0.2
"""Seconds of work before the first run that counts, of a GPU that may have rested and of one that has just worked: an
NVIDIA H200 at rest, at 345 MHz, has its full clock, 1980 MHz, after a second."""

REST = 2.0
"""Seconds without work after which a GPU may have a slower clock; an H200 keeps its own for more than six."""


class Waking:
    """Remembers when each adapter has worked last, whoever asked it to: contenders share them."""

    def __init__(self) -> None:
        self._worked: dict[tuple[str, str], float] = {}

    def seconds(self, on: Adapter) -> float:
        """Seconds of work that are due now; none of software, whose first run is like every other."""
        if on.kind == "software":
            return 0.0
        if on.kind == "processor" or time.perf_counter() - self._worked.get((on.kind, on.called), -math.inf) < REST:
            return AWAKE
        return RESTED

    def worked(self, on: Adapter) -> None:
        """Just now."""
        self._worked[on.kind, on.called] = time.perf_counter()
