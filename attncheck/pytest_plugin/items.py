"""A scenario file, and each of its cases on each backend, as pytest's own nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from attncheck.cli.messages import Stop, unstarted
from attncheck.engine.events import Result
from attncheck.engine.run import AHEAD, Given
from attncheck.pytest_plugin import WORKERS
from attncheck.reports import rows
from attncheck.reports.layout import name_of
from attncheck.reports.lines import STYLES, Line
from attncheck.reports.numbers import margin
from attncheck.scenario.load import EXPECTATIONS, SUFFIXES
from attncheck.scenario.model import Scenario
from attncheck.vocabulary import Status

if TYPE_CHECKING:
    from attncheck.pytest_plugin.workers import Workers


class Failed(Exception):
    """A result that fails the session, with what the table says of it."""

    def __init__(self, message: str, lines: Sequence[Line]) -> None:
        super().__init__(message)
        self.lines = lines


@dataclass(frozen=True)
class Crash:
    """Where a failure is written, and in one line what it is."""

    path: str
    lineno: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.lineno}: {self.message}"


@dataclass(frozen=True)
class Told:
    """The text of a failure, which pytest's terminal shows in the table's colours and sums up in its last lines.

    `reprcrash` and `toterminal` are what pytest looks for.
    """

    lines: Sequence[Line]
    reprcrash: Crash

    def __str__(self) -> str:
        return "\n".join(line.text for line in self.lines)

    def toterminal(self, writer: Any) -> None:
        """Write the lines."""
        for line in self.lines:
            for span in line.spans:
                writer.write(span.text, **dict.fromkeys(STYLES[span.role].split(), True))
            writer.line()


class ScenarioFile(pytest.File):
    """A scenario file."""

    @classmethod
    def of(cls, path: Path, parent: pytest.Collector) -> ScenarioFile | None:
        """The file, where it may hold scenarios."""
        if path.suffix not in SUFFIXES or path.name == EXPECTATIONS or path.name.startswith("."):
            return None
        file: ScenarioFile = cls.from_parent(parent, path=path)
        return file

    def collect(self) -> Iterator[CaseItem]:
        """An item for each case on each backend. Raises CollectError with every mistake of the file."""
        workers = self.config.stash[WORKERS]
        try:
            cases = workers.cases(self.path, named=self.session.isinitpath(self.path))
        except Stop as stop:
            raise self.CollectError(str(stop)) from None
        for case in cases:
            for backend in workers.names:
                name = f"{name_of(case.id)}[{backend}]"
                yield CaseItem.from_parent(self, name=name, case=case, backend=backend, workers=workers)


class CaseItem(pytest.Item):
    """One case on one backend."""

    def __init__(self, *, case: Given, backend: str, workers: Workers, **node: Any) -> None:
        super().__init__(**node)
        self.case = case
        self._backend = backend
        self._workers = workers
        tags = case.tags if isinstance(case, Scenario) else ()
        self.extra_keyword_matches.update(tags)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the case is written, and its id."""
        line = self.case.source.line if isinstance(self.case, Scenario) else 1
        return self.path, line - 1, f"{self.case.id} on {self._backend}"

    def setup(self) -> None:
        """Fail where the backend cannot start: pytest counts that as an error, not as a failed test."""
        why = self._workers.failure(self._backend)
        if why:
            pytest.fail(unstarted(self._backend, why), pytrace=False)

    def runtest(self) -> None:
        """Run the case unless that was done for another backend; say pytest what it came to here."""
        result, lines = self._workers.result(self.case, self._backend, self._later())
        self._note(result)
        expected = result.expected
        if result.status is Status.SKIPPED:
            raise pytest.skip.Exception(result.message or str(result.verdict), _use_item_location=True)
        if result.status is Status.XFAILED and expected is not None:
            # With --runxfail this does nothing, and the failure is told as any other.
            pytest.xfail(f"{expected.reason} ({expected.link})")
        flagged = [flag for flag in result.flags if flag in self._workers.wanted.fail_on]
        if result.status is not Status.PASSED or flagged:
            raise Failed(self._summary(result, flagged), lines)

    def _note(self, result: Result) -> None:
        """What JUnit files and other plugins are told of a result beside its outcome."""
        worst = rows.told(result)
        told = {"verdict": str(result.verdict), "flags": " ".join(map(str, result.flags)), "kernel": result.kernel}
        if worst is not None:
            told["margin"] = margin(worst.margin)
        self.user_properties += [(name, value) for name, value in told.items() if value]

    @staticmethod
    def _summary(result: Result, flagged: Sequence[object]) -> str:
        if flagged:
            return f"flagged {', '.join(map(str, flagged))}"
        if result.status is Status.XPASSED:
            return "passes where an expectation says that it fails"
        why = result.diagnosis or result.message
        return f"{result.verdict}: {why.splitlines()[0]}" if why else str(result.verdict)

    def _later(self) -> Iterator[Given]:
        """The cases whose items follow, as far as a run would have them in the backends' hands.

        A process of pytest-xdist is told its items one by one: there this knows of none.
        """
        if hasattr(self.config, "workerinput"):
            return iter(())
        items = self.session.items
        after = (it.case for it in islice(items, items.index(self) + 1, None) if isinstance(it, CaseItem))
        return islice((case for case in after if case.id != self.case.id), AHEAD * len(self._workers.names))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *more: Any, **options: Any) -> Any:
        """The table's lines for a result, the traceback for a fault of our own."""
        if isinstance(excinfo.value, Failed):
            path, line, _ = self.reportinfo()
            return Told(excinfo.value.lines, Crash(str(path), line + 1, str(excinfo.value)))
        return super().repr_failure(excinfo, *more, **options)
