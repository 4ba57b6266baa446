"""What the exit code of a run depends on, and what is said beside it."""

from __future__ import annotations

from attncheck.cli.messages import error, progress
from attncheck.engine import status
from attncheck.engine.baseline import Baseline
from attncheck.engine.events import BackendFailed, CaseFinished, Event, RunFinished
from attncheck.reports.numbers import plural
from attncheck.vocabulary import ExitCode, Flag


class Seen:
    """Follows the events of a run."""

    def __init__(
        self, fail_on: frozenset[Flag], baseline: Baseline | None, *, exit_zero: bool, partial: bool
    ) -> None:
        """As `engine.status.exit_code` takes them; a flag that `baseline` has already fails nothing."""
        self._fail_on = fail_on
        self._baseline = baseline
        self._exit_zero = exit_zero
        self._partial = partial
        self._unavailable: list[str] = []
        self._flags: dict[Flag, list[str]] = {}
        self._finished: RunFinished | None = None

    def note(self, event: Event) -> None:
        """Take an event of the run."""
        if isinstance(event, BackendFailed):
            self._unavailable.append(event.backend)
        elif isinstance(event, CaseFinished):
            for flag in self._flags_of(event):
                self._flags.setdefault(flag, []).append(event.origin.id)
        elif isinstance(event, RunFinished):
            self._finished = event

    def _flags_of(self, event: CaseFinished) -> set[Flag]:
        if self._baseline is not None:
            return self._baseline.new_flags(event)
        return {flag for result in event.results for flag in result.flags}

    def code(self) -> ExitCode:
        """Say what the table does not, and give the exit code."""
        assert self._finished is not None, "the engine's last event is RunFinished"
        for flag in (it for it in Flag if it in self._fail_on and it in self._flags):
            ids = self._flags[flag]
            have = "has" if len(ids) == 1 else "have"
            more = ", ..." if len(ids) > 1 else ""
            error(f"--fail-on {flag}: {plural(len(ids), 'case')} {have} this flag, {ids[0]}{more}")
        code = status.exit_code(
            self._finished,
            self._unavailable,
            self._flags,
            fail_on=self._fail_on,
            exit_zero=self._exit_zero,
            partial=self._partial,
        )
        if code is ExitCode.OK and status.untested(self._finished.counts):
            progress("this part tested nothing, which is no fault: the other parts run the rest of the selection")
        if code is ExitCode.NOTHING:
            error("every case was skipped: unsupported or quarantined everywhere, so nothing was tested")
        return code
