"""From results to statuses, counts and the exit code."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from attncheck.engine.events import Counts, RunFinished
from attncheck.vocabulary import PRECEDENCE, ExitCode, Flag, Status, Verdict

_OF_VERDICT = {
    Verdict.PASS: Status.PASSED,
    Verdict.UNSUPPORTED: Status.SKIPPED,
    Verdict.QUARANTINED: Status.SKIPPED,
}
WORST_FIRST = (Status.FAILED, Status.XPASSED, Status.XFAILED, Status.PASSED, Status.SKIPPED)


def of_verdict(verdict: Verdict) -> Status:
    """A result's status as long as nothing is expected of it."""
    return _OF_VERDICT.get(verdict, Status.FAILED)


class Judged(Protocol):
    """A result, or what a report keeps of one."""

    @property
    def status(self) -> Status:
        """Its status after expectations."""

    @property
    def reference(self) -> bool:
        """Whether it is the reference's."""


def of_case(results: Sequence[Judged]) -> Status:
    """A case's status: its worst result's; skipped when no candidate took it and the reference has nothing to say."""
    statuses = {result.status for result in results}
    candidates = {result.status for result in results if not result.reference}
    worst = next(status for status in WORST_FIRST if status in statuses)
    untested = candidates == {Status.SKIPPED}
    return Status.SKIPPED if untested and worst in {Status.PASSED, Status.XFAILED} else worst


def tally(statuses: Mapping[Status, int]) -> Counts:
    """Cases by status."""
    return Counts(**{status.value: statuses.get(status, 0) for status in WORST_FIRST})


def untested(counts: Counts) -> bool:
    """Whether no case was tested: all were skipped, or there was none."""
    return not (counts.passed or counts.xfailed or counts.failed or counts.xpassed)


def exit_code(
    finished: RunFinished,
    unavailable: Collection[str] = (),
    flags: Collection[Flag] = (),
    fail_on: Collection[Flag] = (),
    exit_zero: bool = False,
    partial: bool = False,
) -> ExitCode:
    """The exit code of a run, as the table in docs/exit-codes.md says.

    unavailable  backends that could not start; flags: every flag seen on a result; fail_on: flags that fail the run
    exit_zero    turns FAILED into OK, and nothing else
    partial      the run is one part of several: that nothing was tested in it is no fault, others test the rest
    """
    counts = finished.counts
    applies = {
        ExitCode.INTERRUPTED: finished.interrupted,
        ExitCode.FAILED: not exit_zero and bool(counts.failed or counts.xpassed or set(flags) & set(fail_on)),
        ExitCode.BACKEND: bool(unavailable),
        ExitCode.NOTHING: not partial and untested(counts),
    }
    return next((code for code in PRECEDENCE if applies.get(code, False)), ExitCode.OK)
