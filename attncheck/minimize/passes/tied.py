"""Sizes that hang together: a fault that needs a window within the past is not made smaller by cutting either alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

from attncheck.minimize.candidate import Candidate
from attncheck.minimize.order import SIZES, settings
from attncheck.minimize.passes.sizes import EVERY, below, cut, least
from attncheck.scenario.axes import AXES
from attncheck.scenario.values import Integer, PerBatch

GRID = 4
"""Two lengths are tried in every combination up to this."""


def together(case: Candidate) -> Iterator[Candidate | None]:
    """Cuts two sizes of one unit: heads and kv_heads in every ratio, two lengths by as much, down to small ones.

    Changes two sizes, or a size and a setting in the same unit. Progress: the first of them gets smaller and none
    before it grows.
    """
    heads, kv_heads = case.complete.integer("heads"), case.complete.integer("kv_heads")
    for many in below(heads + 1, 1):
        # On ms-linear there may be more of them than of heads.
        for few in below(max(many, kv_heads) + 1, 1):
            if (many % few == 0 or few % many == 0) and (many, few) < (heads, kv_heads):
                yield cut(case, {"heads": many, "kv_heads": few})
    for one, other in combinations(_cuttable(case), 2):
        if AXES[one].unit != AXES[other].unit or AXES[one].unit in ("", "heads"):
            continue
        first, second = case.value(one), case.value(other)
        reach = min(first - least(one), second - least(other))
        for less in reversed(list(below(reach + 1, 1))):
            yield cut(case, {one: first - less, other: second - less})
        for small in product(range(GRID), repeat=2):
            if least(one) <= small[0] <= first and least(other) <= small[1] <= second:
                yield cut(case, {one: small[0], other: small[1]})


def _cuttable(case: Candidate) -> list[str]:
    """The sizes and settings that hold one integer."""
    axes = [axis for axis in (*SIZES, *settings(case)) if isinstance(AXES[axis].values, Integer | PerBatch)]
    return [axis for axis in axes if isinstance(case.value(axis), int)]


def traded(case: Candidate) -> Iterator[Candidate | None]:
    """Trades past for queries, all of it, and queries for past, so that the number of keys stays; then fewer of both.

    Changes q_len and past_len. Progress: without a past the graph has fewer inputs, which come before sizes in the
    order; and q_len comes before past_len.
    """
    yield from _without_past(case)
    q_len, past_len = case.value("q_len"), case.value("past_len")
    if isinstance(q_len, int) and isinstance(past_len, int):
        for fewer in below(q_len, least("q_len")):
            yield cut(case, {"q_len": fewer, "past_len": past_len + q_len - fewer})
    longest: Any = case.complete.longest
    for fewer in below(min(q_len, EVERY), 1) if isinstance(q_len, int) else ():
        for past in below(min(longest, EVERY), 0):
            yield cut(case, {"q_len": fewer, "past_len": past})


def _without_past(case: Candidate) -> Iterator[Candidate | None]:
    if not case.complete.has("past_len"):
        return
    pairs = zip(case.complete.lengths("q_len"), case.complete.lengths("past_len"), strict=True)
    yield cut(case, {"q_len": tuple(map(sum, pairs)), "past_len": None})
    for rows in below(case.complete.longest, least("q_len")):
        yield cut(case, {"q_len": rows, "past_len": None})
