"""What stands below the table: how to see the failures again, the counts, and the one summary line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attncheck.engine.events import Counts, RunFinished
from attncheck.reports.lines import BLANK, STATUS_ROLES, Line, Role, Span, line
from attncheck.reports.numbers import seconds
from attncheck.vocabulary import Flag, Status, Verdict


def summary(finished: RunFinished) -> Line:
    """Write the last line, ``128 passed, 2 failed, 1 xfailed in 9.4s``; cases are counted, kinds without one left out."""
    spans: list[Span] = []
    for status, count in _by_status(finished.counts).items():
        if count:
            spans += [Span(", ")] * bool(spans) + [Span(f"{count} {status}", STATUS_ROLES[status])]
    if not spans:
        spans.append(Span("nothing ran", "caution"))
    if finished.interrupted:
        spans.append(Span(", interrupted", "bad"))
    return Line((*spans, Span(f" in {seconds(finished.seconds)}")))


def counts(verdicts: Mapping[Verdict, int], flags: Mapping[Flag, int]) -> list[Line]:
    """Count results, not cases: a case gives one a backend."""
    lines = []
    if verdicts:
        told = [(str(verdict), verdicts[verdict], _role(verdict)) for verdict in Verdict if verdicts.get(verdict)]
        lines.append(_tally("results", told))
    if any(flags.values()):
        lines.append(_tally("flags", [(str(flag), flags[flag], "caution") for flag in Flag if flags.get(flag)]))
    return lines


def reproduce(commands: Iterable[str]) -> list[Line]:
    """The commands that run each failing case alone."""
    lines = [line(f"  {command}") for command in commands]
    return [line("To run a failing case alone:", "heading"), *lines, BLANK] if lines else []


def _tally(title: str, told: Iterable[tuple[str, int, Role]]) -> Line:
    spans = [Span(f"{title:9}")]
    for word, count, role in told:
        spans += [Span(", ")] * (len(spans) > 1) + [Span(f"{count} {word}", role)]
    return Line(tuple(spans))


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
    return "caution" if verdict is Verdict.UNSUPPORTED else "bad"
