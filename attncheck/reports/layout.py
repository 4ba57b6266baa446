"""The columns of the table: their widths are fixed before the first row, so that rows can be printed as they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attncheck.reports.lines import Line, Role, Span, shorten, usual_head

INDENT = "  "
LABEL = 12
"""Room for backend and kernel, as in ``wgsl online*``."""
ERROR, TOLERANCE, MARGIN = 9, 8, 8
"""Widths of the number columns, with the blanks before them."""
VERDICT = 9
"""The longest verdict that comes with numbers (``nonfinite``); on a terminal, longer ones reach into the margin's
column, which is empty for them."""
NOTE = "  reference refused"
KERNEL = " online*"
"""The longest kernel behind a backend's name."""
SMALLEST_ID = 12
WIDEST_ID = 60
"""Of an unlimited line: an id is whole there, and one that is longer moves the rest of its own row only."""


def file_of(case: str) -> str:
    """The part of a case id before its ``::``; empty for a case that stands in no file."""
    return case.rpartition("::")[0]


def name_of(case: str) -> str:
    """The part of a case id behind its ``::``."""
    return case.rpartition("::")[2]


@dataclass(frozen=True)
class Cells:
    """The text of one row, column by column; `case` is the whole id."""

    case: str
    label: str
    error: str
    tolerance: str
    margin: str
    verdict: str
    role: Role = "plain"
    note: str = ""


@dataclass(frozen=True)
class Layout:
    """Widths in characters: the whole line (None: unlimited), the id column, the backend column.

    names  case id -> what stands for it in its file's group, short enough for the column
    """

    width: int | None
    name: int
    label: int
    notes_in_row: bool
    names: Mapping[str, str]

    @classmethod
    def fit(cls, ids: Iterable[str], backends: Iterable[str], width: int | None) -> Layout:
        """Give the id column what it needs, or what `width` leaves; notes stand in the row where they fit."""
        ids = tuple(ids)
        longest = max((max(len(name_of(case)), len(file_of(case)) - len(INDENT)) for case in ids), default=SMALLEST_ID)
        longest = max(longest, SMALLEST_ID)
        columns = [len(name) for name in backends]
        whole = max([LABEL, *(column + len(KERNEL) for column in columns)])
        if width is None:
            return cls(None, min(longest, WIDEST_ID), whole, notes_in_row=True, names=_shortened(ids, longest))
        fixed = len(INDENT) + 2 + ERROR + TOLERANCE + MARGIN + 2 + VERDICT
        label = whole if longest + whole + fixed <= width else max([LABEL, *columns])
        room = width - label - fixed
        if longest + len(NOTE) <= room:
            return cls(width, longest, label, notes_in_row=True, names=_shortened(ids, longest))
        name = max(SMALLEST_ID, min(longest, room))
        return cls(width, name, label, notes_in_row=False, names=_shortened(ids, name))

    def heading(self, file: str) -> Line:
        """The first line of a file's group: its name, and the titles of the columns."""
        room = self.name + len(INDENT)
        name = file or "command line"
        name = (name if self.width is None else shorten(name, room)).ljust(room)
        titles = "".join(
            (
                "  " + "backend".ljust(self.label),
                "error".rjust(ERROR),
                "tol".rjust(TOLERANCE),
                "margin".rjust(MARGIN),
                "  verdict",
            )
        )
        return Line((Span(name, "heading"), Span(titles, "title")))

    def row(self, cells: Cells) -> Line:
        """One row; only ids are ever shortened, never a number."""
        numbers = (
            cells.error.rjust(ERROR) + cells.tolerance.rjust(TOLERANCE) + cells.margin.rjust(MARGIN) + "  "
        )
        excess = len(cells.verdict) - VERDICT
        if self.width is not None and excess > 0 and numbers.endswith(" " * excess):
            numbers = numbers[:-excess]
        spans = [
            Span(INDENT + self.names[cells.case].ljust(self.name) + "  "),
            Span(shorten(cells.label, self.label).ljust(self.label)),
            Span(numbers),
            Span(cells.verdict, cells.role),
        ]
        if cells.note and self.notes_in_row:
            spans.append(Span("  " + cells.note, "caution"))
        return Line(tuple(spans))


def _shortened(ids: Sequence[str], width: int) -> dict[str, str]:
    """Shorten the names of each file's cases at one place, if there is one, that keeps all of them different."""
    files: dict[str, list[str]] = {}
    for case in ids:
        files.setdefault(file_of(case), []).append(case)
    return {case: short for cases in files.values() for case, short in _distinct(cases, width).items()}


def _distinct(cases: Sequence[str], width: int) -> dict[str, str]:
    usual = usual_head(width)
    heads = sorted(range(1, width - 2), key=lambda head: (head > usual, abs(head - usual)))
    for head in heads:
        names = {case: shorten(name_of(case), width, head) for case in cases}
        if len(set(names.values())) == len(names):
            return names
    return {case: shorten(name_of(case), width) for case in cases}
