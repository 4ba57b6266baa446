"""The float64 statement of attention: what every output of a Problem must be, and how far rounding may move it.

Sources: the operator texts of com.microsoft GroupQueryAttention and MultiHeadAttention (ONNX Runtime,
docs/ContribOperators.md) and ai.onnx Attention-23: new q and k are rotated; present is the past followed by the new
rows; scores are scale * q.k, then softcap * tanh(score / softcap), then hidden keys leave, then softmax, then the
weighted sum of V.

The bounds are first order in u. An error d_ij of score s_ij moves the output o_i, with weights p, by

    sum_j p_ij (v_j - o_i) d_ij  <=  sqrt(sum_j p_ij d_ij^2) * sqrt(sum_j p_ij v_j^2 - o_i^2)       (Cauchy-Schwarz)

so that scores matter as far as the values they choose between differ. With |d_ij| <= u * e_ij,

    |o_i - exact|  <=  u * (sqrt(sum_j p_ij e_ij^2) * spread_i + 2 sum_j p_ij |v_j| + sqrt(n_i) |o_i|)
    e_ij            =  scale * sum_d |q_id| |k_jd|   (the dot product; with rotary also what the rotation adds)
                       * (1 - tanh^2) + softcap      (softcap: its slope, and the absolute error of tanh, which
                                                      implementations build from exponentials)
                       + |s_ij - max_k s_ik|         (the argument of the exponential is rounded)

The 2 stands for the exponential and the division; the last term for the sum of the weights, whose rounding errors grow
like sqrt(n) (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019), n being the number of
keys heavy enough to move a float32 sum. Factors that only an implementation knows are in the measured constant of
`compare.judge`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.answer import Answer
from attncheck.oracle.buffers import present, slots
from attncheck.oracle.rotary import Turned, turn, unturned
from attncheck.problem import Arrays, Problem, Tensor, split_heads
from attncheck.tensors.dtypes import widen

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

BLOCK = 1 << 20
"""Scores in flight at once (8 MiB an array of them): bounds the memory whatever the shape."""


WEIGHTLESS = 2.0**-25
"""A share of a sum at or below this is lost when it is added in float32, and its own rounding with it."""


@dataclass(frozen=True)
class _Operands:
    """What the softmax works on: q [batch, kv_heads, group, rows, head_dim], k and v [batch, kv_heads, slots, dim]."""

    q: Turned
    k: Turned
    v: Float
    visible: NDArray[np.int32]


@dataclass(frozen=True)
class _Attended:
    """Output rows and their bounds, each [batch, kv_heads, group, rows, v_head_dim]."""

    values: Float
    compute: Float
    storage: Float


def answer(problem: Problem, inputs: Arrays) -> tuple[Answer, ...]:
    """One Answer an output of the graph, in the graph's order, each in the output's own shape.

    Slots that the operator does not read may hold anything, NaN included. Raises ValueError when the Problem
    contradicts itself (a visible key beyond kv_len, rotary with keys that have no query).
    """
    _check(problem)
    new_q = _read(problem, problem.query, inputs, problem.heads)
    new_k = _read(problem, problem.key, inputs, problem.kv_heads)
    new_v = _read(problem, problem.value, inputs, problem.kv_heads)
    past_k = _read(problem, problem.past_key, inputs, problem.kv_heads) if problem.past_key else None
    past_v = _read(problem, problem.past_value, inputs, problem.kv_heads) if problem.past_value else None

    if problem.rotary:
        q = turn(new_q, problem.rotary, inputs, problem.dtype)
        k = turn(new_k, problem.rotary, inputs, problem.dtype)
        keys = Turned(
            present(problem, past_k, k.values), present(problem, None, k.compute), present(problem, None, k.storage)
        )
    else:
        q = unturned(new_q)
        keys = unturned(present(problem, past_k, new_k))
    values = present(problem, past_v, new_v)

    answers = [_output(problem, _operands(problem, q, keys, values))]
    if problem.present_key:
        answers.append(_present(problem, problem.present_key, keys))
    if problem.present_value:
        answers.append(_present(problem, problem.present_value, unturned(values)))
    return tuple(answers)


def _check(problem: Problem) -> None:
    stated = _query_rows(problem)
    sees = problem.visible[..., 0] < problem.visible[..., 1]
    beyond = problem.visible[..., 1] > np.asarray(problem.kv_len)[:, None]
    if np.any(stated & sees & (beyond | (problem.visible[..., 0] < 0))):
        raise ValueError("a query row of the Problem sees slots outside [0, kv_len)")
    if problem.rotary and problem.rotary.positions.shape != (problem.batch, max(problem.rows, problem.new_rows)):
        raise ValueError("rotary positions of the Problem must be [batch, rows], one for each new query and key")


def _read(problem: Problem, tensor: Tensor, inputs: Arrays, heads: int) -> Float:
    return widen(split_heads(inputs[tensor.name], tensor.layout, heads), problem.dtype)


def _query_rows(problem: Problem) -> Bool:
    """Which query rows mean something: [batch, rows]."""
    return np.arange(problem.rows)[None, :] < np.asarray(problem.q_len)[:, None]


def _operands(problem: Problem, q: Turned, k: Turned, v: Float) -> _Operands:
    stated = _query_rows(problem)

    shape = (problem.batch, problem.kv_heads, problem.group, problem.rows, problem.head_dim)
    grouped = Turned(*(a.reshape(shape) for a in (q.values, q.compute, q.storage)))
    return _Operands(grouped, k, v, np.where(stated[..., None], problem.visible, 0))


def _output(problem: Problem, operands: _Operands) -> Answer:
    shape = (problem.batch, problem.kv_heads, problem.group, problem.rows, problem.v_head_dim)
    whole = _Attended(np.zeros(shape), np.zeros(shape), np.zeros(shape))
    with np.errstate(invalid="ignore", over="ignore"):
        for members, rows in _blocks(problem):
            part = _attend(problem, operands, members, rows)
            whole.values[members, :, :, rows] = part.values
            whole.compute[members, :, :, rows] = part.compute
            whole.storage[members, :, :, rows] = part.storage
    merged = (problem.batch, problem.heads, problem.rows, problem.v_head_dim)
    stated = np.broadcast_to(_query_rows(problem)[:, None, :, None], merged)
    values, compute, storage = (a.reshape(merged) for a in (whole.values, whole.compute, whole.storage))
    return _stated_answer(problem.output, values, compute, storage, stated)


def _present(problem: Problem, tensor: Tensor, rows: Turned) -> Answer:
    stated = np.broadcast_to(slots(problem)[:, None, :, None], rows.values.shape)
    return _stated_answer(tensor, rows.values, rows.compute, rows.storage, stated)


def _stated_answer(tensor: Tensor, values: Float, compute: Float, storage: Float, stated: Bool) -> Answer:
    """An Answer in the tensor's own shape: 4-D for bnsh and for a present, [batch, rows, heads * dim] for an output."""
    arrays = (np.where(stated, values, np.nan), compute, storage, stated)
    if tensor.layout == "bsnh":
        batch, heads, rows, dim = values.shape
        arrays = tuple(a.transpose(0, 2, 1, 3).reshape(batch, rows, heads * dim) for a in arrays)  # type: ignore[assignment]
    own_values, own_compute, own_storage, own_stated = arrays
    return Answer(tensor.name, own_values, own_stated, own_compute, own_storage)


def _blocks(problem: Problem) -> Iterator[tuple[slice, slice]]:
    """Slices of batch members and of query rows whose scores fit into BLOCK."""
    a_row = problem.heads * max(*problem.kv_len, problem.head_dim)
    if a_row * problem.rows <= BLOCK:
        step = BLOCK // (a_row * problem.rows)
        for first in range(0, problem.batch, step):
            yield slice(first, first + step), slice(0, problem.rows)
        return
    step = max(1, BLOCK // a_row)
    for member in range(problem.batch):
        for first in range(0, problem.rows, step):
            yield slice(member, member + 1), slice(first, first + step)


def _attend(problem: Problem, operands: _Operands, members: slice, rows: slice) -> _Attended:
    interval = operands.visible[members, rows]
    empty = interval[..., 0] >= interval[..., 1]
    kv_len = np.asarray(problem.kv_len, dtype=np.int32)[members]
    if problem.empty_row == "mean":
        everything = np.stack([np.zeros_like(kv_len), kv_len], axis=-1)[:, None, :]
        interval = np.where(empty[..., None], everything, interval)
    sees = interval[..., 0] < interval[..., 1]
    if not sees.any():
        nothing = np.zeros((*operands.q.values[members, :, :, rows].shape[:-1], problem.v_head_dim))
        return _Attended(nothing, nothing, nothing)
    low = int(np.min(interval[..., 0], where=sees, initial=problem.capacity))
    high = int(np.max(interval[..., 1], where=sees, initial=0))
    slot = np.arange(low, high)
    shown = ((interval[..., :1] <= slot) & (slot < interval[..., 1:]))[:, None, None]

    q = Turned(*(a[members, :, :, rows] for a in (operands.q.values, operands.q.compute, operands.q.storage)))
    k = Turned(*(a[members, :, low:high] for a in (operands.k.values, operands.k.compute, operands.k.storage)))
    score, error, stored = _scores(problem, q, k)
    for array in (score, error, stored):
        np.copyto(array, 0.0, where=empty[:, None, None, :, None])
    return _weigh(score, error, stored, shown, operands.v[members, :, low:high])


def _scores(problem: Problem, q: Turned, k: Turned) -> tuple[Float, Float, Float]:
    """Scores after scale and softcap, their compute error / u, and the carried storage rounding of turned q and k."""
    scale = abs(problem.scale)
    size_q, size_k = np.abs(q.values), np.abs(k.values)
    score = problem.scale * _dot(q.values, k.values)
    error = _dot(size_q, size_k)
    stored = np.zeros_like(error)
    if problem.rotary:
        error += _dot(q.compute, size_k) + _dot(size_q, k.compute)
        stored += _dot(q.storage, size_k) + _dot(size_q, k.storage)
    error *= scale
    stored *= scale
    if problem.softcap:
        bent = np.tanh(score / problem.softcap)
        slope = 1.0 - bent * bent
        score = problem.softcap * bent
        error = error * slope + problem.softcap
        stored *= slope
    return score, error, stored


def _weigh(score: Float, error: Float, stored: Float, shown: Bool, v: Float) -> _Attended:
    """Softmax over the shown keys, and the weighted sum of v [batch, kv_heads, keys, dim]; a row without keys is 0."""
    hidden = np.where(shown, score, -np.inf)
    top = np.max(hidden, axis=-1, keepdims=True)
    below = np.where(shown, score - top, -np.inf)
    weight = np.exp(below)
    total = np.sum(weight, axis=-1, keepdims=True)
    weight /= np.where(total == 0.0, 1.0, total)

    finite = np.where(np.isfinite(v), v, 0.0)
    values = _sum(weight, finite)
    spread = np.sqrt(np.maximum(_sum(weight, finite * finite) - values * values, 0.0))
    keys = np.count_nonzero(weight > WEIGHTLESS, axis=-1, keepdims=True)
    carried = spread * _root_mean_square(weight, np.where(shown, stored, 0.0))
    compute = spread * _root_mean_square(weight, np.where(shown, error - below, 0.0))
    compute += 2.0 * _sum(weight, np.abs(finite)) + np.abs(values) * np.sqrt(keys)
    if not np.isfinite(v).all():
        values += _nonfinite(shown, v, weight.shape)
    return _Attended(values, compute, np.abs(values) + carried)


def _root_mean_square(weight: Float, error: Float) -> Float:
    """sqrt(sum p e^2) over the keys, [batch, kv_heads, group, rows, 1]."""
    mean_square: Float = np.sum(weight * error * error, axis=-1, keepdims=True)
    return np.sqrt(mean_square)


def _nonfinite(shown: Bool, v: Float, shape: tuple[int, ...]) -> Float:
    """What shown NaN and infinities add to the weighted sum: 0 where none is shown, whatever hidden keys hold."""
    weight = np.broadcast_to(shown, shape).astype(np.float64)
    above = np.where(_sum(weight, (v == np.inf).astype(np.float64)) > 0, np.inf, 0.0)
    below = np.where(_sum(weight, (v == -np.inf).astype(np.float64)) > 0, -np.inf, 0.0)
    unknown = np.where(_sum(weight, np.isnan(v).astype(np.float64)) > 0, np.nan, 0.0)
    return above + below + unknown


def _dot(q: Float, k: Float) -> Float:
    """[batch, kv_heads, group, rows, dim] with [batch, kv_heads, keys, dim] -> [batch, kv_heads, group, rows, keys]."""
    batch, heads, group, rows, dim = q.shape
    flat = q.reshape(batch, heads, group * rows, dim) @ k.swapaxes(-1, -2)
    return flat.reshape(batch, heads, group, rows, -1)


def _sum(weight: Float, v: Float) -> Float:
    """[batch, kv_heads, group, rows, keys] with [batch, kv_heads, keys, dim] -> [batch, kv_heads, group, rows, dim]."""
    batch, heads, group, rows, keys = weight.shape
    flat = weight.reshape(batch, heads, group * rows, keys) @ v
    return flat.reshape(batch, heads, group, rows, -1)
