"""In which order runs are taken, so that a clock that drifts drifts for all alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

Timed = TypeVar("Timed")


def turns(timed: Sequence[Timed], runs: int, batch: int) -> Iterator[tuple[Timed, int]]:
    """Whose turn it is, and for how many runs: each in turn for `batch` of them, until each has had `runs`.

    Every other round goes backwards: who comes first, on a GPU that has rested, is not always the same.
    """
    for number, first in enumerate(range(0, runs, batch)):
        count = min(batch, runs - first)
        for one in timed if number % 2 == 0 else reversed(timed):
            yield one, count
