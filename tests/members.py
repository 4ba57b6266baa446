"""A batch, and its first member by itself: what is to have the same bits whatever the others are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.device import Work, work
from tests.drawing import scenario
from tests.dressing import alone, padded

PAST = 2100
"""More than one section of online's keys where head_dim is 128, and several slices of decode's."""


@dataclass(frozen=True)
class Batch:
    """A member of `rows` query rows behind PAST keys, beside others behind `others` keys.

    more  rows of the arrays beyond those that mean something in any member
    """

    rows: int
    others: tuple[int, ...]
    axes: Mapping[str, Any]
    more: int

    def together(self, dtype: str) -> Work:
        """All of them."""
        count = 1 + len(self.others)
        return padded(self._work(dtype, (self.rows,) * count, (PAST, *self.others)), self.more)

    def alone(self, dtype: str) -> Work:
        """The first of them, given the same."""
        return alone(self.together(dtype), self._work(dtype, (self.rows,), (PAST,)))

    def _work(self, dtype: str, q_len: tuple[int, ...], past_len: tuple[int, ...]) -> Work:
        shape = {"dtype": dtype, "heads": 4, "kv_heads": 2, "head_dim": 128}
        return work(scenario(q_len=q_len, past_len=past_len, **shape, **self.axes))


BATCHES = {
    f"{name}-{rows}-{seen}": Batch(rows, others, axes, more)
    for name, others, rows, more in (
        ("no-past", (0,), 1, 0),
        ("no-past", (0,), 20, 0),
        ("shorter", (500, 5), 1, 0),
        ("shorter", (500, 5), 20, 0),
        ("longer", (2900,), 1, 0),
        ("longer", (2900,), 20, 0),
        ("more-rows", (500,), 1, 1),  # more would lengthen the slices of decode
        ("more-rows", (500,), 20, 30),
    )
    for seen, axes in {"all-keys": {}, "window": {"window": 600}}.items()
}
