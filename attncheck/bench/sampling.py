"""Some query rows of a problem, so that the oracle can judge a case whose scores would take it minutes.

A row of attention depends on its own query and on the keys that it sees: the sampled rows, posed as a problem of their
own, have exactly the answer that they have among the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.problem import Arrays, Problem, Tensor

ROWS = 64
"""Query rows of every head that are judged where not all are."""

SCORES = 1 << 24
"""Scores of a case up to which all rows are judged."""

CACHE = 1 << 26
"""Elements of keys of a case up to which all batch entries are judged; of more, the first and the last."""

_GOLDEN = 0.6180339887498949
"""Its multiples, less their whole parts, lie evenly wherever they are broken off."""


@dataclass(frozen=True)
class Sample:
    """Which query rows of which batch entries are judged, of every head."""

    members: tuple[int, ...]
    rows: tuple[int, ...]
    of_members: int
    of_rows: int

    @property
    def whole(self) -> bool:
        """Whether nothing is left out."""
        return len(self.members) == self.of_members and len(self.rows) == self.of_rows

    @property
    def words(self) -> str:
        """What is judged: "all rows", "64 of 4096 rows a head", "1 row a head of 2 of 8 batch entries"."""
        if self.whole:
            return "all rows"
        few = len(self.rows) < self.of_rows
        rows = f"{len(self.rows)} of {self.of_rows} rows a head" if few else "all rows"
        if len(self.members) == self.of_members:
            return rows
        return f"{rows} of {len(self.members)} of {self.of_members} batch entries"


def sample(problem: Problem) -> Sample:
    """All of a small problem, and of one that cannot be cut; of another the rows at its edges and some between."""
    everything = Sample(tuple(range(problem.batch)), tuple(range(problem.rows)), problem.batch, problem.rows)
    if not _can_be_cut(problem):
        return everything
    scores = problem.batch * problem.heads * problem.rows * problem.capacity
    elements = problem.batch * problem.kv_heads * problem.capacity * problem.head_dim
    rows = everything.rows if scores <= SCORES else chosen_rows(problem.rows)
    members = everything.members if elements <= CACHE else tuple(sorted({0, problem.batch - 1}))
    return replace(everything, rows=rows, members=members)


def chosen_rows(count: int, wanted: int = ROWS) -> tuple[int, ...]:
    """`wanted` of so many rows: the first and the last ones, those at both sides of powers of two, others evenly."""
    if count <= wanted:
        return tuple(range(count))
    powers = [1 << power for power in range(2, count.bit_length())]
    edges = [0, 1, count - 1, count - 2, *(at for power in powers for at in (power - 1, power, count - power))]
    found = dict.fromkeys(at for at in edges if 0 <= at < count)
    kept = set(list(found)[:wanted])
    spread = (int((step + 1) * _GOLDEN * count) % count for step in range(4 * wanted))
    for at in (*spread, *range(count)):
        if len(kept) == wanted:
            break
        kept.add(at)
    return tuple(sorted(kept))


def cut(problem: Problem, inputs: Arrays, sampled: Sample) -> tuple[Problem, dict[str, NDArray[np.generic]]]:
    """The sampled rows as a problem of their own, with its inputs; it gives out no presents."""
    members = np.array(sampled.members)
    count = len(sampled.rows)

    def of_members(lengths: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(lengths[member] for member in sampled.members)

    smaller = replace(
        problem,
        batch=len(members),
        rows=count,
        q_len=(count,) * len(members),
        past_len=of_members(problem.past_len),
        new_len=of_members(problem.new_len),
        visible=problem.visible[members][:, sampled.rows],
        present_key=None,
        present_value=None,
    )
    kept: dict[str, NDArray[np.generic]] = dict(inputs)
    for tensor in (problem.query, problem.key, problem.value, problem.past_key, problem.past_value):
        if tensor is not None:
            kept[tensor.name] = inputs[tensor.name][members]
    kept[problem.query.name] = of_rows(kept[problem.query.name], problem.query, sampled)
    return smaller, kept


def of_output(problem: Problem, outputs: Mapping[str, NDArray[np.generic]], sampled: Sample) -> Arrays:
    """The sampled rows of the output."""
    array = outputs[problem.output.name][np.array(sampled.members)]
    return {problem.output.name: of_rows(array, problem.output, sampled)}


def of_rows(array: NDArray[Any], tensor: Tensor, sampled: Sample) -> NDArray[Any]:
    """The sampled rows of an array of query rows."""
    return np.take(array, sampled.rows, axis=2 if tensor.layout == "bnsh" else 1)


def _can_be_cut(problem: Problem) -> bool:
    """Whether rows can be taken out: where nothing but the intervals and the position of a row tells them apart."""
    tensors = (problem.query, problem.key, problem.value, problem.past_key, problem.past_value, problem.output)
    plain = all(it is None or (it.layout in ("bsnh", "bnsh") and not it.packed) for it in tensors)
    every_row = all(length == problem.rows for length in problem.q_len)
    more = (problem.rotary, problem.norm, problem.projection, problem.scores, problem.quantised, problem.evicts)
    return plain and every_row and not problem.masks and all(it is None for it in more)
