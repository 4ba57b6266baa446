"""All keys or values of a problem: what its buffers hold, and what attention reads of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attncheck.oracle.answer import Answer
from attncheck.oracle.bounded import Bounded, exact
from attncheck.oracle.buffers import present
from attncheck.oracle.quantised import quantised, scale_of
from attncheck.problem import Arrays, Problem, Tensor, role_heads
from attncheck.tensors.dtypes import widen


@dataclass(frozen=True)
class Cached:
    """Every slot, [batch, kv_heads, capacity, dim] each: `held` in the numbers of the buffers, `read` by attention."""

    held: Bounded
    read: Bounded


def cached(
    problem: Problem, role: Literal["key", "value"], inputs: Arrays, carried: Mapping[str, Answer], new: Bounded
) -> Cached:
    """The past rows of a role, then its new ones. Integers are read as they stand for, which rounds once more.

    carried   by the name of a past, the answer to the present that it came from
    """
    past = _past(problem, problem.past_key if role == "key" else problem.past_value, inputs, carried)
    if problem.quantised is None:
        whole = _joined(problem, past, new)
        return Cached(whole, whole.each(problem.as_read))
    scale = scale_of(inputs[problem.quantised.key if role == "key" else problem.quantised.value])
    stored = quantised(new, scale, problem.quantised.dtype, problem.dtype)
    meant = None if past is None else Bounded(past.values * scale, past.compute * scale, past.storage)
    whole = _joined(problem, meant, stored)
    size = np.abs(whole.values)
    counted = Bounded(np.rint(whole.values / scale), whole.compute / scale, whole.storage)
    return Cached(counted, Bounded(whole.values, whole.compute + size, size))


def _past(problem: Problem, tensor: Tensor | None, inputs: Arrays, carried: Mapping[str, Answer]) -> Bounded | None:
    """The past buffer [batch, kv_heads, past_capacity, dim], with the bounds that it was made with."""
    if tensor is None:
        return None
    if tensor.name not in carried:
        return exact(widen(role_heads(inputs[tensor.name], tensor, problem.kv_heads), problem.cache_dtype))
    before, slots = carried[tensor.name], slice(0, problem.past_capacity)
    buffer = Bounded(before.values, before.compute, before.storage)
    return buffer.each(lambda array: role_heads(array, tensor, problem.kv_heads)[:, :, slots].astype(np.float64))


def _joined(problem: Problem, past: Bounded | None, new: Bounded) -> Bounded:
    """All slots: past rows with what is known of them, then the new ones."""
    if past is None:
        return new.each(lambda rows: present(problem, None, rows))
    return past.each(lambda old, rows: present(problem, old, rows), new)
