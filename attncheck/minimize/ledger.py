"""The ledger: what every candidate came to, asked of warm workers once, and kept in a journal that a later run reads.

A search is the same for the same answers, so that running it again over the journal leads to where it was: after
Ctrl-C, after kill -9, and after a budget that was raised.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from attncheck.engine.evaluator import Asked, Evaluator
from attncheck.engine.events import Result
from attncheck.minimize.candidate import Candidate, of_text
from attncheck.minimize.order import simpler
from attncheck.minimize.signature import Signature, same, signature
from attncheck.scenario.model import Scenario

FORMAT = 1


class Spent(Exception):
    """The budget is spent: a case could not be run."""


class Unfitting(Exception):
    """A journal belongs to another start, backend or setting. The message says what differs."""


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


@dataclass(frozen=True)
class Seen:
    """What a case came to: how it fails, None where it does not, and the verdict in a word."""

    failure: Signature | None
    verdict: str


class Ledger:
    """Answers whether candidates fail, from memory, from the journal or from a worker."""

    def __init__(
        self, evaluator: Evaluator, budget: Budget, *, same_kernel: bool = False, lanes: int = 1, told: Any = None
    ) -> None:
        """`told` is called with the ledger after every evaluation."""
        self._evaluator = evaluator
        self._budget = budget
        self._same_kernel = same_kernel
        self._lanes = lanes
        self._told: Callable[[Ledger], None] = told or (lambda _: None)
        self._seen: dict[str, list[Seen]] = {}
        self._file: FileIO | None = None
        self._began = time.monotonic()
        self._before = 0.0
        self.runs = Runs()
        self.evaluations = 0
        self.others: dict[Signature, Candidate] = {}

    @property
    def seconds(self) -> float:
        """Time taken so far, that of earlier runs over the same journal included."""
        return self._before + time.monotonic() - self._began

    @property
    def left(self) -> float | None:
        """Seconds that are left."""
        return None if self._budget.seconds is None else max(0.0, self._budget.seconds - self.seconds)

    def keep(self, path: Path, head: Mapping[str, Any], like: Scenario) -> int:
        """Read the journal at `path`, where there is one, and go on writing it; how many evaluations it held.

        head: what a journal must agree in. Raises Unfitting, OSError.
        """
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith(b"\n")]
        if whole:
            found = json.loads(whole[0])
            differing = [name for name, value in {"minimize": FORMAT, **head}.items() if found.get(name) != value]
            if differing:
                raise Unfitting(
                    ", ".join(f"{name} was {found.get(name)}, is {head.get(name, FORMAT)}" for name in differing)
                )
        for line in whole[1:]:
            self._remember(json.loads(line), like)
        with path.open("ab") as file:
            file.truncate(sum(map(len, whole)))
        self._file = path.open("ab", buffering=0)
        if not whole:
            self._write({"minimize": FORMAT, **head})
        return self.evaluations

    def close(self) -> None:
        """Close the journal."""
        if self._file is not None:
            self._file.close()

    def seen(self, case: Candidate, times: int = 1, *, afford: bool = True) -> list[Seen]:
        """What `times` runs of a case came to. Raises Spent, unless they need not be afforded."""
        have = self._seen.setdefault(case.content[0], [])
        while len(have) < times:
            if afford:
                self._afford()
            self._note(case, self._evaluator.ask(case.scenario).result())
        return have[:times]

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
            failure = self.seen(case, run + 1)[run].failure
            hits += failure is not None and same(wanted, failure)
            if hits >= self.runs.needed or hits + self.runs.of - run - 1 < self.runs.needed:
                break
        return hits >= self.runs.needed

    def _side_by_side(self, cases: Iterable[Candidate]) -> Generator[tuple[Candidate, Seen], None, None]:
        """Each case with what it came to, in order, with as many in the workers' hands as there are.

        What is asked is noted even where the one before it was what was looked for: it is paid for.
        """
        waiting: deque[tuple[Candidate, Asked | None]] = deque()
        asked: set[str] = set()
        try:
            for case in cases:
                digest = case.content[0]
                if self._seen.get(digest) or digest in asked:
                    waiting.append((case, None))
                else:
                    self._afford(len(asked))
                    asked.add(digest)
                    waiting.append((case, self._evaluator.ask(case.scenario)))
                while sum(it is not None for _, it in waiting) >= self._lanes or (waiting and waiting[0][1] is None):
                    yield self._taken(waiting, asked)
            while waiting:
                yield self._taken(waiting, asked)
        finally:
            while waiting:
                self._taken(waiting, asked)

    def _taken(
        self, waiting: deque[tuple[Candidate, Asked | None]], asked: set[str]
    ) -> tuple[Candidate, Seen]:
        case, pending = waiting.popleft()
        if pending is not None:
            self._note(case, pending.result())
            asked.discard(case.content[0])
        return case, self._seen[case.content[0]][0]

    def _afford(self, more: int = 0) -> None:
        if self._budget.evaluations is not None and self.evaluations + more >= self._budget.evaluations:
            raise Spent
        if self.left == 0.0:
            raise Spent

    def _note(self, case: Candidate, result: Result) -> None:
        failure = signature(result, kernels=self._same_kernel)
        seen = Seen(failure, str(result.verdict))
        self._write({"case": case.text, "seconds": round(self.seconds, 3), **asdict(seen)})
        self._count(case, seen)
        self._told(self)

    def _count(self, case: Candidate, seen: Seen) -> None:
        self.evaluations += 1
        self._seen.setdefault(case.content[0], []).append(seen)
        if seen.failure is not None:
            known = self.others.get(seen.failure)
            if known is None or simpler(case, known):
                self.others[seen.failure] = case

    def _write(self, data: Mapping[str, Any]) -> None:
        if self._file is not None:
            line = json.dumps(data, separators=(",", ":")).encode() + b"\n"
            if self._file.write(line) != len(line):
                raise OSError(28, os.strerror(28))

    def _remember(self, data: dict[str, Any], like: Scenario) -> None:
        failure = None if data["failure"] is None else Signature.read(data["failure"])
        self._before = data["seconds"]
        self._count(of_text(data["case"], like), Seen(failure, data["verdict"]))
