"""Smaller sizes: batch, heads, lengths, head_dim, each by itself or all at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from attncheck.minimize.candidate import Candidate
from attncheck.minimize.order import SIZES
from attncheck.minimize.passes import numbers
from attncheck.scenario.axes import AXES
from attncheck.scenario.complete import LENGTHS, Value
from attncheck.scenario.values import Integer, PerBatch

EVERY = 12
"""Sizes up to this are tried one by one; above, those of `_TELLING`, then ever nearer to the size at hand."""

_TELLING = tuple(sorted({n for power in range(4, 21) for n in (2**power, 2**power + 1, 3 * 2 ** (power - 1))}))
"""Where tiles and blocks begin: powers of two, what lies one beyond, and the middles."""

_SMALL_LENGTHS = ((1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (3, 0))
_SMALL_DIMS = (1, 2, 8)


def least(axis: str) -> int:
    """The smallest integer that an axis takes."""
    values = AXES[axis].values
    assert isinstance(values, Integer | PerBatch)
    return values.minimum


def below(value: int, smallest: int) -> Iterator[int]:
    """Integers from `smallest` up to `value` - 1 that are worth a try, the smallest first, ever nearer to `value`.

    Not by halves alone: a fault may need a multiple of 8, a number between 17 and 31, or 6 and more.
    """
    near = max(EVERY + 1, smallest + 1)
    tried = list(range(smallest, min(value, near))) + [n for n in _TELLING if near <= n < value]
    yield from tried
    last = tried[-1] if tried else smallest
    while last + 1 < value:
        last = (last + value) // 2
        yield last


def cut(case: Candidate, changes: dict[str, Value | None]) -> Candidate | None:
    """`case` with sizes changed, the numbers that are given cut along with them."""
    changed = case.with_(changes)
    return None if changed is None else numbers.recut(case, changed)


def all_at_once(case: Candidate) -> Iterator[Candidate | None]:
    """Cuts all sizes together: to the smallest shapes there are, then to halves.

    Changes sizes only. Progress: no size grows, and one gets smaller; or the search passes it over.
    """
    plain: dict[str, Value | None] = {"batch": 1, "heads": 1, "kv_heads": 1, "capacity": None, "v_head_dim": None}
    for dim, (q_len, past_len) in product(_SMALL_DIMS, _SMALL_LENGTHS):
        yield cut(case, {**plain, "q_len": q_len, "past_len": past_len, "kv_len": None, "head_dim": dim})
    halves = {axis: _halved(case.value(axis), axis) for axis in SIZES if case.value(axis) is not None}
    yield cut(case, {axis: value for axis, value in halves.items() if value is not None})


def _halved(value: Any, axis: str) -> Value | None:
    if isinstance(value, tuple):
        return tuple(max(least(axis), one // 2) for one in value)
    return max(least(axis), value // 2) if isinstance(value, int) else None


def fewer_entries(case: Candidate) -> Iterator[Candidate | None]:
    """Takes entries of the batch away: all but one, then one; and makes ragged lengths even.

    Changes batch and the lists over it. Progress: the batch is the first size; a list without its entries is no longer.
    """
    batch = case.complete.batch
    lists: dict[str, Any] = {axis: case.value(axis) for axis in LENGTHS if isinstance(case.value(axis), tuple)}
    for entry in range(batch if batch > 1 and lists else 0):
        yield cut(case, {"batch": 1, **{axis: values[entry] for axis, values in lists.items()}})
    for size in below(batch, 1) if not lists else ():
        yield cut(case, {"batch": size})
    for entry in range(batch if batch > 2 and lists else 0):
        rest = {axis: values[:entry] + values[entry + 1 :] for axis, values in lists.items()}
        yield cut(case, {"batch": batch - 1, **rest})
    for axis, values in lists.items():
        yield cut(case, {axis: min(values)})
        yield cut(case, {axis: max(values)})


def each_size(case: Candidate) -> Iterator[Candidate | None]:
    """Cuts one size at a time, by candidates from below; in a list, one entry at a time.

    Changes a size, and what it makes impossible. Progress: that size gets smaller and none before it grows.
    """
    for axis in SIZES:
        value = case.value(axis)
        if AXES[axis].default is not None and not isinstance(AXES[axis].default, int) and case.complete.has(axis):
            yield cut(case, {axis: None})
        if isinstance(value, tuple):
            for at, one in enumerate(value):
                for size in below(one, least(axis)):
                    yield cut(case, {axis: (*value[:at], size, *value[at + 1 :])})
        elif isinstance(value, int) and axis != "batch":
            for size in below(value, least(axis)):
                yield cut(case, {axis: size})
