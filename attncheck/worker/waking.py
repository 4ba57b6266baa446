"""How long a device is given work before what counts: one that idles has a slower clock of its own."""

from __future__ import annotations

LEAST, MOST = 0.2, 0.5
"""Seconds of work after which a GPU has left its idle clock, an NVIDIA H200 after 0.1: short runs take the first, long
ones, of which few are asked for, end at the second."""


def least(warm: int) -> float:
    """Seconds of work before the first run that counts; none for software, which is asked for one dispatch."""
    return LEAST if warm > 1 else 0.0


def due(done: float, warm: int, spent: float) -> bool:
    """Whether more work is due, of `warm` dispatches asked for after `done` of them in `spent` seconds."""
    return spent < MOST and (done < warm or spent < least(warm))
