"""Wrong kernels of the input projection, and of arrays that hold queries, keys and values head by head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.wrong import intervals
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Recipe
from attncheck.problem import Columns, Problem, Projection, Tensor

Change = Callable[[Projection], Projection]


def _with(change: Change) -> Callable[[Recipe], Recipe]:
    def changed(recipe: Recipe) -> Recipe:
        it = recipe.problem.projection
        return recipe if it is None else replace(recipe, problem=replace(recipe.problem, projection=change(it)))

    return changed


def _shows_bias(problem: Problem) -> bool:
    """The value's bias always shows; the query's where there are keys to choose between."""
    bias = None if problem.projection is None else problem.projection.bias
    return bias is not None and (bias.value is not None or (bias.query is not None and intervals.several_keys(problem)))


def _has_key_and_value_bias(problem: Problem) -> bool:
    bias = None if problem.projection is None else problem.projection.bias
    alike = problem.head_dim == problem.v_head_dim
    return alike and bias is not None and bias.key is not None and bias.value is not None


def _value_as_key(it: Projection) -> Projection:
    return replace(it, bias=None if it.bias is None else replace(it.bias, value=it.bias.key))


def _has_weights(problem: Problem) -> bool:
    it = problem.projection
    return it is not None and it.weights is not None and problem.head_dim == problem.v_head_dim


def _swapped(it: Projection) -> Projection:
    """The columns of keys and of values in the place of each other."""

    def swap(columns: Columns | None) -> Columns | None:
        return None if columns is None else replace(columns, key=columns.value, value=columns.key)

    return Projection(swap(it.weights), swap(it.bias), it.width)


def _by_heads(recipe: Recipe) -> Recipe:
    """Columns taken as [heads, 3, dim] where they are [3, heads, dim]."""
    problem, inputs = recipe.problem, dict(recipe.inputs)
    it = problem.projection
    for columns in () if it is None else (it.weights, it.bias):
        if columns is not None:
            array = inputs[columns.name]
            apart = array.reshape(*array.shape[:-1], problem.heads, 3, problem.head_dim)
            inputs[columns.name] = apart.swapaxes(-2, -3).reshape(array.shape)
    return replace(recipe, inputs=inputs)


def _head_by_head(problem: Problem) -> bool:
    return problem.heads > 1 and problem.key.layout == "bsnph"


def _in_blocks(recipe: Recipe) -> Recipe:
    """All heads of queries, then of keys, then of values, where each head has its own three."""
    problem, inputs = recipe.problem, dict(recipe.inputs)
    roles: dict[str, Tensor] = {}
    for role, tensor in (("query", problem.query), ("key", problem.key), ("value", problem.value)):
        if tensor.layout == "bsnph":
            array: NDArray[np.generic] = recipe.inputs[tensor.name]
            inputs[tensor.name] = array.reshape(*array.shape[:2], -1)
            roles[role] = replace(tensor, layout="bsnh")
    moved = replace(
        problem,
        query=roles.get("query", problem.query),
        key=roles.get("key", problem.key),
        value=roles.get("value", problem.value),
    )
    return replace(recipe, problem=moved, inputs=inputs)


def _key_for_value(recipe: Recipe) -> Recipe:
    problem = recipe.problem
    return replace(recipe, problem=replace(problem, key=problem.value, value=problem.key))


def _packs_key_and_value(problem: Problem) -> bool:
    return problem.key.packed > 0 and problem.key.name == problem.value.name and problem.key != problem.value


PROJECTIONS = (
    Wrong(
        "projection-bias-ignored",
        "the projection's bias ignored",
        _shows_bias,
        _with(lambda it: replace(it, bias=None)),
    ),
    Wrong(
        "projection-key-bias-for-value",
        "the projection's bias of keys added to values",
        _has_key_and_value_bias,
        _with(_value_as_key),
    ),
    Wrong(
        "projection-key-for-value",
        "the projection's columns of keys and values in the place of each other",
        _has_weights,
        _with(_swapped),
    ),
    Wrong(
        "projection-by-heads",
        "the projection's columns read head by head",
        lambda problem: _has_weights(problem) and problem.heads > 1,
        _by_heads,
    ),
    Wrong("packed-in-blocks", "packed heads read in blocks of queries, keys and values", _head_by_head, _in_blocks),
    Wrong("packed-key-for-value", "key and value swapped where they are packed", _packs_key_and_value, _key_for_value),
)
