"""The reports that ``--report`` asks for: events kept while a run goes on, files written when it ends, in any way."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from attncheck.cli.messages import Stop, error
from attncheck.engine.events import Event
from attncheck.engine.files import write_whole
from attncheck.reports.formats import writer
from attncheck.vocabulary import ExitCode


@dataclass(frozen=True)
class Wish:
    """One report: its format, and the file, or None for stdout."""

    format: str
    path: Path | None

    @classmethod
    def read(cls, text: str) -> Wish:
        """Read ``json=FILE``, or ``json`` for stdout; the option has checked the format."""
        name, _, path = text.partition("=")
        return cls(name, Path(path) if path and path != "-" else None)


class Reports:
    """The events of a run, and the reports to make of them."""

    def __init__(self, wishes: Sequence[Wish]) -> None:
        self._wishes = wishes
        self._events: list[Event] = []
        self.broken = False

    @property
    def take_stdout(self) -> bool:
        """Whether a report is to stand on stdout, in the place of the table."""
        return any(wish.path is None for wish in self._wishes)

    def note(self, event: Event) -> None:
        """Keep `event`, where there is a report to make."""
        if self._wishes:
            self._events.append(event)

    def write(self) -> None:
        """Write every report. What cannot be written is said, and `broken` is set: the run itself stands."""
        if not self._wishes:
            return
        from attncheck.reports.document import report

        document = report(self._events)
        for wish in self._wishes:
            text = writer(wish.format)(document)
            if wish.path is None:
                sys.stdout.write(text)
                continue
            try:
                write_whole(wish.path, text.encode())
            except OSError as failed:
                self.broken = True
                error(f"cannot write the report {wish.path}: {failed.strerror or failed}")


def check_writable(paths: Iterable[Path]) -> None:
    """Raise Stop (exit code 2) for a file in a folder that is not there: it is known before anything is run."""
    for path in paths:
        if path.is_dir() or not path.absolute().parent.is_dir():
            wrong = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
            raise Stop(f"cannot write the report {path}: {wrong}\nnothing was run", ExitCode.USAGE)


@contextmanager
def reports(wishes: Sequence[Wish]) -> Iterator[Reports]:
    """Keep events for the length of a run and write the reports at its end, also where Ctrl-C ended it at once.

    Raises Stop (exit code 2) for a file in a folder that is not there, before anything is run.
    """
    check_writable(wish.path for wish in wishes if wish.path is not None)
    if sum(wish.path is None for wish in wishes) > 1:
        raise Stop("two reports cannot share stdout: give one a file, as in --report json=FILE", ExitCode.USAGE)
    kept = Reports(wishes)
    try:
        yield kept
    finally:
        kept.write()
