"""Between which versions something changes: a search over an ordered list, which asks as few as it can. Pure.

Where the ends differ and it changes once, that takes log2(n) + 2 questions at most. Where an answer is neither that of
the one end nor of the other, or the ends agree and one between does not, there are several changes: each that is seen
is narrowed down, and the search says that it is not monotone.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """Two versions with different answers, and nothing between them but what gave none: `untold`."""

    before: str
    after: str
    was: str
    becomes: str
    untold: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bisection:
    """What was asked, in the order of the versions (None: no answer), and the changes that this shows."""

    asked: tuple[tuple[str, str | None], ...]
    changes: tuple[Change, ...]

    @property
    def monotone(self) -> bool:
        """Whether no more than one change was seen."""
        return len(self.changes) <= 1


class _Search:
    """The versions with the answers so far."""

    def __init__(self, versions: Sequence[str], ask: Callable[[str], str | None]) -> None:
        self.versions = versions
        self._ask = ask
        self._answers: dict[int, str | None] = {}

    def answer(self, at: int) -> str | None:
        if at not in self._answers:
            self._answers[at] = self._ask(self.versions[at])
        return self._answers[at]

    def first(self, places: Iterable[int]) -> int | None:
        """The first of `places` that has an answer."""
        return next((at for at in places if self.answer(at) is not None), None)

    def between(self, low: int, high: int) -> int | None:
        """The place nearest to the middle, without the ends, that has an answer."""
        middle = (low + high) // 2
        return self.first(sorted(range(low + 1, high), key=lambda at: (abs(at - middle), at)))

    def narrowed(self, low: int, high: int) -> list[Change]:
        """Every change between two places that can be seen without asking where both sides agree."""
        was, becomes = self.answer(low), self.answer(high)
        if was is None or becomes is None or was == becomes:
            return []
        middle = self.between(low, high)
        if middle is not None:
            return [*self.narrowed(low, middle), *self.narrowed(middle, high)]
        return [Change(self.versions[low], self.versions[high], was, becomes, tuple(self.versions[low + 1 : high]))]

    def odd_one(self, low: int, high: int) -> int | None:
        """A place between two that agree which does not, looked for in as many places as a bisection would ask."""
        spans, left = deque([(low, high)]), math.ceil(math.log2(max(2, high - low + 1)))
        while spans and left:
            start, end = spans.popleft()
            middle = self.between(start, end)
            if middle is None:
                continue
            if self.answer(middle) != self.answer(low):
                return middle
            left -= 1
            spans += [(start, middle), (middle, end)]
        return None

    def found(self, changes: list[Change]) -> Bisection:
        asked = tuple((self.versions[at], self._answers[at]) for at in sorted(self._answers))
        return Bisection(asked, tuple(changes))


def bisect(versions: Sequence[str], ask: Callable[[str], str | None]) -> Bisection:
    """Search `versions`, oldest first.

    ask   what a version gives, None where that cannot be told; each version is asked once at most
    """
    search = _Search(versions, ask)
    low = search.first(range(len(versions)))
    high = search.first(reversed(range(len(versions))))
    if low is None or high is None or low == high:
        return search.found([])
    if search.answer(low) != search.answer(high):
        return search.found(search.narrowed(low, high))
    odd = search.odd_one(low, high)
    if odd is None:
        return search.found([])
    return search.found([*search.narrowed(low, odd), *search.narrowed(odd, high)])
