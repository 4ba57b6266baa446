"""Wrong kernels with the normalisation of queries and keys: left out, at another place, or of other numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attncheck.oracle.wrong import intervals
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Float, Recipe, normalise, turn
from attncheck.problem import Arrays, Norm, Problem, Rotary
from attncheck.tensors.dtypes import widen

DEFAULT_EPSILON = 1e-6


def _normalises(problem: Problem) -> bool:
    """Whether a query's weights depend on the normalisation."""
    return problem.norm is not None and intervals.scores_matter(problem)


def _when(told: Callable[[Problem, Norm], bool]) -> Callable[[Problem], bool]:
    return lambda problem: problem.norm is not None and _normalises(problem) and told(problem, problem.norm)


def _norm(change: Callable[[Norm], Norm | None]) -> Callable[[Recipe], Recipe]:
    def changed(recipe: Recipe) -> Recipe:
        norm = recipe.problem.norm
        return recipe if norm is None else replace(recipe, problem=replace(recipe.problem, norm=change(norm)))

    return changed


def _swapped(norm: Norm) -> Norm:
    return replace(norm, query=norm.key, key=norm.query)


def _after_rotary(recipe: Recipe) -> Recipe:
    norm = recipe.problem.norm
    if norm is None:
        return recipe

    def later(gain: str, epsilon: float) -> Callable[[Float, Rotary, Arrays, str], Float]:
        def turned(rows: Float, how: Rotary, inputs: Arrays, dtype: str) -> Float:
            return normalise(turn(rows, how, inputs, dtype), widen(inputs[gain], dtype), epsilon)

        return turned

    return replace(
        recipe,
        problem=replace(recipe.problem, norm=None),
        turn_q=later(norm.query, norm.query_epsilon),
        turn_k=later(norm.key, norm.key_epsilon),
    )


def _without_gain(rows: Float, gain: Float, epsilon: float) -> Float:
    return normalise(rows, np.ones_like(gain), epsilon)


def _one_more_gain(rows: Float, gain: Float, epsilon: float) -> Float:
    return normalise(rows, 1.0 + gain, epsilon)


def _centred(rows: Float, gain: Float, epsilon: float) -> Float:
    return normalise(rows - np.mean(rows, axis=-1, keepdims=True), gain, epsilon)


def _over_all_heads(rows: Float, gain: Float, epsilon: float) -> Float:
    mean = np.mean(rows * rows, axis=(1, 3), keepdims=True)
    whole: Float = rows / np.sqrt(mean + epsilon) * gain
    return whole


def _by(step: Callable[[Float, Float, float], Float]) -> Callable[[Recipe], Recipe]:
    return lambda recipe: replace(recipe, normalise=step)


NORMS = (
    Wrong("norm-ignored", "the normalisation of queries and keys left out", _normalises, _norm(lambda _: None)),
    Wrong("norm-gain-ignored", "the gains of the normalisation left out", _normalises, _by(_without_gain)),
    Wrong("norm-gain-plus-one", "1 added to the gains of the normalisation", _normalises, _by(_one_more_gain)),
    Wrong("norm-centred", "the mean of each row taken off before its normalisation", _normalises, _by(_centred)),
    Wrong(
        "norm-over-all-heads",
        "all heads of a token normalised together",
        _when(lambda problem, _: problem.heads > 1),
        _by(_over_all_heads),
    ),
    Wrong(
        "norm-gains-swapped",
        "the gains of queries and keys swapped",
        # Without rotary the product of both gains is all that scores hold.
        _when(lambda problem, _: problem.present_key is not None),
        _norm(_swapped),
    ),
    Wrong(
        "norm-after-rotary",
        "queries and keys normalised after rotary",
        _when(lambda problem, _: problem.rotary is not None and bool((problem.rotary.positions > 0).any())),
        _after_rotary,
    ),
    Wrong(
        "norm-epsilon-default",
        "the operator's own epsilon in the normalisation",
        _when(lambda _, norm: max(norm.query_epsilon, norm.key_epsilon) > 0.01),
        _norm(lambda norm: replace(norm, query_epsilon=DEFAULT_EPSILON, key_epsilon=DEFAULT_EPSILON)),
    ),
    Wrong(
        "norm-epsilon-of-queries",
        "the epsilon of queries in the normalisation of keys",
        _when(lambda _, norm: abs(norm.query_epsilon - norm.key_epsilon) > 0.01),
        _norm(lambda norm: replace(norm, key_epsilon=norm.query_epsilon)),
    ),
)
