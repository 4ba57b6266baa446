"""The float64 statement of attention: what every output of a Problem must be, and how far rounding may move it.

Sources: the operator texts of com.microsoft GroupQueryAttention and MultiHeadAttention (ONNX Runtime,
docs/ContribOperators.md) and ai.onnx Attention-23 to -25: new q and k are rotated; present is the past followed by the
new rows; scores are scale * q.k, then softcap * tanh(score / softcap), then masks are added and hidden keys leave, then
softmax, then the weighted sum of V.

Score outputs (ai.onnx `qk_matmul_output_mode` 0 to 3, com.microsoft `qk_output`) are stated for the slots that hold a
key: raw and capped ones whether the query sees the key or not, "biased" ones as -inf where it does not, weights as 0
there; where the text is silent on hidden keys (GroupQueryAttention before softmax) nothing is stated of them. ONNX
Runtime's CPU writes the dtype's lowest number for -inf at opsets 23 and 24; `compare.judge` knows.

`oracle.scores` and `oracle.softmax` derive the bounds. Factors that only an implementation knows are in the measured
constant of `compare.judge`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle import scores as stages
from attncheck.oracle.answer import Answer, laid_out, refuse_invalid
from attncheck.oracle.bounded import Bounded
from attncheck.oracle.buffers import held, kept
from attncheck.oracle.cache import Cached, cached
from attncheck.oracle.masks import Overlay, cover, overlays
from attncheck.oracle.norm import normalised
from attncheck.oracle.projection import projected
from attncheck.oracle.rotary import turn
from attncheck.oracle.softmax import Attended, Weights, attend, weigh
from attncheck.problem import Arrays, Problem, Tensor
from attncheck.tensors.dtypes import dtype, widen

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

BLOCK = 1 << 20
"""Scores in flight at once (8 MiB an array of them): bounds the memory whatever the shape."""


@dataclass(frozen=True)
class _Operands:
    """What the softmax works on: q [batch, kv_heads, group, rows, head_dim], k and v [batch, kv_heads, slots, dim].

    sinks [kv_heads, group, 1, number of them]: scores that only count in the denominator
    """

    q: Bounded
    k: Bounded
    v: Bounded
    visible: NDArray[np.int32]
    masks: tuple[Overlay, ...]
    sinks: Float


@dataclass(frozen=True)
class _Block:
    """The scores of one block stage by stage, and its weights.

    shown    the keys that the rows see; weighed: the keys that get a weight, all of them where a row without keys
             gives the mean
    """

    raw: stages.Scores
    capped: stages.Scores
    biased: stages.Scores
    shown: Bool
    weighed: Bool
    weights: Weights


def answer(problem: Problem, inputs: Arrays, carried: Mapping[str, Answer] | None = None) -> tuple[Answer, ...]:
    """One Answer an output of the graph, in the graph's order, each in the output's own shape.

    carried   by the name of a past, the answer to the present that it came from, in a session: a backend has its own
              there. What the oracle says then starts from that answer's unrounded values, and their bounds go along;
              the array in `inputs` is not looked at.
    Slots that the operator does not read may hold anything, NaN included. Raises NoAnswer where the operator forbids
    the graph, and ValueError when the Problem contradicts itself (a visible key beyond kv_len, rotary with keys that
    have no query).
    """
    _check(problem)
    operands, keys, values = _prepared(problem, inputs, carried or {})
    answers = [_output(problem, operands), *_presents(problem, inputs, keys.held, values.held)]
    if problem.scores:
        answers.append(_scores(problem, operands))
    return tuple(answers)


def weighed(problem: Problem, inputs: Arrays, member: int, head: int) -> Iterator[tuple[slice, Float, Float]]:
    """What the query rows of one head of one batch entry look at, a few rows after the other.

    Gives the rows, their scores [rows, kv_len] before softmax, -inf where a key is hidden, and their weights, likewise.
    """
    kv_head, of_group = divmod(head, problem.group)
    operands = _of_head(_prepared(problem, inputs, {})[0], kv_head, of_group)
    high = problem.kv_len[member]
    with np.errstate(invalid="ignore", over="ignore"):
        for members, rows in _blocks(problem):
            if high and member in range(*members.indices(problem.batch)):
                block = _block(problem, operands, slice(member, member + 1), rows, 0, high)
                scores = np.where(block.shown, block.biased.values, -np.inf)
                yield rows, scores[0, 0, 0], block.weights.values[0, 0, 0]


def _of_head(whole: _Operands, kv_head: int, of_group: int) -> _Operands:
    one, own = slice(kv_head, kv_head + 1), slice(of_group, of_group + 1)
    q = whole.q.each(lambda rows: rows[:, one, own])
    k, v = (it.each(lambda rows: rows[:, one]) for it in (whole.k, whole.v))
    masks = tuple(it.of_head(one, own) for it in whole.masks)
    return _Operands(q, k, v, whole.visible, masks, whole.sinks[one, own])


def _prepared(problem: Problem, inputs: Arrays, carried: Mapping[str, Answer]) -> tuple[_Operands, Cached, Cached]:
    """Queries, keys and values after all that is done to them before they meet, and what their buffers hold."""
    q = projected(problem, "query", problem.query, inputs, problem.heads, problem.head_dim)
    k = projected(problem, "key", problem.key, inputs, problem.kv_heads, problem.head_dim)
    v = projected(problem, "value", problem.value, inputs, problem.kv_heads, problem.v_head_dim)
    if problem.norm:
        q_gain, k_gain = (widen(inputs[name], problem.dtype) for name in (problem.norm.query, problem.norm.key))
        q = normalised(q.values, q_gain, problem.norm.query_epsilon)
        k = normalised(k.values, k_gain, problem.norm.key_epsilon)
    if problem.rotary:
        q, k = (turn(rows, problem.rotary, inputs, problem.dtype) for rows in (q, k))
    keys = cached(problem, "key", inputs, carried, k)
    values = cached(problem, "value", inputs, carried, v)
    return _operands(problem, inputs, q, keys.read, values.read), keys, values


def _check(problem: Problem) -> None:
    refuse_invalid(problem)
    stated = problem.stated_rows
    sees = problem.visible[..., 0] < problem.visible[..., 1]
    beyond = problem.visible[..., 1] > np.asarray(problem.kv_len)[:, None]
    before = problem.visible[..., 0] < np.asarray(problem.past_first)[:, None]
    if np.any(stated & sees & (beyond | before)):
        raise ValueError("a query row of the Problem sees slots that no buffer holds, outside [past_first, kv_len)")
    if problem.rotary and problem.rotary.positions.shape != (problem.batch, max(problem.rows, problem.new_rows)):
        raise ValueError("rotary positions of the Problem must be [batch, rows], one for each new query and key")


def _operands(problem: Problem, inputs: Arrays, q: Bounded, k: Bounded, v: Bounded) -> _Operands:
    stated = problem.stated_rows
    shape = (problem.batch, problem.kv_heads, problem.group, problem.rows, problem.head_dim)
    grouped = q.each(lambda rows: rows.reshape(shape))
    visible = np.where(stated[..., None], problem.visible, 0)
    return _Operands(grouped, k, v, visible, overlays(problem, inputs), _sinks(problem, inputs))


def _sinks(problem: Problem, inputs: Arrays) -> Float:
    sinks = [np.zeros(problem.heads)] if problem.smooth else []
    if problem.sink is not None:
        sinks.append(widen(inputs[problem.sink], problem.dtype).reshape(problem.heads))
    return np.array(sinks).T.reshape(problem.kv_heads, problem.group, 1, len(sinks))


def _output(problem: Problem, operands: _Operands) -> Answer:
    shape = (problem.batch, problem.kv_heads, problem.group, problem.rows, problem.v_head_dim)
    whole = Attended(*(np.zeros(shape) for _ in range(4)))
    with np.errstate(invalid="ignore", over="ignore"):
        for members, rows in _blocks(problem):
            low, high = _reach(problem, operands, members, rows)
            if low >= high:
                continue
            block = _block(problem, operands, members, rows, low, high)
            part = attend(block.weights, block.weighed, _cut(operands.v, members, low, high))
            whole.values[members, :, :, rows] = part.values
            whole.compute[members, :, :, rows] = part.compute
            whole.storage[members, :, :, rows] = part.storage + _coarser(problem) * part.compute
            whole.weights[members, :, :, rows] = part.weights
    merged = (problem.batch, problem.heads, problem.rows, problem.v_head_dim)
    stated = np.broadcast_to(problem.stated_rows[:, None, :, None], merged)
    values, compute, storage = (a.reshape(merged) for a in (whole.values, whole.compute, whole.storage))
    return laid_out(problem.output, values, compute, storage, stated, weights=whole.weights.reshape(merged))


def _scores(problem: Problem, operands: _Operands) -> Answer:
    """The score output [batch, heads, rows, slots]."""
    asked = problem.scores
    assert asked is not None
    shape = (problem.batch, problem.kv_heads, problem.group, problem.rows, asked.slots)
    whole = Bounded(np.zeros(shape), np.zeros(shape), np.zeros(shape))
    high = min(asked.slots, max(problem.kv_len))
    seen = np.full(shape, asked.hidden_stated)
    with np.errstate(invalid="ignore", over="ignore"):
        for members, rows in _blocks(problem):
            # Weights take all keys, also those that the output has no room for.
            block = _block(problem, operands, members, rows, 0, max(problem.kv_len))
            for array, part in zip(whole.arrays, _at_stage(problem, block, asked.stage), strict=True):
                array[members, :, :, rows, :high] = part[..., :high]
            seen[members, :, :, rows, :high] |= block.shown[..., :high]
    merged = (problem.batch, problem.heads, problem.rows, asked.slots)
    holds = np.arange(asked.slots)[None, :] < np.asarray(problem.kv_len)[:, None]
    stated = problem.stated_rows[:, None, :, None] & holds[:, None, None, :] & seen.reshape(merged)
    scores = whole.each(lambda array: array.reshape(merged))
    return laid_out(Tensor(asked.name, "bnsh"), scores.values, scores.compute, scores.storage, stated)


def _at_stage(problem: Problem, block: _Block, stage: str) -> tuple[Float, Float, Float]:
    """Values, compute and storage of the scores at a stage."""
    if stage == "weights":
        compute, storage = block.weights.bounds()
        return block.weights.values, compute, storage + _coarser(problem) * compute
    scores = {"raw": block.raw, "capped": block.capped, "biased": block.biased}[stage]
    values, compute, storage = scores.values, scores.compute, scores.storage + np.abs(scores.values)
    if stage == "biased":
        # What a finite bias pushes near the dtype's lowest number is as good as hidden.
        hidden = ~block.shown | (values <= -dtype(problem.dtype).largest / 2.0)
        values = np.where(hidden, -np.inf, values)
        compute, storage = (np.where(hidden, 0.0, bound) for bound in (compute, storage))
    return values, compute, storage


def _coarser(problem: Problem) -> float:
    """How many roundings of the tensors' dtype one of the softmax amounts to, where that has fewer bits; else 0."""
    if not problem.softmax:
        return 0.0
    return dtype(problem.softmax).roundoff / dtype(problem.dtype).roundoff


def _presents(problem: Problem, inputs: Arrays, keys: Bounded, values: Bounded) -> Iterator[Answer]:
    """The present buffers; where keys and values share one array, its heads are those of the keys, then the values'."""
    asked = [(problem.present_key, problem.past_key, keys), (problem.present_value, problem.past_value, values)]
    if problem.merges_presents:
        both = keys.each(lambda *heads: np.concatenate(heads, axis=1), values)
        asked = [(problem.present_key, problem.past_key, both)]
    for tensor, past, rows in asked:
        if tensor is not None:
            before = None if past is None or not problem.paged else widen(inputs[past.name], problem.cache_dtype)
            found = rows.each(lambda slots: kept(problem, slots))
            stated = np.broadcast_to(held(problem)[:, None, :, None], found.values.shape)
            yield laid_out(tensor, found.values, found.compute, found.storage, stated, before)


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


def _reach(problem: Problem, operands: _Operands, members: slice, rows: slice) -> tuple[int, int]:
    """The slots [low, high) that the rows of a block may weigh."""
    interval = operands.visible[members, rows]
    sees = interval[..., 0] < interval[..., 1]
    if problem.averages_empty_rows and (problem.masks or not sees.all()):
        return 0, max(problem.kv_len[members])
    low = int(np.min(interval[..., 0], where=sees, initial=problem.capacity))
    return low, int(np.max(interval[..., 1], where=sees, initial=0))


def _cut(slots: Bounded, members: slice, low: int, high: int) -> Bounded:
    """Slots [low, high) of keys or values of some batch entries."""
    return slots.each(lambda every: every[members, :, low:high])


def _block(problem: Problem, operands: _Operands, members: slice, rows: slice, low: int, high: int) -> _Block:
    """The scores of batch entries and query rows against the slots [low, high)."""
    slot = np.arange(low, high)
    interval = operands.visible[members, rows]
    masks = cover(operands.masks, members, rows, low, high)
    shown = ((interval[..., :1] <= slot) & (slot < interval[..., 1:]))[:, None, None] & masks.shows

    q = operands.q.each(lambda queries: queries[members, :, :, rows])
    raw = stages.raw(problem, q, _cut(operands.k, members, low, high))
    capped = stages.capped(problem, raw)
    biased = stages.biased(capped, masks)
    if not problem.averages_empty_rows:
        return _Block(raw, capped, biased, shown, shown, weigh(biased, shown, operands.sinks))
    empty = ~shown.any(axis=-1, keepdims=True)
    holds = (slot < np.asarray(problem.kv_len)[members, None])[:, None, None, None]
    even = stages.Scores(*(np.where(empty, 0.0, a) for a in (biased.values, biased.compute, biased.storage)))
    weighed = shown | (empty & holds)
    return _Block(raw, capped, biased, shown, weighed, weigh(even, weighed, operands.sinks))
