"""Wrong kernels with buffers that hold the last keys only: other keys kept, elsewhere, or taken for other positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Float, Recipe, Results
from attncheck.problem import Problem


def _gives_present(problem: Problem) -> bool:
    return problem.evicts is not None and (problem.present_key is not None or problem.present_value is not None)


def _from(first: Callable[[Problem], tuple[int, ...]]) -> Callable[[Recipe], Recipe]:
    """Row 0 of the present buffers holds another slot."""

    def change(recipe: Recipe) -> Recipe:
        problem = recipe.problem
        if problem.evicts is None:
            return recipe
        return replace(recipe, problem=replace(problem, evicts=replace(problem.evicts, present=first(problem))))

    return change


def _filled(problem: Problem) -> tuple[int, ...]:
    return tuple(max(0, kv_len - problem.present_capacity) for kv_len in problem.kv_len)


def _ring_of(problem: Problem, entry: int) -> list[int]:
    """The slot that each row of a ring buffer holds, -1 for none."""
    rows, last = problem.present_capacity, problem.kv_len[entry] - 1
    return [last - (last - row) % rows if row <= last else -1 for row in range(rows)]


def _is_no_ring(problem: Problem) -> bool:
    """Whether a ring buffer would show in the rows that are stated."""
    return _gives_present(problem) and any(
        slot != first + row
        for entry, (first, kv_len) in enumerate(zip(problem.present_first, problem.kv_len, strict=True))
        for row, slot in enumerate(_ring_of(problem, entry)[: kv_len - first])
    )


def _ring(recipe: Recipe) -> Recipe:
    def wrapped(problem: Problem, slots: Float) -> Float:
        turned = slots.copy()
        for entry, first in enumerate(problem.present_first):
            for row, slot in enumerate(_ring_of(problem, entry)):
                if slot >= 0 and first + row < problem.capacity:
                    turned[entry, :, first + row] = slots[entry, :, slot]
        return turned

    def finish(problem: Problem, results: Results) -> Results:
        key, value = wrapped(problem, results.present_key), wrapped(problem, results.present_value)
        return replace(results, present_key=key, present_value=value)

    return replace(recipe, finish=finish)


def _turns_after_eviction(problem: Problem) -> bool:
    return problem.rotary is not None and any(problem.past_first) and problem.present_key is not None


def _positions_by_row(recipe: Recipe) -> Recipe:
    """A new token's position counts the rows of the buffer before it, not the tokens."""
    problem = recipe.problem
    if problem.rotary is None:
        return recipe
    gone = np.asarray(problem.past_first, np.int32)[:, None]
    positions = np.maximum(problem.rotary.positions - gone, 0)
    return replace(recipe, problem=replace(problem, rotary=replace(problem.rotary, positions=positions)))


EVICTIONS = (
    Wrong(
        "evict-nothing",
        "present holding the first keys (nothing evicted)",
        lambda problem: _gives_present(problem) and any(problem.present_first),
        _from(lambda problem: (0,) * problem.batch),
    ),
    Wrong(
        "evict-one-at-a-time",
        "present filled to its capacity (one key evicted at a time)",
        lambda problem: _gives_present(problem) and _filled(problem) != problem.present_first,
        _from(_filled),
    ),
    Wrong("evict-in-a-ring", "present kept as a ring buffer", _is_no_ring, _ring),
    Wrong(
        "evict-and-count-rows",
        "rotary positions counted in rows of the buffer (evicted keys forgotten)",
        _turns_after_eviction,
        _positions_by_row,
    ),
)
