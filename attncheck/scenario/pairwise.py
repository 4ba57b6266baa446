"""A few rows in which every pair of values meets that can: a covering array of strength 2 under constraints.

The rows are built one at a time, as Cohen, Dalal, Fredman and Patton do in "The AETG System: An Approach to Testing
Based on Combinatorial Design" (1997): begin with a pair that has not met yet, then give every other factor the value
that meets most new ones, and keep the best of some such rows. Dead ends are left by backjumping: a factor that has no
value left says which factors are to blame, and the search goes back to the last of those. So every pair that can be met
is, and one that cannot is proved so, without looking at all combinations.

The order of trying comes from a fixed integer hash: the same factors give the same rows everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from operator import itemgetter
from typing import Any

CANDIDATES = 6
"""Rows to choose each row from: twice as many take twice the time, and save two rows of a hundred."""
STARTS = 16
"""Arrays to choose from, at most."""
EFFORT = 3600
"""Pairs of values, or so, until an array is chosen: where there are many, there are fewer arrays."""
ASKED = 64
"""Combinations up to which a constraint is asked beforehand whether it refuses any."""
LEARNED = 2
"""Factors whose values are remembered as a dead end, at most."""
FREE = -1


@dataclass(frozen=True)
class Constraint:
    """A rule over some factors: whether their values, in the order of `scope`, may stand in one row."""

    scope: tuple[int, ...]
    allows: Callable[[tuple[int, ...]], bool]


@dataclass(frozen=True)
class Covering:
    """Rows of value indices, one a factor, in ascending order; and the (factor, value) that no row can have."""

    rows: tuple[tuple[int, ...], ...]
    unusable: tuple[tuple[int, int], ...]


def covering(sizes: Sequence[int], constraints: Sequence[Constraint]) -> Covering:
    """Rows in which every two values of different factors meet that `constraints` let meet at all.

    sizes  how many values each factor has
    """
    values = sum(sizes)
    kept = [one for one in constraints if not _refuses_nothing(one, sizes)]
    asked: list[Asked] = [{} for _ in kept]
    starts = range(max(1, min(STARTS, EFFORT // max(1, values * values))))
    rows = min((set(_Array(sizes, kept, asked, start).rows()) for start in starts), key=len)
    used = {(factor, value) for row in rows for factor, value in enumerate(row)}
    every = ((factor, value) for factor, size in enumerate(sizes) for value in range(size))
    return Covering(tuple(sorted(rows)), tuple(one for one in every if one not in used))


def _refuses_nothing(constraint: Constraint, sizes: Sequence[int]) -> bool:
    """Whether a constraint with few combinations to ask for lets all of them stand."""
    scope = [range(sizes[factor]) for factor in constraint.scope]
    return prod(map(len, scope)) <= ASKED and all(map(constraint.allows, product(*scope)))


Asked = dict[Any, bool]
"""What a constraint said of values, as a pick takes them out of a row."""


def _pick(scope: Sequence[int]) -> Callable[[Sequence[int]], Any]:
    """Takes the values of `scope` out of a row: what is asked for most often, so that nothing is written in Python."""
    return itemgetter(*scope) if scope else lambda _: ()


class _Array:
    """What has not met yet: `open[v]` holds a bit for each value that `v` has still to meet, itself included.

    Values of all factors are numbered through: value j of factor f is `first[f] + j`. `asked` keeps what the
    constraints said of values; each `start` tries in another order.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        constraints: Sequence[Constraint],
        asked: Sequence[Asked],
        start: int,
    ) -> None:
        self.sizes = sizes
        self.factors = range(len(sizes))
        self.first = [sum(sizes[:factor]) for factor in self.factors]
        self.factor_of = [factor for factor in self.factors for _ in range(sizes[factor])]
        self.constraints = list(constraints)
        self.picks = [_pick(one.scope) for one in constraints]
        self.learned: dict[tuple[int, ...], int] = {}
        self.asked = list(asked)
        self.number = start << 16
        everything = (1 << len(self.factor_of)) - 1
        own = [((1 << size) - 1) << first for size, first in zip(sizes, self.first, strict=True)]
        self.open = [everything & ~own[factor] | 1 << value for value, factor in enumerate(self.factor_of)]

    def rows(self) -> Iterator[tuple[int, ...]]:
        """Rows until nothing is open that can be."""
        while any(self.open):
            best: tuple[int, ...] = ()
            for _ in range(CANDIDATES):
                self.number += 1
                search = _Search(self, self._seed(self.number), self.number)
                blamed = search.fill()
                if blamed is not None:
                    self._give_up(search.seed, blamed)
                    break
                best = max(best, tuple(search.row), key=self._gain)
            if best:
                self._close(best)
                yield tuple(value - self.first[factor] for factor, value in enumerate(best))

    def refusing(self, due: Iterable[int], row: Sequence[int]) -> int | None:
        """The first constraint of `due` that refuses the values of `row`; each combination is asked for once."""
        for index in due:
            known, values = self.asked[index], self.picks[index](row)
            allowed = known.get(values)
            if allowed is None:
                constraint = self.constraints[index]
                own = tuple(row[factor] - self.first[factor] for factor in constraint.scope)
                allowed = known[values] = constraint.allows(own)
            if not allowed:
                return index
        return None

    def learn(self, factors: Collection[int], row: Sequence[int]) -> None:
        """The values that `factors` have in `row` leave no way: a constraint of the next searches, if a small one."""
        if len(factors) > LEARNED:
            return
        scope = tuple(sorted(factors))
        index = self.learned.get(scope)
        if index is None:
            index = self.learned[scope] = len(self.constraints)
            self.constraints.append(Constraint(scope, lambda _: True))
            self.picks.append(_pick(scope))
            self.asked.append({})
        self.asked[index][self.picks[index](row)] = False

    def _seed(self, number: int) -> dict[int, int]:
        """Factors and values to begin a row with: one that has to meet most others, and one of those."""
        counts = [left.bit_count() for left in self.open]
        most = max(counts)
        one = max((value for value, count in enumerate(counts) if count == most), key=partial(_mixed, number))
        others = [value for value in _bits(self.open[one]) if value != one] or [one]
        other = max(others, key=partial(_mixed, number))
        return {self.factor_of[value]: value for value in (one, other)}

    def _gain(self, row: Sequence[int]) -> int:
        """How many values of `row` meet for the first time, each pair counted twice."""
        held = sum(1 << value for value in row)
        return sum((self.open[value] & held).bit_count() for value in row)

    def _close(self, row: Sequence[int]) -> None:
        held = sum(1 << value for value in row)
        for value in row:
            self.open[value] &= ~held

    def _give_up(self, seed: dict[int, int], blamed: frozenset[int]) -> None:
        """Nothing has the values of `seed` together; where one alone is to blame, it has no row at all."""
        guilty = [value for factor, value in seed.items() if factor in blamed]
        if len(guilty) == 2:
            one, other = guilty
            self.open[one] &= ~(1 << other)
            self.open[other] &= ~(1 << one)
            return
        lost = sum(1 << value for value in (guilty or range(len(self.open))))
        self.open = [0 if lost >> value & 1 else left & ~lost for value, left in enumerate(self.open)]


class _Search:
    """Fills one row: the factors of `seed` first, the others in an order that `number` shuffles."""

    def __init__(self, array: _Array, seed: dict[int, int], number: int) -> None:
        self.array = array
        self.seed = seed
        self.number = number
        others = (factor for factor in array.factors if factor not in seed)
        self.order = [*seed, *sorted(others, key=partial(_mixed, number))]
        place = {factor: at for at, factor in enumerate(self.order)}
        self.due: list[list[int]] = [[] for _ in self.order]
        """The constraints that can be asked once a place of the order has its value."""
        for index, constraint in enumerate(array.constraints):
            self.due[max((place[factor] for factor in constraint.scope), default=0)].append(index)
        self.row = [FREE] * len(self.order)

    def fill(self, at: int = 0, held: int = 0) -> frozenset[int] | None:
        """Give the factors from `at` on their values: None, or the factors before whose values leave no way."""
        if at == len(self.order):
            return None
        factor = self.order[at]
        blamed: set[int] = set()
        for value in self._values(factor, held):
            self.row[factor] = value
            refusing = self.array.refusing(self.due[at], self.row)
            if refusing is not None:
                blamed.update(self.array.constraints[refusing].scope)
                continue
            deeper = self.fill(at + 1, held | 1 << value)
            if deeper is None or factor not in deeper:
                return deeper
            blamed |= deeper
        if factor in self.seed:  # it has no other value to try, and is to blame itself
            return frozenset(blamed)
        blamed.discard(factor)
        self.array.learn(blamed, self.row)
        return frozenset(blamed)

    def _values(self, factor: int, held: int) -> Sequence[int]:
        """The values to try, those first that meet most of `held` anew."""
        if factor in self.seed:
            return (self.seed[factor],)
        first, met = self.array.first[factor], self.array.open
        values = range(first, first + self.array.sizes[factor])
        return sorted(values, key=lambda value: (-(met[value] & held).bit_count(), _mixed(self.number, value)))


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _mixed(number: int, factor: int) -> int:
    """An integer that looks random, the same everywhere: one step of splitmix64."""
    mixed = ((number << 20 | factor) * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & (1 << 64) - 1
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
    return mixed ^ mixed >> 31
