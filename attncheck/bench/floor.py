"""The least time that a case takes on an adapter, and what is too fast to be true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attncheck.bench.events import Rates, Timing
from attncheck.bench.work import Work
from attncheck.vocabulary import Verdict

BELIEVED = 0.5
"""A median below this share of the floor says that the clock stopped before the kernel: rates are known to some 10%."""


def best(every: Sequence[Rates]) -> Rates | None:
    """The rates of an adapter: of several compilers on it each at its best; None where none was measured."""
    if not every:
        return None
    matrix = [it.matrix for it in every if it.matrix is not None]
    return Rates(max(it.fma for it in every), max(it.copy for it in every), max(matrix, default=None))


def seconds(work: Work, dtype: str, rates: Rates) -> float:
    """Below which nobody comes on this adapter: by its matrix units in float16, where there are any."""
    flops = rates.matrix if dtype == "float16" and rates.matrix is not None else rates.fma
    return work.floor(flops, rates.copy)


def believed(timing: Timing, work: Work, dtype: str, rates: Rates | None) -> Timing:
    """The timing, or the error that it is where it took far less than the least that any kernel takes."""
    if rates is None or not timing.timed:
        return timing
    least = seconds(work, dtype, rates)
    if timing.summary.median >= BELIEVED * least:
        return timing
    told = (
        f"its clock ({timing.clock}) says {timing.summary.median:.3g} s, where reading and computing take at least "
        f"{least:.3g} s here: it does not wait for the kernel"
    )
    return replace(timing, verdict=Verdict.ERROR, message=told, seconds=(), parts=())
