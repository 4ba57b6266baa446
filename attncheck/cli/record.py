"""The journal of a run as the command line asks for it: begun, or read and gone on from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attncheck.backends.base import Hello
from attncheck.cli.messages import Stop, error
from attncheck.engine import journal
from attncheck.engine.events import BackendReady, CaseFinished, Event, RunStarted
from attncheck.vocabulary import ExitCode


class Record:
    """What is written while a run goes on, and what an earlier run left. Without a file it holds nothing."""

    def __init__(self, file: journal.Journal | None, earlier: tuple[Event, ...] = ()) -> None:
        self._file = file
        self._earlier = earlier
        self._told = {id(event) for event in earlier}
        self.broken = False

    @property
    def finished(self) -> Mapping[str, CaseFinished]:
        """The cases of the earlier run, by id."""
        return {event.origin.id: event for event in self._earlier if isinstance(event, CaseFinished)}

    def _check_started(self, started: RunStarted) -> None:
        """Raise Stop when the earlier run computed under other settings: its results would not be this run's."""
        before = next((event for event in reversed(self._earlier) if isinstance(event, RunStarted)), None)
        if before is None or before.settings == started.settings:
            return
        changed = [
            f"{name} was {before.settings.get(name, 'not said')}, is {started.settings.get(name, 'not said')}"
            for name in sorted({*before.settings, *started.settings})
            if before.settings.get(name) != started.settings.get(name)
        ]
        raise Stop(
            f"cannot resume: {'; '.join(changed)}. Run with the same options, or begin anew with --journal",
            ExitCode.USAGE,
        )

    def _check_ready(self, ready: BackendReady) -> None:
        """Raise Stop when the earlier run had another version or adapter under this backend."""
        for event in self._earlier:
            if isinstance(event, BackendReady) and event.backend == ready.backend:
                before, now = _told(event.hello), _told(ready.hello)
                if before != now:
                    raise Stop(
                        f"cannot resume: {ready.backend} ran on {before}, is on {now}; begin anew with --journal",
                        ExitCode.USAGE,
                    )

    def note(self, event: Event) -> None:
        """Write `event`, unless it is one that the journal holds already. A full disk ends the journal, not the run.

        Raises Stop when it tells that this run does not continue the earlier one.
        """
        if isinstance(event, RunStarted):
            self._check_started(event)
        if isinstance(event, BackendReady):
            self._check_ready(event)
        if self._file is None or self.broken or id(event) in self._told:
            return
        try:
            self._file.write(event)
        except journal.JournalError as failed:
            self.broken = True
            error(f"{failed}; the run goes on without it")


def _told(hello: Hello) -> str:
    """Versions and adapter."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(hello.versions.items()))
    return ", ".join([versions, *([str(hello.device["adapter"])] if "adapter" in hello.device else [])])


@contextmanager
def record(path: str | None, *, resume: bool) -> Iterator[Record]:
    """Open the journal for the length of a run. Raises Stop when it cannot be read or written."""
    if path is None:
        yield Record(None)
        return
    try:
        earlier = journal.read(Path(path)) if resume else ()
        file = journal.Journal(Path(path), resume=resume)
    except journal.JournalError as failed:
        raise Stop(str(failed), ExitCode.USAGE) from None
    with file:
        yield Record(file, earlier)
