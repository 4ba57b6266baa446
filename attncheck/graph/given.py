"""A user's model with its arrays as a Case: the outputs that must come back follow from what is read of the node."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from attncheck.graph import read
from attncheck.graph.case import Case, GivenModel, Output, digest
from attncheck.graph.feeds import Arrays
from attncheck.graph.model_file import ModelFile, UnusableModel
from attncheck.problem import Problem, Tensor, role_heads


def case(it: ModelFile, address: str, feeds: Arrays, about: str) -> tuple[Case, Problem]:
    """The Case at `address` whose inputs are `feeds` and the constants of the graph, and the Problem read from it.

    Raises UnusableModel, naming what is not read.
    """
    inputs: dict[str, NDArray[np.generic]] = {**feeds, **it.constants}
    try:
        problem = read.problem(it.model, inputs)
        misfit = _misfit(problem, inputs)
    except read.Unreadable as unreadable:
        raise UnusableModel(f"{it.path}: {unreadable}") from unreadable
    except (IndexError, ValueError, ZeroDivisionError) as error:
        raise UnusableModel(f"{it.path}: {it.node.op_type} takes no inputs of {_shapes(inputs)}") from error
    if misfit:
        raise UnusableModel(f"{it.path}: the inputs do not fit each other: {misfit}; they are {_shapes(inputs)}")
    origin = GivenModel(address, str(it.path), about)
    return Case(address, origin, it.model, inputs, outputs(problem), digest(it.model, inputs)), problem


def _shapes(inputs: Arrays) -> str:
    return ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())


def _misfit(it: Problem, inputs: Arrays) -> str:
    """Which input has another shape than the others ask for, in words, or nothing."""
    if it.heads % it.kv_heads:
        return f"{it.heads} heads cannot share {it.kv_heads} kv_heads"
    for tensor, heads, rows, dim in _roles(it):
        wanted = (it.batch, heads, rows, dim)
        found = role_heads(inputs[tensor.name], tensor, heads).shape
        if found != wanted:
            return f"{tensor.name} is {list(found)} as [batch, heads, rows, dim], and should be {list(wanted)}"
    scores = (it.batch, it.heads, it.rows)
    for mask in it.masks:
        padded = (1,) * (4 - len(mask.shape)) + mask.shape
        if any(size not in (1, full) for size, full in zip(padded[:3], scores, strict=True)):
            return f"{mask.name} of shape {list(mask.shape)} does not spread over the scores {[*scores, it.capacity]}"
    gains = () if it.norm is None else (it.norm.query, it.norm.key)
    for gain in gains:
        if inputs[gain].shape != (it.head_dim,):
            return f"{gain} of shape {list(inputs[gain].shape)} should be [{it.head_dim}]"
    return _misfit_of_rotary(it, inputs)


def _roles(it: Problem) -> Iterator[tuple[Tensor, int, int, int]]:
    """Each input that holds rows, with its heads, rows and dim."""
    yield it.query, it.heads, it.rows, it.head_dim
    yield it.key, it.kv_heads, it.new_rows, it.head_dim
    yield it.value, it.kv_heads, it.new_rows, it.v_head_dim
    for past, dim in ((it.past_key, it.head_dim), (it.past_value, it.v_head_dim)):
        if past is not None:
            yield past, it.kv_heads, it.past_capacity, dim


def _misfit_of_rotary(it: Problem, inputs: Arrays) -> str:
    if it.rotary is None:
        return ""
    for name in (it.rotary.cos, it.rotary.sin):
        shape = inputs[name].shape
        if len(shape) != 2 or shape[1] < it.rotary.dim // 2:
            return f"{name} of shape {list(shape)} has no {it.rotary.dim // 2} columns"
    return ""


def outputs(problem: Problem) -> tuple[Output, ...]:
    """The outputs that a graph of this Problem gives, with their full shapes."""
    it = problem
    present = (it.batch, it.kv_heads, it.present_capacity)
    sized: list[tuple[Tensor | None, tuple[int, ...]]] = [
        (it.output, _laid_out(it, it.output)),
        (it.present_key, (*present, it.head_dim)),
        (it.present_value, (*present, it.v_head_dim)),
    ]
    found = [Output(tensor.name, it.dtype, shape) for tensor, shape in sized if tensor is not None]
    if it.scores is not None:
        found.append(Output(it.scores.name, it.dtype, (it.batch, it.heads, it.rows, it.scores.slots)))
    return tuple(found)


def _laid_out(it: Problem, tensor: Tensor) -> tuple[int, ...]:
    if tensor.layout == "bsnh":
        return (it.batch, it.rows, it.heads * it.v_head_dim)
    return (it.batch, it.heads, it.rows, it.v_head_dim)
