"""The ledger: what every candidate came to, asked of workers once, and kept in a journal that a later run reads.

Workers are warm, so that a case may find there what another has left behind. What a case comes to by itself, in a
process that runs no other, is asked, remembered and kept apart.

A search is the same for the same answers, so that running it again over the journal leads to where it was: after
Ctrl-C, after kill -9, and after a budget that was raised.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attncheck.engine.evaluator import Asked, Evaluator
from attncheck.engine.events import Result
from attncheck.minimize.candidate import Candidate
from attncheck.minimize.head import Head
from attncheck.minimize.journal import Journal
from attncheck.minimize.order import simpler
from attncheck.minimize.seen import Seen
from attncheck.minimize.signature import Signature, same
from attncheck.scenario.model import Scenario


class Spent(Exception):
    """The budget is spent: a case could not be run."""


@dataclass(frozen=True)
class Budget:
    """What a search may take: seconds and evaluations, None for no limit."""

    seconds: float | None = None
    evaluations: int | None = None


@dataclass(frozen=True)
class Runs:
    """How often a case is run, and how many of these must fail for it to count as failing: `needed` of `of`."""

    needed: int = 1
    of: int = 1


class Ledger:
    """Answers whether candidates fail, from memory, from the journal or from a worker."""

    def __init__(
        self, evaluator: Evaluator, budget: Budget, *, same_kernel: bool = False, lanes: int = 1, told: Any = None
    ) -> None:
        """`told` is called with the ledger after every evaluation.

        Its `isolated` says whether every case is run in a process that runs no other, `begun` whether its journal is
        written.
        """
        self._evaluator = evaluator
        self._budget = budget
        self._same_kernel = same_kernel
        self._lanes = lanes
        self._told: Callable[[Ledger], None] = told or (lambda _: None)
        self._warm: dict[str, list[Seen]] = {}
        self._alone: dict[str, list[Seen]] = {}
        self._met: dict[tuple[Signature, bool], Candidate] = {}
        self._journal: Journal | None = None
        self._began = time.monotonic()
        self._before = 0.0
        self.runs = Runs()
        self.evaluations = 0
        self.isolated = False
        self.begun = False

    @property
    def seconds(self) -> float:
        """Time taken so far, that of earlier runs over the same journal included."""
        return self._before + time.monotonic() - self._began

    @property
    def left(self) -> float | None:
        """Seconds that are left."""
        return None if self._budget.seconds is None else max(0.0, self._budget.seconds - self.seconds)

    @property
    def others(self) -> dict[Signature, Candidate]:
        """Failures that were met, each with its smallest case; of an isolated ledger those that a case has alone."""
        found: dict[Signature, Candidate] = {}
        for (failure, alone), case in self._met.items():
            if (alone or not self.isolated) and (failure not in found or simpler(case, found[failure])):
                found[failure] = case
        return found

    def keep(self, path: Path, head: Head, like: Scenario, *, afresh: bool = False) -> int:
        """Read the journal at `path`, where there is one, to go on writing it; how many evaluations it held.

        Nothing is written before `begin`. head: what a journal must agree in; afresh: whatever is there is not read,
        and written over. Raises Unfitting, Damaged, OSError.
        """
        self._journal = Journal(path, head)
        if afresh:
            return 0
        for case, seconds, alone, seen in self._journal.read(like):
            self._before = seconds
            self._count(case, seen, alone)
        return self.evaluations

    def begin(self) -> None:
        """Write the journal from now on, with what came before. Raises OSError."""
        self.begun = True
        if self._journal is not None:
            self._journal.begin()

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()

    @contextmanager
    def isolating(self) -> Iterator[None]:
        """Every case by itself for the length of the block."""
        before, self.isolated = self.isolated, True
        try:
            yield
        finally:
            self.isolated = before

    def seen(self, case: Candidate, times: int = 1) -> list[Seen]:
        """What `times` runs of a case came to. Raises Spent."""
        if self.isolated:
            return self.alone(case, times)
        have = self._warm.setdefault(case.content[0], [])
        while len(have) < times:
            self._afford()
            self._note(case, self._evaluator.ask(case.scenario).result())
        return have[:times]

    def alone(self, case: Candidate, times: int, *, afford: bool = True) -> list[Seen]:
        """What `times` runs of a case came to, in a process that ran no other. Raises Spent, unless not `afford`."""
        if len(self._alone.get(case.content[0], ())) < times:
            if afford:
                self._afford(times - 1)
            self._note_alone(case, self._evaluator.alone(case.scenario, times))
        return self._alone[case.content[0]][:times]

    def first(self, cases: Iterable[Candidate], wanted: Signature) -> Candidate | None:
        """The first of `cases` that fails as `wanted`, evaluated side by side. Raises Spent."""
        # Closed here and not by the collector, which would swallow a Ctrl-C that comes while the rest is awaited.
        with closing(self._side_by_side(cases)) as found:
            for case, seen in found:
                if self._fails(case, seen, wanted):
                    return case
        return None

    def fails(self, case: Candidate, wanted: Signature) -> bool:
        """Whether a case fails as `wanted`, in as many of its runs as are asked for. Raises Spent."""
        return self._fails(case, self.seen(case)[0], wanted)

    def _fails(self, case: Candidate, seen: Seen, wanted: Signature) -> bool:
        if self.runs.of == 1:
            return seen.failure is not None and same(wanted, seen.failure)
        hits = 0
        for run in range(self.runs.of):
            failure = self.seen(case, self.runs.of if self.isolated else run + 1)[run].failure
            hits += failure is not None and same(wanted, failure)
            if hits >= self.runs.needed or hits + self.runs.of - run - 1 < self.runs.needed:
                break
        return hits >= self.runs.needed

    def _side_by_side(self, cases: Iterable[Candidate]) -> Generator[tuple[Candidate, Seen], None, None]:
        """Each case with what it came to, in order, with as many in the workers' hands as there are.

        What is asked is noted even where the one before it was what was looked for: it is paid for.
        """
        waiting: deque[tuple[Candidate, list[Asked]]] = deque()
        asked: set[str] = set()
        times = self.runs.of if self.isolated else 1
        try:
            for case in cases:
                digest = case.content[0]
                if len(self._known(digest)) >= times or digest in asked:
                    waiting.append((case, []))
                else:
                    self._afford((len(asked) + 1) * times - 1)
                    asked.add(digest)
                    waiting.append((case, self._asked(case, times)))
                while sum(bool(it) for _, it in waiting) >= self._lanes or (waiting and not waiting[0][1]):
                    yield self._taken(waiting, asked)
            while waiting:
                yield self._taken(waiting, asked)
        finally:
            while waiting:
                self._taken(waiting, asked)

    def _asked(self, case: Candidate, times: int) -> list[Asked]:
        if self.isolated:
            return self._evaluator.alone(case.scenario, times)
        return [self._evaluator.ask(case.scenario)]

    def _taken(
        self, waiting: deque[tuple[Candidate, list[Asked]]], asked: set[str]
    ) -> tuple[Candidate, Seen]:
        case, pending = waiting.popleft()
        if pending:
            if self.isolated:
                self._note_alone(case, pending)
            else:
                self._note(case, pending[0].result())
            asked.discard(case.content[0])
        return case, self._known(case.content[0])[0]

    def _known(self, digest: str) -> list[Seen]:
        return (self._alone if self.isolated else self._warm).get(digest, [])

    def _afford(self, more: int = 0) -> None:
        if self._budget.evaluations is not None and self.evaluations + more >= self._budget.evaluations:
            raise Spent
        if self.left == 0.0:
            raise Spent

    def _note_alone(self, case: Candidate, asked: Iterable[Asked]) -> None:
        for run, each in enumerate(asked, 1):
            self._note(case, each.result(), run)

    def _note(self, case: Candidate, result: Result, alone: int = 0) -> None:
        seen = Seen.of(result, kernels=self._same_kernel)
        if self._journal is not None:
            self._journal.note({"case": case.text, "seconds": round(self.seconds, 3), "alone": alone, **asdict(seen)})
        self._count(case, seen, alone)
        self._told(self)

    def _count(self, case: Candidate, seen: Seen, alone: int) -> None:
        """Remember a run; `alone` is which one it was in a process that runs no other case, 0 in a warm one."""
        self.evaluations += 1
        digest = case.content[0]
        if alone == 1:
            self._alone[digest] = []
        (self._alone if alone else self._warm).setdefault(digest, []).append(seen)
        if seen.failure is not None:
            known = self._met.get((seen.failure, bool(alone)))
            if known is None or simpler(case, known):
                self._met[seen.failure, bool(alone)] = case
