"""A user's model with its arrays as a Case: the outputs that must come back follow from what is read of the node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attncheck.graph import read
from attncheck.graph.case import Case, GivenModel, Output, digest
from attncheck.graph.feeds import Arrays
from attncheck.graph.model_file import ModelFile, UnusableModel
from attncheck.problem import AnyProblem, LinearProblem, Problem, Rotary, output_shape, role_heads
from attncheck.tensors.dtypes import stored_shape


def case(it: ModelFile, address: str, feeds: Arrays, about: str) -> tuple[Case, AnyProblem]:
    """The Case at `address` whose inputs are `feeds` and the constants of the graph, and the Problem read from it.

    Raises UnusableModel, naming what is not read.
    """
    inputs: dict[str, NDArray[np.generic]] = {**feeds, **it.constants}
    try:
        problem = read.any_problem(it.model, inputs)
        misfit = "" if (empty := _empty(problem)) else _misfit(problem, inputs)
    except read.Unreadable as unreadable:
        raise UnusableModel(f"{it.path}: {unreadable}") from unreadable
    except (IndexError, ValueError, ZeroDivisionError) as error:
        raise UnusableModel(f"{it.path}: {it.node.op_type} takes no inputs of {_shapes(inputs)}") from error
    if empty:
        raise UnusableModel(f"{it.path}: the {empty} is 0: there is nothing to compute; only a past may be empty")
    if isinstance(problem, Problem) and not problem.invalid and not problem.stated_rows.any():
        raise UnusableModel(
            f"{it.path}: by its lengths no batch entry has a new token, so that {it.node.op_type} states nothing of "
            f"its output: there is nothing to compare; give at least one entry a token; inputs: {_shapes(inputs)}"
        )
    if misfit:
        raise UnusableModel(f"{it.path}: the inputs do not fit each other: {misfit}; they are {_shapes(inputs)}")
    origin = GivenModel(address, str(it.path), about)
    return Case(address, origin, it.model, inputs, outputs(problem), digest(it.model, inputs)), problem


def _shapes(inputs: Arrays) -> str:
    return ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())


def _empty(it: AnyProblem) -> str:
    """Which size is 0 that cannot be, in words, or nothing; a past, and keys of cross attention, may be empty."""
    names = {"batch": "batch", "rows": "number of new tokens", "heads": "number of heads", "head_dim": "head_dim"}
    return next((word for name, word in names.items() if getattr(it, name) == 0), "")


def _misfit(it: AnyProblem, inputs: Arrays) -> str:
    """Which input has another shape than the others ask for, in words, or nothing."""
    if isinstance(it, Problem) and it.heads % it.kv_heads:
        return f"{it.heads} heads cannot share {it.kv_heads} kv_heads"
    for role in it.inputs:
        array, held = inputs[role.tensor.name], role.tensor.packed or role.shape[1]
        if role.tensor.layout == "bsnh" and array.ndim == 3 and array.shape[2] % held:
            return f"the {array.shape[2]} columns of {role.tensor.name} are not {held} heads of one width"
        found = role_heads(inputs[role.tensor.name], role.tensor, role.shape[1]).shape
        wanted = stored_shape(role.shape, role.dtype)
        if found != wanted:
            return f"{role.tensor.name} is {list(found)} as [batch, heads, rows, dim], and should be {list(wanted)}"
    beside = _misfit_beside_rows(it, inputs) if isinstance(it, Problem) else ""
    return beside or _misfit_of_rotary(None if isinstance(it, LinearProblem) else it.rotary, inputs)


def _misfit_beside_rows(it: Problem, inputs: Arrays) -> str:
    """The same of masks, gains and the projection."""
    scores = (it.batch, it.heads, it.rows)
    for mask in it.masks:
        padded = (1,) * (4 - len(mask.shape)) + mask.shape
        if any(size not in (1, full) for size, full in zip(padded[:3], scores, strict=True)):
            return f"{mask.name} of shape {list(mask.shape)} does not spread over the scores {[*scores, it.capacity]}"
    gains = () if it.norm is None else (it.norm.query, it.norm.key)
    for gain in gains:
        if inputs[gain].shape != (it.head_dim,):
            return f"{gain} of shape {list(inputs[gain].shape)} should be [{it.head_dim}]"
    return _misfit_of_projection(it, inputs)


def _misfit_of_projection(it: Problem, inputs: Arrays) -> str:
    if it.projection is None:
        return ""
    for columns, rows in ((it.projection.weights, (it.projection.width,)), (it.projection.bias, ())):
        if columns is not None and inputs[columns.name].shape != (*rows, columns.count):
            return f"{columns.name} is {list(inputs[columns.name].shape)}, and should be {[*rows, columns.count]}"
    return ""


def _misfit_of_rotary(rotary: Rotary | None, inputs: Arrays) -> str:
    if rotary is None:
        return ""
    for name in rotary.caches:
        shape = inputs[name].shape
        if shape[-1] < rotary.dim // 2:
            return f"{name} of shape {list(shape)} has no {rotary.dim // 2} columns"
    return ""


def outputs(problem: AnyProblem) -> tuple[Output, ...]:
    """The outputs that a graph of this Problem gives, with their full shapes."""
    return tuple(
        Output(role.tensor.name, role.dtype, stored_shape(output_shape(role), role.dtype))
        for role in problem.outputs
    )
