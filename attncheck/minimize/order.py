"""Simpler has one meaning: the total order over the cases of one operator, as one key.

Compared from the front, less is simpler:

    features    how many axes that turn something on stand at something else than their default
    inputs      how many inputs the graph has
    sizes       batch, heads, kv_heads, q_len, past_len, kv_len, capacity, head_dim, v_head_dim: the largest over the
                batch, then the sum; a length that follows from others, and a buffer of exact length, count as 0
    settings    what the features are set to, by the order of the table: small numbers, plain fractions, early words
    numbers     q, k and v, a bias and a sink: how plain in kind, how many are not zero, how plain in each
    dtype       float32 before float16, in the order of the table
    given       axes that are said although they need not be
    steps       calls of a session, and new tokens that it drops again
    plain       sizes that are no power of two
    spelling    shorter, then by letters: so that no two cases are equal

Every part is a natural number or a tuple of fixed length of them, and of spellings of one length there are finitely
many, so that no chain of ever simpler cases goes on for ever.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.graph import write
from attncheck.minimize.candidate import KEPT, Candidate
from attncheck.scenario.axes import AXES, Axis
from attncheck.scenario.complete import Value
from attncheck.scenario.values import Boolean, Broadcast, Choice
from attncheck.tensors.dtypes import widen

SIZES = ("batch", "heads", "kv_heads", "q_len", "past_len", "kv_len", "capacity", "head_dim", "v_head_dim")
TENSORS = ("q", "k", "v", "bias", "sink")
"""Arrays whose numbers an axis can say: what is attended with, and what joins the scores."""

BESIDE = {"bias": "bias", "sink": "sink"}
"""Of these the ones that are not always there, and the feature that brings them."""

NUMBERS = ("data", "seed", *(f"{tensor}_values" for tensor in TENSORS))
STEPS = "steps"
_ELSEWHERE = {*KEPT, *SIZES, *NUMBERS, STEPS, "dtype"}

COUNTS = ("page", "sparse_block", "sparse_layouts")
"""What there is always some of, like tokens of a page: settings, never features."""

OFF = {"update_rule": "linear"}
"""What turns an axis off, where that is not its default: the update rule that takes neither decay nor beta."""

Key = tuple[Any, ...]

SMALL = 8
"""Integers up to this are small ones."""


@lru_cache(1 << 14)
def key(case: Candidate) -> Key:
    """What makes `case` simpler than another: sorts before it."""
    on = features(case)
    sizes = [_size(_lengths(case) if axis == "q_len" else case.value(axis)) for axis in SIZES]
    return (
        len(on),
        case.content[1],
        tuple(sizes),
        tuple(rank(AXES[axis], case.value(axis)) if _has(axis, case) else 0 for axis in _settings()),
        numbers(case),
        rank(AXES["dtype"], case.value("dtype")),
        len(case.axes),
        _steps(case),
        sum(bool(case.value(axis)) and _ragged(case.value(axis)) for axis in SIZES),
        (len(case.text), case.text),
    )


def simpler(one: Candidate, other: Candidate) -> bool:
    """Whether `one` is simpler than `other`."""
    return key(one) < key(other)


def features(case: Candidate) -> tuple[str, ...]:
    """The axes that turn something on, in the order of the table."""
    return tuple(axis for axis in _settings() if axis not in COUNTS and _has(axis, case))


def off(axis: str) -> Value | None:
    """What turns a feature off; None: its default."""
    return OFF.get(axis)


def _has(axis: str, case: Candidate) -> bool:
    """Whether an axis of the operator stands at something else than what turns it off."""
    it = AXES[axis]
    if it.default is None or (it.ops and case.value("op") not in it.ops):
        return False
    return axis in COUNTS or case.value(axis) != OFF.get(axis, it.default)


def settings(case: Candidate) -> tuple[str, ...]:
    """The axes that can be set to something plainer: features that are on, counts, and what need not be said."""
    return tuple(axis for axis in _settings() if _has(axis, case) or axis in case.written)


def _settings() -> tuple[str, ...]:
    return tuple(axis for axis in AXES if axis not in _ELSEWHERE)


def _steps(case: Candidate) -> tuple[int, int]:
    steps = case.scenario.steps
    return len(steps), sum(sum(step.q_len) - sum(step.accept) for step in steps)


def _lengths(case: Candidate) -> Any:
    """q_len, of a session those of all its steps."""
    steps = case.scenario.steps
    return tuple(length for step in steps for length in step.q_len) if steps else case.value("q_len")


def _size(value: Any) -> tuple[int, int]:
    if isinstance(value, tuple):
        return max(value), sum(value)
    return (value, value) if isinstance(value, int) else (0, 0)


def _ragged(value: Any) -> bool:
    """Whether a size is no power of two."""
    values = value if isinstance(value, tuple) else (value,)
    return any(isinstance(one, int) and one & (one - 1) for one in values)


def rank(axis: Axis, value: Any) -> int:
    """How far a setting is from the plainest one of its axis."""
    if isinstance(axis.values, Choice | Broadcast):
        return axis.values.words.index(value)
    if isinstance(axis.values, Boolean):
        return int(value != axis.default)
    if isinstance(value, tuple):
        return sum(map(plainness, value))
    return plainness(value) if isinstance(value, int | float) else 0


def plainness(value: float) -> int:
    """0 for 0, 1 for 1, more for longer numbers, and for a fraction the longer its binary form is; integers by size."""
    if value == int(value):
        return 2 * abs(int(value)) - (value > 0) if value else 0
    parts = Fraction(value)
    return 2 * (1 << min(20, parts.numerator.bit_length() + parts.denominator.bit_length())) + (value < 0)


def numbers(case: Candidate) -> tuple[int, tuple[int, ...], int, int]:
    """How plain the arrays are: together in kind, each in kind, how many numbers are not zero, and those themselves."""
    there = tensors(case)
    kinds = tuple(kind(case, tensor) if tensor in there else 0 for tensor in TENSORS)
    counts = [_nonzero(case, tensor) for tensor in there]
    seed = int(case.value("seed")) if any(_listed(case, tensor) is None for tensor in there) else 0
    return sum(kinds), kinds, sum(counts), seed + sum(_sum(case, tensor) for tensor in there)


def tensors(case: Candidate) -> tuple[str, ...]:
    """The arrays of TENSORS that the case has."""
    return tuple(tensor for tensor in TENSORS if tensor not in BESIDE or case.complete.has(BESIDE[tensor]))


def kind(case: Candidate, tensor: str) -> int:
    """0 zero, 1 one number everywhere, 2 one-hot, 3 small integers, 4 normal or other numbers, from 5 hostile kinds."""
    listed = _listed(case, tensor)
    if listed is None:
        return 4 + (rank(AXES["data"], case.value("data")) if tensor not in BESIDE else 0)
    found = set(listed)
    if found == {0}:
        return 0
    if len(found) == 1:
        return 1
    if len(found) == 2 and 0 in found:
        return 2
    return 3 if all(value == int(value) and abs(value) <= SMALL for value in found) else 4


def _listed(case: Candidate, tensor: str) -> tuple[float, ...] | None:
    value = case.value(f"{tensor}_values")
    if isinstance(value, str):
        return None
    return value if isinstance(value, tuple) else (float(value),)


def _nonzero(case: Candidate, tensor: str) -> int:
    listed = _listed(case, tensor)
    return elements(case, tensor) if listed is None or (len(listed) == 1 and listed[0]) else sum(map(bool, listed))


def _sum(case: Candidate, tensor: str) -> int:
    listed = _listed(case, tensor)
    return 0 if listed is None else sum(map(plainness, listed))


def extent(case: Candidate, tensor: str) -> tuple[int, int, int, int]:
    """What a tensor's numbers stand for: tokens (past included), batch entries, heads, dims.

    Of a bias queries, batch entries, heads, keys, each 1 where it is for all; of a sink heads alone.
    """
    if tensor in BESIDE:
        shape = beside(case, tensor).shape
        return shape[0], shape[1], shape[2], shape[3]
    it = case.scenario
    heads = it.heads if tensor == "q" else it.kv_heads
    dim = it.v_head_dim if tensor == "v" else it.head_dim
    past = 0 if tensor == "q" else max(it.past_len)
    new = max(it.kv_len) if it.cross and tensor != "q" else max(it.q_len)
    return past + new, it.batch, heads, dim


@lru_cache(1 << 8)
def beside(case: Candidate, tensor: str) -> NDArray[np.float64]:
    """The numbers of a bias, [queries, batch, heads, keys], or of a sink, [1, 1, heads, 1], as the graph is given them.

    What a bias hides is 0 here: it stays hidden whatever stands there.
    """
    whole = write.build(case.scenario)
    name = next(it for it in whole.inputs if it in _INPUTS[tensor])
    values = widen(whole.inputs[name], case.scenario.dtype)
    if tensor == "sink":
        return values.reshape(1, 1, -1, 1)
    four = values.reshape((1,) * (4 - values.ndim) + values.shape)
    return np.where(np.isneginf(four), 0.0, four).transpose(2, 0, 1, 3)


_INPUTS = {"bias": ("attention_bias", "attn_mask"), "sink": ("head_sink",)}
"""What graphs call them."""


def elements(case: Candidate, tensor: str) -> int:
    """How many numbers a tensor has; of a session too many to list."""
    if case.scenario.steps:
        return 1 << 40
    tokens, batch, heads, dim = extent(case, tensor)
    return tokens * batch * heads * dim
