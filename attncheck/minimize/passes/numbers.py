"""Plainer numbers: what q, k, v, a bias and a sink hold, by whole tensors, slices and single entries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.minimize.candidate import Candidate
from attncheck.minimize.order import BESIDE, SMALL, TENSORS, beside, elements, extent, kind, tensors
from attncheck.scenario.axes import AXES
from attncheck.scenario.complete import Value
from attncheck.scenario.values import Choice
from attncheck.tensors import data

Float = NDArray[np.float64]

LISTED_UP_TO = 512
"""Numbers of a tensor up to which they are listed one by one."""

_ROWS = ("q", "k", "v")

EACH_UP_TO = 64
"""Numbers that are not zero up to which each is tried by itself."""


def held(case: Candidate, tensor: str) -> Float:
    """What a tensor holds, float64 [tokens, batch, heads, dim], tokens from the oldest; a bias, a sink as `beside`."""
    if tensor in BESIDE:
        return beside(case, tensor)
    tokens, batch, heads, dim = extent(case, tensor)
    it = case.scenario
    oldest = 0 if tensor == "q" else -max(it.past_len)
    positions = np.broadcast_to(np.arange(oldest, oldest + tokens, dtype=np.int64), (batch, tokens))
    numbers = it.given(tensor)
    rows = (
        data.generate(it.data, it.seed, tensor, batch, heads, positions, dim)
        if numbers is None
        else data.listed(numbers, oldest, heads, positions, dim)
    )
    return rows.transpose(2, 0, 1, 3)


def given(case: Candidate, tensor: str, values: Float) -> Candidate | None:
    """`case` with these numbers in a tensor."""
    flat = [_number(value) for value in values.ravel().tolist()]
    return case.with_({f"{tensor}_values": flat[0] if len(set(flat)) == 1 else tuple(flat)})


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def recut(before: Candidate, after: Candidate, only: tuple[str, ...] = TENSORS) -> Candidate | None:
    """`after` with the numbers of `before` that are still there: the nearest tokens, the first entries, heads, dims."""
    changes: dict[str, Value | None] = {}
    for tensor in tensors(after):
        axis = f"{tensor}_values"
        if tensor not in only or not isinstance(before.written.get(axis), tuple):
            continue
        old, new = held(before, tensor), extent(after, tensor)
        if any(size < wanted for size, wanted in zip(old.shape, new, strict=True)):
            changes[axis] = None
            continue
        # q is cut at its end, k and v at their oldest: the past that is left is the nearest. So are a bias's axes.
        late = max(0, max(before.scenario.past_len) - max(after.scenario.past_len))
        first, key = (late if tensor in "kv" else 0), (late if tensor == "bias" and old.shape[3] > 1 else 0)
        kept = old[first : first + new[0], : new[1], : new[2], key : key + new[3]]
        flat = [_number(value) for value in kept.ravel().tolist()]
        changes[axis] = flat[0] if len(set(flat)) == 1 else tuple(flat)
    if not changes:
        return after
    changed = after.with_(changes)
    return after if changed is None else changed


def one_less(case: Candidate) -> Iterator[Candidate | None]:
    """Takes one entry, head, token or dim away, whichever: what is left keeps its numbers.

    Changes a size by one, and the lists of numbers along it. Progress: the size; a plain cut takes the last away, which
    may be the one that the fault needs.
    """
    listed = [tensor for tensor in _ROWS if isinstance(case.written.get(f"{tensor}_values"), tuple)]
    for changes, groups in _removals(case) if listed else ():
        sizes = [max(extent(case, tensor)[axis] for tensor, axis in group.items()) for group in groups]
        for at in product(*map(range, sizes)):
            changed: dict[str, Value | None] = dict(changes)
            for index, group in zip(at, groups, strict=True):
                for tensor, axis in group.items():
                    values = held(case, tensor)
                    if tensor in listed and index < values.shape[axis]:
                        kept = np.delete(values, index, axis).ravel().tolist()
                        changed[f"{tensor}_values"] = tuple(map(_number, kept))
            found = case.with_(changed)
            yield None if found is None else recut(case, found, tuple(BESIDE))


def _removals(case: Candidate) -> Iterator[tuple[dict[str, Value | None], list[dict[str, int]]]]:
    """A size one less, and which axis of which tensors is shorter for it: in a group, at the same place."""
    heads, kv_heads = case.complete.integer("heads"), case.complete.integer("kv_heads")
    head_dim, v_head_dim = case.complete.integer("head_dim"), case.complete.integer("v_head_dim")
    q_len, past_len = case.value("q_len"), case.value("past_len")
    if head_dim > 1:
        # What q and k have in a dim has nothing to do with what v has there.
        same = v_head_dim == head_dim
        yield {"head_dim": head_dim - 1, "v_head_dim": None if same else v_head_dim}, [
            {"q": 3, "k": 3},
            *([{"v": 3}] if same else []),
        ]
    if kv_heads == heads > 1:
        yield {"heads": heads - 1, "kv_heads": None}, [dict.fromkeys(_ROWS, 2)]
    if isinstance(past_len, int) and past_len:
        yield {"past_len": past_len - 1}, [{"k": 0, "v": 0}]
    elif isinstance(q_len, int) and q_len > 1:
        yield {"q_len": q_len - 1}, [dict.fromkeys(_ROWS, 0)]


def whole_tensors(case: Candidate) -> Iterator[Candidate | None]:
    """Fills an array with zero, with one, or with its own numbers rounded to small integers.

    Changes the numbers of one tensor, or of all of them by a plainer kind of data. Progress: a plainer kind.
    """
    kinds = AXES["data"].values
    assert isinstance(kinds, Choice)
    for word in kinds.words[: kinds.words.index(case.value("data"))]:
        yield case.with_({"data": word})
    there = tensors(case)
    for some in dict.fromkeys((there, _ROWS)):
        for filled in (0, 1):
            yield case.with_({f"{tensor}_values": filled for tensor in some})
    for tensor in there:
        for filled in _fills(case, tensor):
            yield case.with_({f"{tensor}_values": filled})
    if isinstance(case.value("seed"), int) and case.value("seed"):
        yield case.with_({"seed": None})
    for tensor in there:
        if elements(case, tensor) <= LISTED_UP_TO and kind(case, tensor) > 2:
            yield from _rounded(case, tensor)


def _fills(case: Candidate, tensor: str) -> tuple[int, ...]:
    """Numbers to fill it with: of a bias and a sink also small ones, and their own largest and smallest.

    One number for all lets every size of a bias go, which single ones would not: its list is cut with its shape.
    """
    if tensor not in BESIDE or elements(case, tensor) > LISTED_UP_TO:
        return (0, 1)
    values = held(case, tensor)
    return tuple(dict.fromkeys((0, 1, -1, 2, -2, round(values.max()), round(values.min()))))


def _rounded(case: Candidate, tensor: str) -> Iterator[Candidate | None]:
    values = held(case, tensor)
    size = values.shape[0] * values.shape[1] * values.shape[2]
    one_hot = np.eye(values.shape[3])[np.arange(size) % values.shape[3]].reshape(values.shape)
    yield given(case, tensor, one_hot)
    yield given(case, tensor, (np.arange(values.size).reshape(values.shape) % 2).astype(np.float64))
    yield given(case, tensor, (values > 0).astype(np.float64))
    yield given(case, tensor, np.clip(np.rint(values), -SMALL, SMALL))


def slices(case: Candidate) -> Iterator[Candidate | None]:
    """Sets a token, entry, head or dim of a tensor to zero, halves of them before single ones.

    Changes numbers of one tensor that are not zero. Progress: fewer of them are not zero, in no worse kind.
    """
    for tensor in tensors(case):
        if elements(case, tensor) > LISTED_UP_TO or not kind(case, tensor):
            continue
        values = held(case, tensor)
        for axis, size in enumerate(values.shape):
            for part in _parts(size):
                yield _zeroed(case, tensor, values, (*[slice(None)] * axis, part))


def _parts(size: int) -> Iterator[slice]:
    if size > 1:
        for start in (size // 2, 0):
            yield slice(start, size if start else size // 2)
    if 3 <= size <= EACH_UP_TO:
        for at in range(size):
            yield slice(at, at + 1)


def _zeroed(case: Candidate, tensor: str, values: Float, where: Any) -> Candidate | None:
    changed = values.copy()
    changed[where] = 0.0
    return given(case, tensor, changed) if (changed != values).any() else None


def entries(case: Candidate) -> Iterator[Candidate | None]:
    """Sets one number to zero, or to one, or to a smaller integer.

    Changes a single number. Progress: one less is not zero, or it is plainer.
    """
    for tensor in tensors(case):
        if elements(case, tensor) > LISTED_UP_TO:
            continue
        values = held(case, tensor)
        nonzero = np.argwhere(values)
        if len(nonzero) > EACH_UP_TO:
            continue
        for where in map(tuple, nonzero.tolist()):
            yield _zeroed(case, tensor, values, where)
        for where in map(tuple, nonzero.tolist()):
            for plain in _plainer(float(values[where])):
                changed = values.copy()
                changed[where] = plain
                yield given(case, tensor, changed)


def _plainer(value: float) -> Iterator[float]:
    yield from (1.0, -1.0)
    for near in (float(np.rint(value)), float(np.copysign(np.ceil(abs(value)), value))):
        if near and near != value:
            yield near
    if abs(value) > 2:
        yield 2.0
