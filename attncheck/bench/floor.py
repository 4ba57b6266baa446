"""The least time that a case takes on an adapter, and what is too fast to be true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attncheck.bench.adapter import Adapter
from attncheck.bench.events import Rates, Timing
from attncheck.bench.work import Work
from attncheck.vocabulary import Verdict

BELIEVED = 0.5
"""A median below this share of the floor says that the clock stopped before the kernel: rates are known to some 10%."""


def best(on: Adapter, measured: Sequence[tuple[Adapter, Rates]]) -> Rates | None:
    """The rates of the adapter `on`: of several compilers on it each at its best; None where none was measured.

    measured   rates, each with the adapter that they are of
    """
    there = [(adapter, rates) for adapter, rates in measured if on.same(adapter)]
    every = [rates for _, rates in there]
    if on.kind == "unknown" or len({adapter.called for adapter, _ in there}) != 1:
        return None  # it may be any of several, or none of them
    matrix = [it.matrix for it in every if it.matrix is not None]
    return Rates(max(it.fma for it in every), max(it.copy for it in every), max(matrix, default=None))


def seconds(work: Work, dtype: str, rates: Rates) -> float:
    """Below which nobody comes on this adapter: by its matrix units in float16, where there are any."""
    flops = rates.matrix if dtype == "float16" and rates.matrix is not None else rates.fma
    return work.floor(flops, rates.copy)


def believed(timing: Timing, work: Work, dtype: str, rates: Rates | None) -> Timing:
    """The timing, or the error that it is where it took far less than the least that any kernel takes, or nothing."""
    if not timing.timed:
        return timing
    median, least = timing.summary.median, 0.0 if rates is None else seconds(work, dtype, rates)
    if median > 0 and median >= BELIEVED * least:
        return timing
    told = f"its clock ({timing.clock}) says {median:.3g} s"
    if least > 0:
        told += f", where reading and computing take at least {least:.3g} s here: it does not wait for the kernel"
    else:
        told += ": it does not wait for the kernel, or counts in longer steps than it takes"
    return replace(timing, verdict=Verdict.ERROR, message=told, seconds=(), parts=())
