"""Wrong kernels that mix up heads, leave a part of each head out, or rows of the output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.wrong import intervals
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Recipe, Results
from attncheck.problem import Problem

VECTOR = 4


def _reading(name: str, words: str, kv_head: Callable[[Problem, int], int]) -> Wrong:
    """A kernel whose query head h reads KV head kv_head(problem, h)."""

    def mapping(problem: Problem) -> tuple[int, ...]:
        return tuple(kv_head(problem, head) for head in range(problem.heads))

    def relevant(problem: Problem) -> bool:
        return mapping(problem) != tuple(head // problem.group for head in range(problem.heads))

    def change(recipe: Recipe) -> Recipe:
        return replace(recipe, kv_head=mapping(recipe.problem))

    return Wrong(name, words, relevant, change)


def _without_value_dims(first: Callable[[Problem], int]) -> Callable[[Recipe], Recipe]:
    def change(recipe: Recipe) -> Recipe:
        def finish(problem: Problem, results: Results) -> Results:
            return replace(
                results, output=np.where(np.arange(problem.v_head_dim) < first(problem), results.output, 0.0)
            )

        return replace(recipe, finish=finish)

    return change


def _without_key_dims(first: Callable[[Problem], int]) -> Callable[[Recipe], Recipe]:
    def change(recipe: Recipe) -> Recipe:
        return replace(recipe, score_dims=first(recipe.problem))

    return change


def _zero_rows(keep: Callable[[Problem], NDArray[np.bool_]]) -> Callable[[Recipe], Recipe]:
    """The output is 0 where `keep`, bool [batch, rows], is false; presents are right."""

    def change(recipe: Recipe) -> Recipe:
        def finish(problem: Problem, results: Results) -> Results:
            return replace(results, output=np.where(keep(problem)[:, None, :, None], results.output, 0.0))

        return replace(recipe, finish=finish)

    return change


def _lower_half(dim: int) -> int:
    return (dim + 1) // 2


def _whole_vectors(dim: int) -> int:
    return dim // VECTOR * VECTOR


def _no_row(problem: Problem) -> NDArray[np.bool_]:
    return np.zeros((problem.batch, problem.rows), np.bool_)


def _key_tail(problem: Problem) -> int:
    return _whole_vectors(problem.head_dim)


def _value_tail(problem: Problem) -> int:
    return _whole_vectors(problem.v_head_dim)


def _not_last_row(problem: Problem) -> NDArray[np.bool_]:
    return np.arange(problem.rows)[None, :] < np.asarray(problem.q_len)[:, None] - 1


HEADS = (
    _reading("kv-heads-tiled", "KV heads tiled for repeated (head % kv_heads)", lambda p, head: head % p.kv_heads),
    _reading("kv-head-0-for-all", "KV head 0 read by all query heads", lambda _problem, _head: 0),
    _reading(
        "kv-head-next", "the next KV head read by every query head", lambda p, head: (head // p.group + 1) % p.kv_heads
    ),
    Wrong(
        "value-upper-half-zero",
        "the upper half of head_dim zero",
        lambda problem: problem.v_head_dim > 1,
        _without_value_dims(lambda problem: _lower_half(problem.v_head_dim)),
    ),
    Wrong(
        "value-tail-zero",
        "the tail of head_dim zero (dims beyond the last whole vector of 4)",
        lambda problem: problem.v_head_dim % VECTOR != 0,
        _without_value_dims(_value_tail),
    ),
    Wrong(
        "score-upper-half-ignored",
        "the upper half of head_dim left out of q.k",
        lambda problem: problem.head_dim > 1 and intervals.scores_matter(problem),
        _without_key_dims(lambda problem: _lower_half(problem.head_dim)),
    ),
    Wrong(
        "score-tail-ignored",
        "the tail of head_dim left out of q.k (dims beyond the last whole vector of 4)",
        lambda problem: problem.head_dim % VECTOR != 0 and intervals.scores_matter(problem),
        _without_key_dims(_key_tail),
    ),
    Wrong("last-query-dropped", "the last query row of each entry zero", lambda _: True, _zero_rows(_not_last_row)),
    Wrong("zeros", "zeros everywhere", lambda _: True, _zero_rows(_no_row)),
)
