"""Wrong kernels with rotary embedding: ignored, the other style, other positions, another part of the head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Float, Int, Recipe, turn
from attncheck.problem import Arrays, Problem, Rotary
from attncheck.tensors.dtypes import unknown


def _positions(problem: Problem, how: Rotary) -> Int:
    """Of the new tokens that mean something, in one flat array."""
    real = np.arange(how.positions.shape[1]) < np.asarray(problem.new_len)[:, None]
    return how.positions[real].astype(np.int64)


def _turns(problem: Problem) -> bool:
    """At position 0 no dim turns, so that nothing can be wrong there."""
    return problem.rotary is not None and bool((_positions(problem, problem.rotary) > 0).any())


def _rotating(recipe: Recipe, rotary: Rotary | None, inputs: Arrays | None = None) -> Recipe:
    return replace(
        recipe, problem=replace(recipe.problem, rotary=rotary), inputs=recipe.inputs if inputs is None else inputs
    )


def _ignored(recipe: Recipe) -> Recipe:
    return _rotating(recipe, None)


def _keys_unturned(recipe: Recipe) -> Recipe:
    """New keys enter the cache as they came; queries turn."""
    return replace(recipe, turn_k=lambda rows, *_: rows)


def _other_style(recipe: Recipe) -> Recipe:
    how = _given(recipe)
    return _rotating(recipe, replace(how, style="half" if how.style == "interleaved" else "interleaved"))


def _given(recipe: Recipe) -> Rotary:
    if recipe.problem.rotary is None:
        raise ValueError("a wrong kernel of rotary embedding was asked of a Problem without it")
    return recipe.problem.rotary


def _style(name: str) -> Callable[[Problem], bool]:
    def relevant(problem: Problem) -> bool:
        how = problem.rotary
        return how is not None and how.style == name and how.dim > 2 and _turns(problem)

    return relevant


def _one_back(recipe: Recipe) -> Recipe:
    how = _given(recipe)
    return _rotating(recipe, replace(how, positions=np.maximum(how.positions - 1, 0).astype(np.int32)))


def _one_on(recipe: Recipe) -> Recipe:
    """Beyond the last row of the caches stands NaN: nobody knows what a kernel reads there."""
    how = _given(recipe)
    inputs = dict(recipe.inputs)
    for name in how.caches:
        inputs[name] = np.concatenate([inputs[name], unknown(inputs[name][:1].shape, recipe.problem.dtype)])
    return _rotating(recipe, replace(how, positions=(how.positions + 1).astype(np.int32)), inputs)


def _differs_one_on(problem: Problem) -> bool:
    """Not where all that counts is how far positions lie apart: no past, no present, and no caches that may end."""
    how = problem.rotary
    return how is not None and bool(how.caches or problem.present_key or any(problem.past_len))


def _without_past(problem: Problem, how: Rotary) -> Rotary:
    past = np.asarray(problem.past_len, np.int32)[:, None]
    return replace(how, positions=np.maximum(how.positions - past, 0))


def _from_zero(recipe: Recipe) -> Recipe:
    return _rotating(recipe, _without_past(recipe.problem, _given(recipe)))


def _after_padding(problem: Problem, how: Rotary) -> Rotary:
    """kv_len minus the padded number of rows, in place of past_len; a position before the first is the first."""
    before = np.asarray(problem.kv_len, np.int64) - problem.rows
    positions: Int = np.maximum(before[:, None] + np.arange(max(problem.rows, problem.new_rows)), 0)
    return replace(how, positions=np.minimum(positions, how.positions.max()).astype(np.int32))


def _from_padding(recipe: Recipe) -> Recipe:
    return _rotating(recipe, _after_padding(recipe.problem, _given(recipe)))


def _moves(other: Callable[[Problem, Rotary], Rotary]) -> Callable[[Problem], bool]:
    """Whether a new token that means something gets another position."""

    def relevant(problem: Problem) -> bool:
        how = problem.rotary
        return how is not None and bool((_positions(problem, other(problem, how)) != _positions(problem, how)).any())

    return relevant


def _of_entry_0(recipe: Recipe) -> Recipe:
    how = _given(recipe)
    return _rotating(recipe, replace(how, positions=np.broadcast_to(how.positions[:1], how.positions.shape)))


def _ragged(problem: Problem) -> bool:
    if problem.rotary is None:
        return False
    real = np.arange(problem.rotary.positions.shape[1]) < np.asarray(problem.new_len)[:, None]
    return bool((real & (problem.rotary.positions != problem.rotary.positions[:1])).any())


def _partial(problem: Problem) -> bool:
    """The whole head has as many pairs only where head_dim is even."""
    return (
        problem.rotary is not None
        and problem.rotary.dim < problem.head_dim
        and problem.head_dim % 2 == 0
        and _turns(problem)
    )


def _whole_head(recipe: Recipe) -> Recipe:
    """Rows of the caches are taken to be head_dim / 2 long; beyond their end stands NaN. Angles follow head_dim."""
    how = _given(recipe)
    half = recipe.problem.head_dim // 2
    inputs = dict(recipe.inputs)
    for name in how.caches:
        cache = inputs[name]
        longer = unknown((len(cache) * half,), recipe.problem.dtype)
        longer[: cache.size] = cache.reshape(-1)
        inputs[name] = longer.reshape(-1, half)
    return _rotating(recipe, replace(how, dim=recipe.problem.head_dim), inputs)


def _partner_far(recipe: Recipe) -> Recipe:
    """Dim d turns with d + head_dim / 2, as if the whole head turned, for the dims that have a cache column."""
    half = recipe.problem.head_dim // 2

    def far(rows: Float, how: Rotary, inputs: Arrays, dtype: str) -> Float:
        pairs = how.dim // 2
        first, partner = np.arange(pairs), half + np.arange(pairs)
        turning = np.concatenate([first, partner])
        whole = rows.copy()
        whole[..., turning] = turn(rows[..., turning], how, inputs, dtype)
        return whole

    return replace(recipe, turn_q=far, turn_k=far)


def _partial_half(problem: Problem) -> bool:
    return _partial(problem) and problem.rotary is not None and problem.rotary.style == "half"


POSITIONS = (
    Wrong("rotary-ignored", "rotary ignored", _turns, _ignored),
    Wrong("rotary-keys-unturned", "rotary of the queries alone", _turns, _keys_unturned),
    Wrong("rotary-interleaved-for-half", "interleaved rotary instead of half", _style("half"), _other_style),
    Wrong("rotary-half-for-interleaved", "half rotary instead of interleaved", _style("interleaved"), _other_style),
    Wrong("rotary-position-one-back", "rotary positions one too small", _turns, _one_back),
    Wrong("rotary-position-one-on", "rotary positions one too large", _differs_one_on, _one_on),
    Wrong(
        "rotary-from-zero",
        "rotary positions that begin at 0 (past_len forgotten)",
        _moves(_without_past),
        _from_zero,
    ),
    Wrong(
        "rotary-from-padding",
        "rotary positions that begin at kv_len minus the padded rows, below 0 taken for 0",
        _moves(_after_padding),
        _from_padding,
    ),
    Wrong("rotary-of-entry-0", "rotary positions of batch entry 0 for all", _ragged, _of_entry_0),
    Wrong("rotary-whole-head", "rotary of the whole head where a part is asked for", _partial, _whole_head),
    Wrong("rotary-partner-far", "rotary pairs at head_dim/2 instead of rotary_dim/2", _partial_half, _partner_far),
)
