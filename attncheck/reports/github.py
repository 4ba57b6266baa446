"""The report for GitHub Actions: annotations at the scenarios' lines, as workflow commands.

GitHub shows ten errors of a step and drops the others without a word: where there are more, the tenth says how many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attncheck.reports.brief import Failure, counts, failures, headline, label
from attncheck.reports.document import Report
from attncheck.reports.numbers import plural

MOST = 10
"""Annotations of one kind that GitHub keeps of a step."""

TITLE_LIMIT, MESSAGE_LIMIT = 255, 2**15
"""Characters of a title that GitHub takes, and of a message that anybody reads; it takes 64 KiB of one."""

SUMMARY_LIMIT = 2**20
"""Bytes that GitHub takes as the summary of a step; of a larger one it shows nothing."""


@dataclass(frozen=True)
class Annotation:
    """One error: its message and title, and the place where there is one."""

    title: str
    message: str
    file: str = ""
    line: int = 0

    @property
    def text(self) -> str:
        """The workflow command, one line."""
        place = {"file": self.file, "line": str(self.line)} if self.file and self.line else {}
        told = {**place, "title": _short(self.title, TITLE_LIMIT)}
        properties = ",".join(f"{key}={_property(value)}" for key, value in told.items())
        return f"::error {properties}::{_data(_short(self.message, MESSAGE_LIMIT))}\n"


def text(report: Report) -> str:
    """At most ten workflow commands; none for a run in which nothing failed."""
    every = [*_run(report), *map(_failure, failures(report))]
    if len(every) > MOST:
        kept = every[: MOST - 1]
        more = f"and {plural(len(every) - len(kept), 'error')} more: see the log"
        every = [*kept, Annotation(f"attncheck: {counts(report)}", more)]
    return "".join(it.text for it in every)


def _run(report: Report) -> Iterator[Annotation]:
    """What is wrong with the run as a whole."""
    for backend in report.backends:
        if not backend.started:
            yield Annotation(f"backend {backend.name} could not start", backend.message)
    if report.interrupted:
        missing = report.selected - len(report.cases)
        yield Annotation("the run was interrupted", f"{plural(missing, 'case')} of {report.selected:,} are missing")


def _failure(it: Failure) -> Annotation:
    lines = [headline(it.result), *(text for text in it.result.explanation if text not in headline(it.result))]
    lines += [f"{what}: {command}" for what, command in it.commands.items()]
    place = (it.case.file, it.case.line) if it.case.written else ("", 0)
    return Annotation(f"{it.case.id} on {label(it.result)}", "\n".join(lines), *place)


def _short(words: str, most: int) -> str:
    words = words.encode(errors="backslashreplace").decode()  # half a pair, which UTF-8 cannot say
    return words if len(words) <= most else words[: most - 1] + "…"


def _data(words: str) -> str:
    """What stands behind the last colons: a line, in which % must not begin a code."""
    return words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(words: str) -> str:
    """The value of a property, which a comma or a colon would end."""
    return _data(words).replace(":", "%3A").replace(",", "%2C")
