"""What stands below the table: how to see the failures again, the counts, and the one summary line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attncheck.engine.events import Counts, RunFinished
from attncheck.reports.lines import BLANK, STATUS_ROLES, Line, Role, Span, line
from attncheck.reports.numbers import seconds
from attncheck.vocabulary import Flag, Status, Verdict

REPRODUCED = 8
"""Commands that are spelled out; whoever has more failing cases reads the rows."""


def summary(finished: RunFinished) -> Line:
    """Write the last line, ``128 passed, 2 failed, 1 xfailed in 9.4s``; cases are counted, empty kinds left out."""
    spans: list[Span] = []
    for status, count in _by_status(finished.counts).items():
        if count:
            spans += [Span(", ")] * bool(spans) + [Span(f"{count} {status}", STATUS_ROLES[status])]
    if not spans:
        spans.append(Span("nothing ran", "caution"))
    if finished.interrupted:
        spans.append(Span(", interrupted", "bad"))
    return Line((*spans, Span(f" in {seconds(finished.seconds)}")))


def counts(verdicts: Mapping[str, Mapping[Verdict, int]], flags: Mapping[Flag, int], width: int | None) -> list[Line]:
    """Count results, not cases: verdicts backend by backend, and flags."""
    told: dict[str, list[Span]] = {
        backend: [Span(f"{found[verdict]} {verdict}", _role(verdict)) for verdict in Verdict if found.get(verdict)]
        for backend, found in verdicts.items()
    }
    told["flags"] = [Span(f"{flags[flag]} {flag}", "caution") for flag in Flag if flags.get(flag)]
    indent = max(map(len, told)) + 2
    return [row for title, spans in told.items() if spans for row in _tally(title.ljust(indent), spans, width)]


def reproduce(commands: Iterable[str], shrink: str = "") -> list[Line]:
    """The commands that run each failing case alone, of many the first ones; and the one that shrinks one of them."""
    told = list(commands)
    lines = [line(f"  {command}") for command in told[:REPRODUCED]]
    if len(told) > REPRODUCED:
        lines.append(line(f"  and {len(told) - REPRODUCED} more, each by its id"))
    if shrink:
        lines += [line("To shrink a failing case:", "heading"), line(f"  {shrink}")]
    return [line("To run a failing case alone:", "heading"), *lines, BLANK] if lines else []


def _tally(title: str, spans: Sequence[Span], width: int | None) -> list[Line]:
    """`title` and the comma-separated `spans`, continued on further lines where they do not fit."""
    lines: list[list[Span]] = [[Span(title)]]
    for number, span in enumerate(spans, start=1):
        comma = Span(", " if number < len(spans) else "")
        if width is not None and sum(len(it.text) for it in (*lines[-1], span)) + 1 > width:
            lines.append([Span(" " * len(title))])
        lines[-1] += [span, comma]
    return [Line(tuple(it)) for it in lines]


def _by_status(it: Counts) -> dict[Status, int]:
    return {
        Status.PASSED: it.passed,
        Status.FAILED: it.failed,
        Status.XFAILED: it.xfailed,
        Status.XPASSED: it.xpassed,
        Status.SKIPPED: it.skipped,
    }


def _role(verdict: Verdict) -> Role:
    if verdict is Verdict.PASS:
        return "good"
    return "caution" if verdict in {Verdict.UNSUPPORTED, Verdict.QUARANTINED} else "bad"
