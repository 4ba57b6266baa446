"""Wrong kernels that fill the present buffers wrongly, or read them in the wrong order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Float, Recipe, Results
from attncheck.problem import Problem
from attncheck.tensors.dtypes import dtype


def _asked(problem: Problem) -> bool:
    return problem.present_key is not None or problem.present_value is not None


def _has_past(problem: Problem) -> bool:
    return any(problem.past_len)


def _appends_to_past(problem: Problem) -> bool:
    """Some entry has a past and new keys."""
    return any(past and new for past, new in zip(problem.past_len, problem.new_len, strict=True))


def _new_first(recipe: Recipe) -> Recipe:
    def arrange(problem: Problem, rows: Float) -> Float:
        turned = rows.copy()
        for member, (past, new) in enumerate(zip(problem.past_len, problem.new_len, strict=True)):
            turned[member, :, : past + new] = np.roll(rows[member, :, : past + new], new, axis=1)
        return turned

    return replace(recipe, arrange=arrange)


def _giving(change: Callable[[Problem, Float], Float]) -> Callable[[Recipe], Recipe]:
    """Attention is right; `change` makes what is given out of each present buffer."""

    def finish(problem: Problem, results: Results) -> Results:
        return replace(
            results,
            present_key=change(problem, results.present_key),
            present_value=change(problem, results.present_value),
        )

    return lambda recipe: replace(recipe, finish=finish)


def _past_alone(problem: Problem, rows: Float) -> Float:
    past = np.arange(problem.capacity) < np.asarray(problem.past_len)[:, None]
    return np.where(past[:, None, :, None], rows, 0.0)


def _new_alone(problem: Problem, rows: Float) -> Float:
    """The new rows at the front, as if there were no past."""
    alone = np.zeros_like(rows)
    for member, (past, new) in enumerate(zip(problem.past_len, problem.new_len, strict=True)):
        alone[member, :, :new] = rows[member, :, past : past + new]
    return alone


def _nothing(_: Problem, rows: Float) -> Float:
    return np.zeros_like(rows)


def _value_for_key(recipe: Recipe) -> Recipe:
    return replace(recipe, finish=lambda _, results: replace(results, present_key=results.present_value))


def _key_for_value(recipe: Recipe) -> Recipe:
    return replace(recipe, finish=lambda _, results: replace(results, present_value=results.present_key))


def _both(problem: Problem) -> bool:
    return (
        problem.present_key is not None and problem.present_value is not None and problem.head_dim == problem.v_head_dim
    )


def _word(problem: Problem) -> int:
    """Elements of 16 bytes."""
    return 16 // dtype(problem.dtype).storage.itemsize


def _one_key_buffer(problem: Problem) -> bool:
    """Past and present keys may be one buffer [batch, heads, slots, dim], of several words a key, that is given out."""
    plain = problem.evicts is None and problem.quantised is None
    shared = problem.past_key is not None and problem.past_capacity == problem.capacity > 1
    laid_out = all(it is not None and it.layout == "bnsh" for it in (problem.past_key, problem.present_key))
    words, rest = divmod(problem.head_dim, _word(problem))
    return plain and shared and laid_out and words > 1 and rest == 0 and any(problem.new_len)


def _in_words(recipe: Recipe) -> Recipe:
    """The key buffer is read and written as [batch, heads, dim / x, slots, x], x elements of 16 bytes."""
    problem, size = recipe.problem, _word(recipe.problem)
    assert problem.past_key is not None
    name = problem.past_key.name
    batch, heads, slots, dim = recipe.inputs[name].shape
    by_word = recipe.inputs[name].reshape(batch, heads, dim // size, slots, size).transpose(0, 1, 3, 2, 4)

    def finish(_: Problem, results: Results) -> Results:
        by_slot = results.present_key.reshape(batch, heads, slots, dim // size, size).transpose(0, 1, 3, 2, 4)
        return replace(results, present_key=by_slot.reshape(results.present_key.shape))

    inputs = {**recipe.inputs, name: by_word.reshape(batch, heads, slots, dim)}
    return replace(recipe, inputs=inputs, finish=finish)


PRESENTS = (
    Wrong(
        "key-cache-in-words",
        "the key buffer taken for [heads, head_dim / x, slots, x], x elements of 16 bytes",
        _one_key_buffer,
        _in_words,
    ),
    Wrong("new-before-past", "the new keys placed before the past", _appends_to_past, _new_first),
    Wrong(
        "present-past-only",
        "present holding the past alone (new rows not appended)",
        lambda problem: _asked(problem) and any(problem.new_len),
        _giving(_past_alone),
    ),
    Wrong(
        "present-new-only",
        "present holding the new rows alone, from slot 0 on",
        lambda problem: _asked(problem) and _has_past(problem),
        _giving(_new_alone),
    ),
    Wrong("present-zero", "present left zero", _asked, _giving(_nothing)),
    Wrong("present-value-for-key", "present_value written for present_key", _both, _value_for_key),
    Wrong("present-key-for-value", "present_key written for present_value", _both, _key_for_value),
)
