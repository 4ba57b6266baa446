"""The failures of a document, and each of them in a line: what the short formats tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attncheck.engine.events import RunFinished
from attncheck.reports.document import Report
from attncheck.reports.entries import CaseEntry, DifferenceEntry, ResultEntry
from attncheck.reports.numbers import margin, number
from attncheck.reports.summary import summary
from attncheck.vocabulary import Status, Verdict

FAILING = (Status.FAILED, Status.XPASSED)
"""Statuses that make a run fail."""


@dataclass(frozen=True)
class Failure:
    """A result that makes the run fail, and its case."""

    case: CaseEntry
    result: ResultEntry

    @property
    def commands(self) -> dict[str, str]:
        """What to run next, by what it does; nothing where the commands are not known."""
        every = {"to run it alone": self.case.reproduce, "to shrink it": self.result.minimize}
        return {what: command for what, command in every.items() if command}


def failures(report: Report) -> Iterator[Failure]:
    """The failures, in the order of the cases."""
    return (Failure(case, it) for case in report.cases for it in case.results if it.status in FAILING)


def counts(report: Report) -> str:
    """The last line of the report on the terminal: `128 passed, 2 failed in 9.4s`."""
    return summary(RunFinished(report.counts, report.seconds, report.interrupted)).text


def label(result: ResultEntry) -> str:
    """Backend and kernel: `wgsl online`."""
    return f"{result.backend} {result.kernel}".rstrip()


def headline(result: ResultEntry) -> str:
    """One result in a line: its verdict with the worst numbers, its message, or what was expected instead."""
    if result.status is Status.XPASSED or (result.status is Status.FAILED and result.verdict is Verdict.PASS):
        said = "; ".join(result.explanation) or result.message
        return f"{result.status}: {said}" if said else str(result.status)
    if result.status is Status.XFAILED and result.expected is not None:
        link = f" ({result.expected.link})" if result.expected.link else ""
        return f"{result.status}: {result.expected.reason}{link}"
    worst = told(result)
    if worst is not None and result.verdict is not Verdict.PASS:
        return (
            f"{result.verdict}: error {number(worst.error)}, tolerance {number(worst.tolerance)}, "
            f"margin {margin(worst.margin)} at {worst.where}"
        )
    return ": ".join(filter(None, (str(result.verdict), result.message)))


def told(result: ResultEntry) -> DifferenceEntry | None:
    """The difference to name: the worst against the oracle where one is out of tolerance, else the worst of all."""
    wrong = [it for it in result.differences if it.against == "oracle" and not it.passed]
    return max(wrong or result.differences, key=lambda it: it.margin, default=None)
