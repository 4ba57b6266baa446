"""Which of several machines runs which cases: a pure function, so that machines that never talk agree.

Without times a case's shard depends on its id alone: cases that come or go move no other. With times the shards are
balanced: the longest case first, each to the shard that has least to do. All shards must then be given the same times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Self


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 1 on) of `of` parts."""

    number: int
    of: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Read ``2/8``. Raises ValueError for anything that names no part."""
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise ValueError(text)
        return cls(int(number), int(of))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def shards(ids: Sequence[str], of: int, seconds: Mapping[str, float]) -> dict[str, int]:
    """Case id -> the number of its shard, 1 to `of`, whatever the order of `ids`.

    seconds   what cases took before; one that is not known counts as the median of those of `ids` that are
    """
    known = [seconds[one] for one in ids if one in seconds]
    if not known:
        return {one: _hash(one) % of + 1 for one in ids}
    usual = median(known)
    loads = dict.fromkeys(range(1, of + 1), 0.0)
    found = {}
    for one in sorted(ids, key=lambda it: (-seconds.get(it, usual), _hash(it))):
        least = min(loads, key=lambda number: (loads[number], number))
        loads[least] += seconds.get(one, usual)
        found[one] = least
    return found


def _hash(text: str) -> int:
    """The same number in every process and on every machine, unlike `hash`."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
