"""Wrong kernels with beams: their table ignored, taken from another entry, or written into the present."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Recipe, Results
from attncheck.problem import Problem


def _seen(problem: Problem) -> NDArray[np.bool_]:
    """The slots that some query of an entry sees, bool [batch, capacity]."""
    slots = np.arange(problem.capacity)
    lowest, highest = problem.visible[..., 0].min(axis=1), problem.visible[..., 1].max(axis=1)
    return np.asarray((slots >= lowest[:, None]) & (slots < highest[:, None]))


def _reads_otherwise(problem: Problem, entries: NDArray[np.int32]) -> bool:
    """Whether another table gives an entry another row that it sees."""
    return problem.beams is not None and bool((_seen(problem) & (entries != problem.beams)).any())


def _own(problem: Problem) -> NDArray[np.int32]:
    return np.broadcast_to(np.arange(problem.batch, dtype=np.int32)[:, None], (problem.batch, problem.capacity))


def _of_entry_0(problem: Problem) -> NDArray[np.int32]:
    """The past of entry 0's table for all; new rows stay their own."""
    entries = _own(problem).copy()
    if problem.beams is not None:
        past = max(problem.past_len)
        entries[:, :past] = problem.beams[:1, :past]
    return entries


def _ignored(recipe: Recipe) -> Recipe:
    return replace(recipe, problem=replace(recipe.problem, beams=None))


def _entry_0_for_all(recipe: Recipe) -> Recipe:
    return replace(recipe, problem=replace(recipe.problem, beams=_of_entry_0(recipe.problem)))


def _moves_present(problem: Problem) -> bool:
    return problem.present_key is not None and _reads_otherwise(problem, _own(problem))


def _moved(recipe: Recipe) -> Recipe:
    """The present holds the rows as they were read."""

    def finish(problem: Problem, results: Results) -> Results:
        key, value = problem.as_read(results.present_key), problem.as_read(results.present_value)
        return replace(results, present_key=key, present_value=value)

    return replace(recipe, finish=finish)


BEAMS = (
    Wrong(
        "beams-ignored",
        "beams ignored (every entry reads its own past)",
        lambda problem: _reads_otherwise(problem, _own(problem)),
        _ignored,
    ),
    Wrong(
        "beams-of-entry-0",
        "the beams of batch entry 0 for all",
        lambda problem: _reads_otherwise(problem, _of_entry_0(problem)),
        _entry_0_for_all,
    ),
    Wrong("beams-moved-in-present", "the past of beams moved in present", _moves_present, _moved),
)
