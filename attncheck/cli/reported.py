"""The reports that ``--report`` asks for: events kept while a run goes on, files written when it ends, in any way."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncheck import __version__
from attncheck.cli import actions
from attncheck.cli.messages import Stop, error
from attncheck.engine.events import Counts, Event, RunFinished, RunStarted
from attncheck.engine.files import write_whole
from attncheck.reports.formats import writer
from attncheck.vocabulary import ExitCode

if TYPE_CHECKING:
    from attncheck.reports.document import Report


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
        self._unasked = actions.unasked([wish.format for wish in wishes])
        self._events: list[Event] = []
        self.broken = False

    @property
    def take_stdout(self) -> bool:
        """Whether a report is to stand on stdout, in the place of the table."""
        return any(wish.path is None for wish in self._wishes)

    def note(self, event: Event) -> None:
        """Keep `event`, where there is a report to make."""
        if self._wishes or self._unasked:
            self._events.append(event)

    def write(self) -> None:
        """Write every report. What cannot be written is said, and `broken` is set: the run itself stands."""
        if not self._wishes and not self._unasked:
            return
        from attncheck.reports.document import report

        document = report(self._events)
        self.broken = not write(document, self._wishes)
        if self._unasked:
            sys.stderr.write(actions.annotated(document))
            actions.summarise(document)


def write(document: Report, wishes: Sequence[Wish]) -> bool:
    """Write the reports that are wished for; whether all could be. What could not is said."""
    whole = True
    for wish in wishes:
        text = actions.annotated(document) if wish.format == actions.FORMAT else writer(wish.format)(document)
        whole = put(wish.path, text) and whole
        if wish.path is None and wish.format == actions.FORMAT:
            actions.summarise(document)
    return whole


def put(path: Path | None, text: str) -> bool:
    """Write one report, to stdout where it has no file; whether it could be. What could not is said."""
    if path is None:
        sys.stdout.write(text)
        return True
    try:
        write_whole(path, text.encode())
    except OSError as failed:
        error(f"cannot write the report {path}: {failed.strerror or failed}")
        return False
    return True


NOT_RUN = "nothing was run"


def check(wishes: Sequence[Wish], then: str = NOT_RUN) -> None:
    """Raise Stop (exit code 2) for what cannot be: a file in a folder that is not there, two reports on one stdout."""
    check_writable((wish.path for wish in wishes if wish.path is not None), then)
    if sum(wish.path is None for wish in wishes) > 1:
        raise Stop("two reports cannot share stdout: give one a file, as in --report json=FILE", ExitCode.USAGE)


def check_writable(paths: Iterable[Path], then: str = NOT_RUN) -> None:
    """Raise Stop (exit code 2) for a file in a folder that is not there: it is known before anything is run.

    then   what the message says was not done
    """
    for path in paths:
        if path.is_dir() or not path.absolute().parent.is_dir():
            wrong = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
            raise Stop(f"cannot write the report {path}: {wrong}\n{then}", ExitCode.USAGE)


@contextmanager
def reports(wishes: Sequence[Wish]) -> Iterator[Reports]:
    """Keep events for the length of a run and write the reports at its end, also where Ctrl-C ended it at once.

    Raises Stop (exit code 2) for what cannot be written, before anything is run.
    """
    check(wishes)
    kept = Reports(wishes)
    try:
        yield kept
    finally:
        kept.write()


@contextmanager
def also_of_nothing(given: Mapping[str, Any]) -> Iterator[None]:
    """Write the reports of a call also where its words select no case: whoever reads them finds an empty run."""
    try:
        yield
    except Stop as stop:
        if stop.code is not ExitCode.NOTHING or given["list"]:
            raise
        with reports(tuple(map(Wish.read, given["report"]))) as kept:
            kept.note(RunStarted(0, (), None, {"attncheck": __version__}))
            kept.note(RunFinished(Counts(), 0.0))
        raise Stop(str(stop), ExitCode.INTERNAL if kept.broken else stop.code) from None
