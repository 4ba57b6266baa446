"""The table: rows as the cases come, grouped under the file they are written in.

`Table.lines(event)` gives the lines that an event adds. What it says depends on the events alone, and on the layout,
the level of detail and the way to write a command that were fixed before the first one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import IntEnum

from attncheck.engine.events import (
    BackendFailed,
    BackendReady,
    CaseFinished,
    Compared,
    Event,
    Result,
    RunFinished,
)
from attncheck.reports import compared, describe, explanation, failure, rows, summary
from attncheck.reports.device import facts
from attncheck.reports.layout import Cells, Layout, file_of
from attncheck.reports.lines import BLANK, STATUS_ROLES, Line, line, paragraph
from attncheck.reports.numbers import margin, number, plural
from attncheck.reports.strip import BLOCKS
from attncheck.vocabulary import Flag, Status, Verdict

DETAIL_INDENT = "    "


class Detail(IntEnum):
    """How much a report says."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


class Table:
    """Turns events into lines; remembers the file whose group is open, and what the end of the run must repeat."""

    def __init__(
        self,
        layout: Layout,
        detail: Detail,
        command: Callable[[str, Sequence[Result]], str],
        shrink: Callable[[str, str], str] | None = None,
        inspect: Callable[[str, str], str] | None = None,
        ramp: str = BLOCKS,
    ) -> None:
        """What stands below the rows, and how.

        command   runs the case of an id that has these results
        shrink    where there is such a command, shrinks it on a backend; inspect: shows the whole of its result there
        ramp      the characters of a strip
        """
        self._inspect = inspect
        self._ramp = ramp
        self._layout = layout
        self._detail = detail
        self._command = command
        self._shrink = shrink
        self._to_shrink = ""
        self._file: str | None = None
        self._starred = False
        self._instead: Counter[str] = Counter()
        self._failed: list[str] = []
        self._unavailable: list[str] = []
        self._verdicts: dict[str, Counter[Verdict]] = {}
        self._flags: Counter[Flag] = Counter()

    def lines(self, event: Event) -> list[Line]:
        """The lines that `event` adds to the report."""
        if isinstance(event, BackendReady):
            return facts(event.backend, event.hello) if self._detail is Detail.VERBOSE else []
        if isinstance(event, BackendFailed):
            self._unavailable.append(event.backend)
            return []
        if isinstance(event, CaseFinished):
            return self._case(event)
        if isinstance(event, Compared):
            return compared.lines(event, self._layout.width)
        if isinstance(event, RunFinished):
            return self._end(event)
        return []

    def _case(self, event: CaseFinished) -> list[Line]:
        for result in event.results:
            self._verdicts.setdefault(result.backend, Counter())[result.verdict] += 1
        self._flags.update(flag for result in event.results for flag in result.flags)
        failing = rows.failures(event.results)
        if failing:
            self._failed.append(self._command(event.origin.id, event.results))
            self._note_what_to_shrink(event, failing)
        shown = rows.visible(event.results, every=self._detail is Detail.VERBOSE)
        if self._detail is Detail.QUIET:
            shown = failing
        if not shown:
            return []
        lines = self._heading(file_of(event.origin.id))
        for result in shown:
            lines += self._result(result)
        if self._detail is Detail.VERBOSE:
            lines += paragraph(describe.origin(event.origin), self._layout.width, DETAIL_INDENT)
        return lines

    def _note_what_to_shrink(self, event: CaseFinished, failing: Sequence[Result]) -> None:
        """The first that `minimize` takes."""
        candidate = next((it.backend for it in failing if rows.shrinks(it, event.origin)), None)
        if self._shrink is not None and not self._to_shrink and candidate:
            self._to_shrink = self._shrink(event.origin.id, candidate)

    def _heading(self, file: str) -> list[Line]:
        if file == self._file:
            return []
        first = self._file is None
        self._file = file
        heading = self._layout.heading(file)
        return [heading] if first and self._detail is not Detail.VERBOSE else [BLANK, heading]

    def _result(self, result: Result) -> list[Line]:
        self._starred |= result.auto
        self._instead[result.instead] += bool(result.instead)
        note = _note(result)
        lines = [self._layout.row(_cells(result, note))]
        if note and not self._layout.notes_in_row:
            lines.append(line(DETAIL_INDENT + note, "caution"))
        return lines + self._explanation(result)

    def _explanation(self, result: Result) -> list[Line]:
        """What a row cannot hold: of a failure the six lines that say most, and to whom wants it all that there is."""
        if self._detail is not Detail.VERBOSE and result.fails:
            command = self._inspect(result.case, result.backend) if self._inspect is not None else ""
            return failure.lines(result, self._layout.width, self._ramp, command)
        lines: list[Line] = []
        for text in explanation.lines(result, verbose=self._detail is Detail.VERBOSE):
            lines += paragraph(text, self._layout.width, DETAIL_INDENT, hanging="  ")
        if result.status is not Status.XFAILED or self._detail is Detail.VERBOSE:
            lines += [line(f"{DETAIL_INDENT}| {text}") for text in explanation.last_words(result)]
        return lines

    def _end(self, event: RunFinished) -> list[Line]:
        lines = [BLANK] if self._file is not None else []
        lines += summary.reproduce(self._failed, self._to_shrink)
        if self._detail is not Detail.QUIET:
            lines += summary.counts(self._verdicts, self._flags, self._layout.width)
            if self._starred:
                lines.append(line(f"{describe.AUTO_MARK} {describe.AUTO_MEANING}"))
            for why, count in (+self._instead).most_common():
                said = f"{describe.INSTEAD_MARK} in its place: {why} ({plural(count, 'case')})"
                lines += paragraph(said, self._layout.width, "", hanging="  ")
        lines += [line(f"backend {name} could not start: none of its results are here") for name in self._unavailable]
        return [*lines, summary.summary(event)]


def _note(result: Result) -> str:
    """What stands beside the verdict: that the reference refused, or that wrong numbers are somebody's reading."""
    if rows.refused(result):
        return "reference refused"
    return str(Flag.DISPUTED) if Flag.DISPUTED in result.flags and result.verdict is not Verdict.PASS else ""


def _cells(result: Result, note: str) -> Cells:
    foreseen = result.status in {Status.XFAILED, Status.XPASSED}
    verdict = str(result.status if foreseen else result.verdict)
    numbers = ("", "", "")
    worst = rows.told(result)
    if worst is not None:
        numbers = (number(worst.error), number(worst.tolerance), margin(worst.margin))
    role = STATUS_ROLES[result.status]
    return Cells(result.case, describe.label(result), *numbers, verdict=verdict, role=role, note=note)
