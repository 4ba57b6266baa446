"""The inputs of a twin, made from those that its scenario generates and from those of the scenario itself.

Each function takes what the twin's own call is (`Given`) and what the scenario's is, and returns inputs of the same
names, shapes and dtypes as the twin's.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from attncheck.problem import Problem, Role, Tensor, joined, role_heads
from attncheck.relations.relation import Given, Inputs
from attncheck.tensors import dtypes

V = 0.5
"""The constant that V is: a number that every dtype holds."""
MOVED = 0.5
"""What is added to every element of every key."""

NOT_BY_BATCH = {
    *("head_sink", "total_sequence_length", "q_norm_weight", "k_norm_weight", "k_scale", "v_scale"),
    *("past_sequence_length", "weights", "bias", "block_row_indices", "block_col_indices"),
}
"""Inputs that have no axis for the batch."""
KEY_MASKS = ("key_padding_mask", "mask_index")
"""Inputs that say in one of several forms which keys an entry has."""
CACHES = ("cos_cache", "sin_cache")
"""Inputs that have one where there are rows for every token."""


def reversed_batch(it: Given, _: Given) -> Inputs:
    """The batch entries in reverse order, in every input that has one."""
    if isinstance(it.problem, Problem) and it.problem.paged:
        return _reversed_sequences(it.problem, it.inputs)
    return {name: _reversed(it, name, array) for name, array in it.inputs.items()}


def _reversed(it: Given, name: str, array: NDArray[np.generic]) -> NDArray[np.generic]:
    batch = it.problem.batch
    if name in NOT_BY_BATCH or (name in CACHES and array.ndim < 3):
        return array
    if isinstance(it.problem, Problem) and it.problem.merges_presents and name == "past":
        return array[:, ::-1].copy()
    if name in KEY_MASKS and array.shape == (2 * batch,):
        # Ends of all entries, then their starts.
        return array.reshape(2, batch)[:, ::-1].reshape(-1).copy()
    if name in KEY_MASKS and array.shape == (3 * batch + 2,):
        # Lengths, then where each entry's padded rows begin, which are as many in each.
        return np.concatenate([array[:batch][::-1], array[batch:]])
    # A mask of ai.onnx Attention broadcasts from the right: only the fourth axis from there is the batch.
    if not array.shape or array.shape[0] != batch or (name == "attn_mask" and array.ndim != 4):
        return array
    return array[::-1].copy()


def _reversed_sequences(problem: Problem, inputs: Inputs) -> Inputs:
    """Tokens without padding, sequence after sequence; the pages themselves stay where they are."""
    found = dict(inputs)
    bounds = np.concatenate([[0], np.cumsum(problem.q_len)])
    parts = [np.arange(bounds[entry], bounds[entry + 1]) for entry in reversed(range(problem.batch))]
    for tensor in (problem.query, problem.key, problem.value):
        found[tensor.name] = inputs[tensor.name][np.concatenate(parts)]
    for name in ("past_seqlens", "block_table"):
        found[name] = inputs[name][::-1].copy()
    found["cumulative_sequence_length"] = np.concatenate([[0], np.cumsum(problem.q_len[::-1])]).astype(np.int32)
    return found


def shifted(it: Given, own: Given) -> Inputs:
    """Scores moved by one number for each query row: by a bias, 1 and 2 by turns, or by one vector on all keys."""
    problem = it.problem
    assert isinstance(problem, Problem)
    assert isinstance(own.problem, Problem)
    additive = [mask.name for mask in problem.masks if mask.kind == "additive"]
    if not additive or len(problem.masks) == len(own.problem.masks):
        return _moved(problem, it.inputs)
    shape = it.inputs[additive[0]].shape
    by_row = np.broadcast_to(1.0 + (np.arange(shape[-2]) % 2)[:, None], shape)
    return {**it.inputs, additive[0]: dtypes.narrow(by_row, problem.dtype)}


def _moved(problem: Problem, inputs: Inputs) -> Inputs:
    """q.(k + u) is q.k + q.u, and q.u one number for all keys. Where nobody may read there is NaN, and it stays."""
    found = dict(inputs)
    for tensor in (problem.key, problem.past_key):
        if tensor is not None:
            found[tensor.name] = dtypes.narrow(dtypes.widen(inputs[tensor.name], problem.dtype) + MOVED, problem.dtype)
    return found


def constant_values(it: Given, _: Given) -> Inputs:
    """V the same number everywhere, past and new."""
    problem = it.problem
    assert isinstance(problem, Problem)
    found = dict(it.inputs)
    projected = problem.projection is not None
    for tensor in (None if projected else problem.value, problem.past_value):
        if tensor is not None:
            found[tensor.name] = _constant(it, tensor)
    if problem.projection is not None:
        # Weights of 0 and a bias that is the number: every new value is the bias.
        for columns, number in ((problem.projection.weights, 0.0), (problem.projection.bias, V)):
            assert columns is not None
            assert columns.value is not None
            array = dtypes.widen(it.inputs[columns.name], problem.dtype).copy()
            array[..., columns.value : columns.value + problem.kv_heads * problem.v_head_dim] = number
            found[columns.name] = dtypes.narrow(array, problem.dtype)
    return found


def _constant(it: Given, tensor: Tensor) -> NDArray[np.generic]:
    """An array whose heads of V are constant. Where nobody may read there is NaN, and it stays there."""
    array = dtypes.widen(it.inputs[tensor.name], it.problem.dtype).copy()
    of_values = array[1] if tensor.layout == "pbnsh" else array
    of_values[~np.isnan(of_values)] = V
    return dtypes.narrow(array, it.problem.dtype)


def repeated_heads(it: Given, own: Given) -> Inputs:
    """What belongs to a KV head, as often as query heads share it. MultiHeadAttention's graph has that already."""
    if it.problem.op != own.problem.op:
        return it.inputs
    mine = {role.name: role for role in own.problem.inputs}
    found = {role.tensor.name: _repeated(role, mine[role.name], it, own) for role in it.problem.inputs}
    return {**it.inputs, **found}


def _repeated(role: Role, mine: Role, it: Given, own: Given) -> NDArray[np.generic]:
    array, given = it.inputs[role.tensor.name], own.inputs[mine.tensor.name]
    times = role.shape[1] // mine.shape[1]
    if role.tensor.scattered is not None and role.tensor.scattered.page:
        return np.repeat(given, times, axis=2)
    heads = np.repeat(role_heads(given, mine.tensor, mine.shape[1]), times, axis=1)
    return joined(heads, role.tensor, array).reshape(array.shape)


def blocks_as_bias(it: Given, own: Given) -> Inputs:
    """A bias of -inf where the block masks of the scenario hide a key, and 0 elsewhere."""
    assert isinstance(own.problem, Problem)
    bias: NDArray[np.float64] = np.zeros(it.inputs["attention_bias"].shape)
    _, _, rows, slots = bias.shape
    positions = np.asarray(own.problem.past_len, np.int64)[:, None] + np.arange(rows)
    for mask in own.problem.masks:
        assert mask.blocks is not None
        bias[~np.broadcast_to(mask.blocks.over(own.problem.heads, positions, slots), bias.shape)] = -math.inf
    return {**it.inputs, "attention_bias": dtypes.narrow(bias, own.problem.dtype)}
