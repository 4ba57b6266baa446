"""A picture of a wrong output: where its errors are, what its rows look at, and the numbers around its worst element.

Maps are of the batch entry and the head of the worst element, in at most MOST x MOST cells. A number that JSON cannot
say is a word, so that a picture that was written and read is the same picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attncheck.compare import judge
from attncheck.compare.arithmetic import Compute
from attncheck.compare.difference import Difference, axes
from attncheck.oracle.answer import Answer
from attncheck.oracle.attention import weighed
from attncheck.problem import AnyProblem, Arrays, Problem, RotaryProblem, judged_heads, role_of
from attncheck.scenario.model import Tolerance
from attncheck.tensors.dtypes import dtype, widen

Float = NDArray[np.float64]

MOST = 48
"""Cells along an axis of a map."""

KEYS = 96
"""Cells of the row of scores."""

AROUND = 8
"""Elements whose numbers are told, the worst among them."""

DIGITS = 3
"""Significant digits of what a cell holds: it is looked at, not computed with."""

Number = float | Literal["NaN", "Infinity", "-Infinity"]
Cell = Number | None


@dataclass(frozen=True)
class Mark:
    """Something that begins at an index of an axis."""

    at: int
    words: str


@dataclass(frozen=True)
class Axis:
    """An axis of `size` indices in cells of `step` each, the last of which may hold fewer."""

    name: str
    size: int
    step: int = 1
    marks: tuple[Mark, ...] = ()

    @property
    def starts(self) -> NDArray[np.intp]:
        """The first index of each cell."""
        return np.arange(0, self.size, self.step)


@dataclass(frozen=True)
class Map:
    """What stands in the cells of two axes.

    of     "margin": the largest error / tolerance of a cell; "weight": of all weight that a query gives, the largest
           share that a query of the cell gives to the cell's keys, by the oracle
    head   of which head; None: the largest of all
    cells  row by row; None where nothing is compared, "NaN" where a NaN came for a number, "Infinity" where something
           else came that is not finite, or that is not equal where it must be
    sees   along keys, for each row of cells the keys [low, high) that its queries see together; else empty
    """

    of: Literal["margin", "weight"]
    head: int | None
    rows: Axis
    columns: Axis
    cells: tuple[tuple[Cell, ...], ...]
    sees: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class ScoreRow:
    """What the query of the worst element looks at, by the oracle, key cell by key cell.

    scores   the largest in a cell, before softmax, masks added; None where no key of it is seen
    weights  their sum in a cell, of 1
    sees     the keys [low, high) that intervals let the query see; masks may hide some of them
    """

    keys: Axis
    scores: tuple[Cell, ...]
    weights: tuple[Number, ...]
    sees: tuple[int, int]


@dataclass(frozen=True)
class Numbers:
    """The elements around the worst, along its last axis from index `first` on.

    reference  what the reference backend gave there; empty where it gave nothing to compare
    """

    first: int
    candidate: tuple[Number, ...]
    oracle: tuple[Number, ...]
    tolerance: tuple[Number, ...]
    reference: tuple[Number, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A wrong output; `role`, `output`, `batch`, `head`, `row`, `dim` tell its worst element as a Difference does."""

    role: str
    output: str
    batch: int
    head: int
    row: int
    dim: int
    numbers: Numbers
    maps: tuple[Map, ...]
    scores: ScoreRow | None = None


def picture(
    problem: AnyProblem,
    inputs: Arrays,
    answers: Sequence[Answer],
    outputs: Arrays,
    compute: Compute,
    override: Tolerance | None,
    worst: Difference,
) -> Picture:
    """The picture of the output of which `worst` was said, against the oracle's answers."""
    at = worst.place
    answer = next(it for it in answers if it.output == at.output)
    came = judge.widened(problem, answer, outputs)
    bound = judge.tolerances(answer, dtype(problem.dtype), compute, override)
    got, expected, tolerance, stated = judge.by_place(problem, answer, came, answer.values, bound)
    error, _ = judge.errors(got, expected)
    margin = judge.margins(error, tolerance, stated)
    margin[stated & np.isnan(got) & ~np.isnan(expected)] = np.nan

    first = max(0, min(at.dim - AROUND // 2, got.shape[3] - AROUND))
    shown = (at.batch, at.head, at.row, slice(first, first + AROUND))
    numbers = Numbers(first, *(tuple(map(said, array[shown].tolist())) for array in (got, expected, tolerance)))
    looked = _looked_at(problem, inputs, worst) if worst.role in ("output", "scores") else None
    maps = margin_maps(problem, margin, worst)
    if looked is not None and worst.role == "output":
        maps = (*maps, looked[0])
    row = None if looked is None else looked[1]
    return Picture(worst.role, at.output, at.batch, at.head, at.row, at.dim, numbers, maps, row)


def beside(picture: Picture, problem: AnyProblem, outputs: Arrays) -> Picture:
    """With what another backend gave in the place of the numbers."""
    role = role_of(problem.outputs, picture.output)
    given = judged_heads(widen(outputs[picture.output], role.dtype), role)
    first, count = picture.numbers.first, len(picture.numbers.oracle)
    values = given[picture.batch, picture.head, picture.row, first : first + count].tolist()
    return replace(picture, numbers=replace(picture.numbers, reference=tuple(map(said, values))))


def margin_maps(problem: AnyProblem, margin: Float, worst: Difference) -> tuple[Map, ...]:
    """Margins [batch, heads, rows, dim], -1 where nothing is compared and NaN where a NaN came, as maps."""
    at = worst.place
    member, head, row, dim = (
        _axis(problem, worst, name, size) for name, size in zip(axes(at, worst.role), margin.shape, strict=True)
    )
    own = margin[at.batch]
    sees = _sees(problem, at.batch, row) if dim.name == "key" else ()
    found = (
        Map("margin", None, row, head, _cells(np.max(own, axis=2).T, row, head)),
        Map("margin", at.head, row, dim, _cells(own[at.head], row, dim), sees),
    )
    if len(margin) == 1:
        return found
    return (*found, Map("margin", None, member, head, _cells(np.max(margin, axis=(2, 3)), member, head)))


def said(value: float) -> Number:
    """A number, or the word for one that JSON cannot say."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _rounded(value: float) -> Number:
    return said(float(f"{value:.{DIGITS}g}"))


def _cells(values: Float, rows: Axis, columns: Axis) -> tuple[tuple[Cell, ...], ...]:
    """The largest of each cell; NaN is larger than anything, and what is below 0 stands for nothing."""
    largest = np.maximum.reduceat(np.maximum.reduceat(values, rows.starts, axis=0), columns.starts, axis=1)
    return tuple(tuple(None if it < 0.0 else _rounded(it) for it in row) for row in largest.tolist())


def _step(size: int, most: int) -> int:
    """Indices of a cell: a power of two, so that the edges of tiles are edges of cells."""
    return 1 << max(0, (-(-size // most) - 1).bit_length())


def _axis(problem: AnyProblem, worst: Difference, name: str, size: int, most: int = MOST) -> Axis:
    return Axis(name, size, _step(size, most), tuple(it for it in _marks(problem, worst, name) if 0 < it.at < size))


def _marks(problem: AnyProblem, worst: Difference, name: str) -> list[Mark]:
    """What begins where along an axis."""
    member, role = worst.place.batch, worst.role
    attention = problem if isinstance(problem, Problem) else None
    match name:
        case "head" if role in ("output", "scores"):
            groups = range(problem.group, getattr(problem, "heads", 0), problem.group) if problem.group > 1 else ()
            return [Mark(first, f"query heads of KV head {first // problem.group}") for first in groups]
        case "head" if role == "present" and attention is not None:
            return [Mark(attention.kv_heads, "values")]
        case "query" if attention is not None:
            return [Mark(attention.q_len[member], "padding")]
        case "slot" | "key" if attention is not None and not worst.place.paged:
            first = attention.present_first[member] if name == "slot" else 0
            new, end = attention.past_len[member] - first, attention.kv_len[member] - first
            return [Mark(new, "new keys"), Mark(end, "nothing is kept")]
        case "dim":
            turned = problem.rotary if isinstance(problem, Problem | RotaryProblem) else None
            half = role_of(problem.outputs, worst.place.output).shape[3] // 2
            turns = [Mark(turned.dim, "not turned")] if turned and role in ("present_key", "turned") else []
            return [Mark(half, "upper half"), *turns]
    return []


def _sees(problem: AnyProblem, member: int, rows: Axis) -> tuple[tuple[int, int], ...]:
    """For each cell of query rows the keys [low, high) that they see together; (0, 0): none."""
    if not isinstance(problem, Problem):
        return ()
    interval = problem.visible[member].astype(np.int64)
    seeing = (interval[:, 0] < interval[:, 1]) & problem.stated_rows[member]
    low = np.minimum.reduceat(np.where(seeing, interval[:, 0], problem.capacity), rows.starts)
    high = np.maximum.reduceat(np.where(seeing, interval[:, 1], 0), rows.starts)
    return tuple((int(a), int(b)) if a < b else (0, 0) for a, b in zip(low, high, strict=True))


def _looked_at(problem: AnyProblem, inputs: Arrays, worst: Difference) -> tuple[Map, ScoreRow] | None:
    """The weights of the worst element's head, and the scores of its row; None where there are no keys."""
    at = worst.place
    if not isinstance(problem, Problem) or not problem.kv_len[at.batch]:
        return None
    count = problem.kv_len[at.batch]
    keys, fine = (_axis(problem, worst, "key", count, most) for most in (MOST, KEYS))
    shares = np.full((problem.rows, len(keys.starts)), -1.0)
    scores = weights = np.zeros(count)
    for rows, block, weighs in weighed(problem, inputs, at.batch, at.head):
        shares[rows] = np.add.reduceat(weighs, keys.starts, axis=1)
        if at.row in range(*rows.indices(problem.rows)):
            scores, weights = block[at.row - rows.start], weighs[at.row - rows.start]
    shares[~problem.stated_rows[at.batch]] = -1.0
    rows_axis = _axis(problem, worst, "query", problem.rows)
    every = Axis(keys.name, len(keys.starts))
    cells = _cells(shares, rows_axis, every)
    seen = Map("weight", at.head, rows_axis, keys, cells, _sees(problem, at.batch, rows_axis))
    low, high = (int(it) for it in problem.visible[at.batch, at.row])
    largest = np.maximum.reduceat(scores, fine.starts).tolist()
    return seen, ScoreRow(
        fine,
        tuple(None if it == -math.inf else _rounded(it) for it in largest),
        tuple(_rounded(it) for it in np.add.reduceat(weights, fine.starts).tolist()),
        (low, high) if low < high else (0, 0),
    )
