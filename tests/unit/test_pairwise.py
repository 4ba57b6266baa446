"""Pairwise rows: every pair that can meet does, as brute force knows it, in about as few rows as are published."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncheck.scenario.pairwise import Constraint, covering

Table = tuple[tuple[int, ...], frozenset[tuple[int, ...]]]
"""A scope, and the values over it that are refused."""


@st.composite
def tables(draw: st.DrawFn, sizes: list[int]) -> Table:
    scope = tuple(draw(st.permutations(range(len(sizes))))[: draw(st.integers(0, min(3, len(sizes))))])
    every = list(product(*(range(sizes[factor]) for factor in scope)))
    return scope, frozenset(draw(st.lists(st.sampled_from(every), max_size=max(1, len(every) - 1))))


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[int], list[Table]]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    return sizes, draw(st.lists(tables(sizes), max_size=5))


def constraint(table: Table) -> Constraint:
    return Constraint(table[0], lambda values: values not in table[1])


def is_possible(row: tuple[int, ...], refused: list[Table]) -> bool:
    return all(tuple(row[factor] for factor in scope) not in values for scope, values in refused)


def pairs(rows: Any) -> set[Any]:
    return {pair for row in rows for pair in combinations(enumerate(row), 2)}


@given(problems())
@settings(max_examples=100)
def test_exactly_the_possible_pairs_meet_in_possible_rows(problem: tuple[list[int], list[Table]]) -> None:
    sizes, refused = problem
    possible = [row for row in product(*map(range, sizes)) if is_possible(row, refused)]

    found = covering(sizes, [constraint(table) for table in refused])

    assert set(found.rows) <= set(possible)
    assert pairs(found.rows) == pairs(possible)
    usable = {one for row in possible for one in enumerate(row)}
    assert {one for row in found.rows for one in enumerate(row)} == usable
    every = {(factor, value) for factor, size in enumerate(sizes) for value in range(size)}
    assert set(found.unusable) == every - usable
    assert list(found.rows) == sorted(set(found.rows))


@pytest.mark.parametrize(("sizes", "most"), [
    # The six systems that pairwise.org compares the tools by, and the rows that those have (the least, the most).
    ([3] * 4, 11),  # 9, 11
    ([3] * 13, 19),  # 15, 20
    ([4] * 15 + [3] * 17 + [2] * 29, 43),  # 34, 41
    ([4] + [3] * 39 + [2] * 35, 30),  # 26, 30
    ([2] * 100, 16),  # 10, 16
    ([10] * 20, 231),  # 180, 231
    # Two factors that need every combination of theirs, 56, and others that fit beside them.
    ([8, 7, 3, 3, 2, 2, 2], 60),
    ([2, 2, 2], 4),
    ([5], 5),
    ([1, 1, 1], 1),
])  # fmt: skip
def test_rows_are_about_as_few_as_are_published(sizes: list[int], most: int) -> None:
    found = covering(sizes, [])

    assert len(found.rows) <= most
    assert pairs(found.rows) == pairs_of_all(sizes)


def pairs_of_all(sizes: list[int]) -> set[Any]:
    factors = combinations(enumerate(sizes), 2)
    return {((f, a), (g, b)) for (f, m), (g, n) in factors for a in range(m) for b in range(n)}


def test_a_dead_end_far_from_its_cause_is_left_without_trying_all_between() -> None:
    """The last of 22 factors stands against the first alone: chronological backtracking would try 3^20 rows."""
    asked = 0

    def differ(values: tuple[int, ...]) -> bool:
        nonlocal asked
        asked += 1
        return values[0] != 0

    found = covering([2, *[3] * 20, 1], [Constraint((0, 21), differ)])

    assert found.unusable == ((0, 0),)
    assert asked < 10


def test_nothing_possible_gives_no_rows() -> None:
    found = covering([2, 2], [Constraint((), lambda _: False)])

    assert found.rows == ()
    assert found.unusable == ((0, 0), (0, 1), (1, 0), (1, 1))


def test_the_rows_are_the_same_everywhere() -> None:
    """Frozen: ids of cases, and what is kept under them, follow from the rows."""
    found = covering([3, 3, 2], [Constraint((0, 2), lambda values: values != (2, 1))])

    assert found.rows == FROZEN


FROZEN = (
    (0, 0, 1), (0, 1, 1), (0, 2, 0), (1, 0, 0), (1, 1, 1), (1, 2, 1), (2, 0, 0), (2, 1, 0), (2, 2, 0)
)  # fmt: skip
