"""Wrong kernels of rotary embedding alone: other pairs, other positions, other rows, dims that are forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attncheck.oracle import rotary
from attncheck.oracle.bounded import exact
from attncheck.oracle.wrong.entry import WrongOf
from attncheck.oracle.wrong.recipe import Float, Int
from attncheck.problem import Arrays, Rotary, RotaryProblem, Tensor, role_heads
from attncheck.tensors.dtypes import unknown, widen

Turn = Callable[[RotaryProblem, Arrays, Float], Float]
"""Rows [batch, heads, rows, head_dim] as they came, to rows as a kernel leaves them."""


def _wrong(name: str, words: str, relevant: Callable[[RotaryProblem], bool], turn: Turn) -> WrongOf[RotaryProblem]:
    def outputs(problem: RotaryProblem, inputs: Arrays) -> dict[str, Float]:
        given = role_heads(inputs[problem.input.name], problem.input, problem.heads)
        return _named(problem.turned, turn(problem, inputs, widen(given, problem.dtype)))

    return WrongOf(name, words, relevant, outputs)


def _elsewhere(name: str, words: str, change: Callable[[Int], Int]) -> WrongOf[RotaryProblem]:
    """A kernel that is right but for the rows of the caches it reads; what lies there may be the same angles."""

    def moved(problem: RotaryProblem) -> bool:
        return bool((change(problem.rotary.positions.astype(np.int64)) != problem.rotary.positions).any())

    def shows(problem: RotaryProblem, inputs: Arrays) -> bool:
        right = problem.rotary.positions.astype(np.int64)
        caches = (inputs[name] for name in (problem.rotary.cos, problem.rotary.sin))
        rows = np.concatenate([cache.reshape(-1, cache.shape[-1]) for cache in caches], axis=-1)
        taken = change(right)
        return bool(taken.max(initial=0) >= len(rows) or (rows[taken] != rows[right]).any())

    return replace(_wrong(name, words, moved, _positions(change)), shows=shows)


def _named(tensor: Tensor, rows: Float) -> dict[str, Float]:
    if tensor.layout == "bnsh":
        return {tensor.name: rows}
    batch, heads, count, dim = rows.shape
    return {tensor.name: rows.transpose(0, 2, 1, 3).reshape(batch, count, heads * dim)}


def _right(problem: RotaryProblem, inputs: Arrays, rows: Float) -> Float:
    return rotary.turn(exact(rows), problem.rotary, inputs, problem.dtype).values


def _how(change: Callable[[RotaryProblem, Rotary], Rotary]) -> Turn:
    """A kernel that is right but for how it turns; what it reads behind the end of the caches is NaN."""

    def turn(problem: RotaryProblem, inputs: Arrays, rows: Float) -> Float:
        how = change(problem, problem.rotary)
        last = int(how.positions.max(initial=0))
        longer = dict(inputs)
        for name in (how.cos, how.sin):
            cache = inputs[name].reshape(-1, inputs[name].shape[-1])
            end = unknown((max(0, last + 1 - len(cache)), cache.shape[1]), problem.dtype)
            longer[name] = np.concatenate([cache, end])
        return rotary.turn(exact(rows), how, longer, problem.dtype).values

    return turn


def _positions(change: Callable[[Int], Int]) -> Turn:
    return _how(lambda _, how: replace(how, positions=change(how.positions.astype(np.int64)).astype(np.int32)))


def _counted(positions: Int) -> Int:
    """Every row one behind the one before, from the first."""
    return positions[:, :1] + np.arange(positions.shape[1])


def _turns(problem: RotaryProblem) -> bool:
    """At position 0 no dim turns, so that nothing can be wrong there."""
    return bool(problem.rotary.positions.any())


def _of_style(style: str) -> Callable[[RotaryProblem], bool]:
    return lambda it: it.rotary.style == style and it.rotary.dim > 2 and _turns(it)


def _other_style(_: RotaryProblem, how: Rotary) -> Rotary:
    return replace(how, style="half" if how.style == "interleaved" else "interleaved")


def _backwards(problem: RotaryProblem, inputs: Arrays, rows: Float) -> Float:
    return _right(problem, {**inputs, problem.rotary.sin: np.negative(_floats(problem, inputs))}, rows)


def _floats(problem: RotaryProblem, inputs: Arrays) -> Float:
    return widen(inputs[problem.rotary.sin], problem.dtype)


def _pairs(how: Rotary) -> tuple[slice, slice]:
    if how.style == "interleaved":
        return slice(0, how.dim, 2), slice(1, how.dim, 2)
    return slice(0, how.dim // 2), slice(how.dim // 2, how.dim)


def _in_place(problem: RotaryProblem, inputs: Arrays, rows: Float) -> Float:
    """x2 cos + x1 sin, with the x1 that was overwritten: right x2 plus (turned x1 - x1) sin."""
    turned = _right(problem, inputs, rows)
    first, second = _pairs(problem.rotary)
    sin = _floats(problem, inputs)
    angles = sin.reshape(-1, sin.shape[-1])[problem.rotary.positions][:, None, :, : problem.rotary.dim // 2]
    turned[..., second] += (turned[..., first] - rows[..., first]) * angles
    return turned


def _partial(problem: RotaryProblem) -> bool:
    return problem.rotary.dim < problem.head_dim


def _whole_head(problem: RotaryProblem, inputs: Arrays, rows: Float) -> Float:
    """Rows of the caches are taken to be head_dim / 2 long; beyond their end stands NaN."""
    half = problem.head_dim // 2
    longer = dict(inputs)
    for name in (problem.rotary.cos, problem.rotary.sin):
        cache = inputs[name]
        taken = unknown(((int(problem.rotary.positions.max(initial=0)) + 1) * half,), problem.dtype)
        taken[: cache.size] = cache.reshape(-1)[: taken.size]
        longer[name] = taken.reshape(-1, half)
    return rotary.turn(exact(rows), replace(problem.rotary, dim=2 * half), longer, problem.dtype).values


def _partner_far(problem: RotaryProblem, inputs: Arrays, rows: Float) -> Float:
    """Dim d turns with d + head_dim / 2, as if the whole head turned, for the dims that have a cache column."""
    pairs = problem.rotary.dim // 2
    turning = np.concatenate([np.arange(pairs), problem.head_dim // 2 + np.arange(pairs)])
    whole = rows.copy()
    whole[..., turning] = _right(problem, inputs, rows[..., turning])
    return whole


def _rest_left(problem: RotaryProblem, inputs: Arrays, rows: Float) -> Float:
    turned = _right(problem, inputs, rows)
    turned[..., problem.rotary.dim :] = 0.0
    return turned


def _upper_half_left(problem: RotaryProblem, inputs: Arrays, rows: Float) -> Float:
    turned = _right(problem, inputs, rows)
    turned[..., problem.head_dim // 2 :] = 0.0
    return turned


def _other_layout(problem: RotaryProblem, inputs: Arrays, rows: Float) -> Float:
    """Memory that holds heads and rows is walked in the other order, with the position of the row that was meant."""
    batch, heads, count, dim = rows.shape
    if problem.input.layout == "bsnh":
        mixed = rows.transpose(0, 2, 1, 3).reshape(batch, heads, count, dim)
    else:
        mixed = rows.reshape(batch, count, heads, dim).transpose(0, 2, 1, 3)
    turned = _right(problem, inputs, np.ascontiguousarray(mixed))
    if problem.input.layout == "bsnh":
        return turned.reshape(batch, count, heads, dim).transpose(0, 2, 1, 3)
    return turned.transpose(0, 2, 1, 3).reshape(batch, heads, count, dim)


TURNING: tuple[WrongOf[RotaryProblem], ...] = (
    _wrong("turn-upper-half-zero", "the upper half of each head left zero", lambda _: True, _upper_half_left),
    _wrong("turn-ignored", "nothing turned", _turns, lambda _, __, rows: rows),
    _wrong("turn-interleaved-for-half", "interleaved rotary instead of half", _of_style("half"), _how(_other_style)),
    _wrong(
        "turn-half-for-interleaved", "half rotary instead of interleaved", _of_style("interleaved"), _how(_other_style)
    ),
    _wrong("turn-backwards", "the sign of the sine turned round", _turns, _backwards),
    _wrong("turn-in-place", "the second of each pair computed from the first already turned", _turns, _in_place),
    _wrong(
        "turn-position-one-back",
        "rotary positions one too small",
        _turns,
        _positions(lambda positions: np.maximum(positions - 1, 0)),
    ),
    _wrong(
        "turn-position-one-on",
        "rotary positions one too large",
        lambda _: True,
        _positions(lambda positions: positions + 1),
    ),
    _elsewhere("turn-from-zero", "rotary positions that begin at 0", lambda positions: _counted(positions * 0)),
    _elsewhere(
        "turn-counted-from-first",
        "only the first of each entry's position_ids read, and counted on from there",
        _counted,
    ),
    _elsewhere(
        "turn-of-entry-0",
        "rotary positions of batch entry 0 for all",
        lambda positions: np.broadcast_to(positions[:1], positions.shape),
    ),
    _wrong(
        "turn-whole-head",
        "rotary of the whole head where a part is asked for",
        lambda it: _partial(it) and it.head_dim % 2 == 0 and _turns(it),
        _whole_head,
    ),
    _wrong(
        "turn-partner-far",
        "rotary pairs at head_dim/2 instead of rotary_dim/2",
        lambda it: _partial(it) and it.head_dim % 2 == 0 and it.rotary.style == "half" and _turns(it),
        _partner_far,
    ),
    _wrong("turn-rest-zero", "the dims that do not turn left zero", _partial, _rest_left),
    _wrong(
        "turn-other-layout",
        "heads and rows of each entry walked in the other order",
        lambda it: it.heads > 1 and it.rows > 1 and _turns(it),
        _other_layout,
    ),
)
