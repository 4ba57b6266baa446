"""Cases on several backends on demand, by workers that stay warm: a run whose next case somebody else names."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import wait
from functools import partial

from attncheck.backends.base import Backend, BackendUnavailable
from attncheck.engine import run
from attncheck.engine.events import CaseFinished
from attncheck.engine.lane import Lane, end
from attncheck.engine.related import Relating
from attncheck.engine.single import Told


class Warm:
    """A lane a backend. One thread asks and judges; a case that was asked for early is computed meanwhile."""

    def __init__(self, backends: Sequence[Backend], reference: Backend | None, options: run.Options) -> None:
        """`reference` is one of `backends`, or None."""
        self._reference = reference
        self._options = options
        self._lanes = run.lanes(backends, options)
        self._ready: list[Lane] = []
        self._pending: dict[str, run.Pending | Relating | CaseFinished] = {}
        self._finished: dict[str, CaseFinished] = {}

    def start(self, told: Told) -> dict[str, str]:
        """Start every worker, side by side. Gives those that cannot serve here, by name, with the reason."""
        started = [(lane, lane.start(partial(told, lane.backend.name))) for lane in self._lanes]
        failed = {}
        for lane, future in started:
            try:
                future.result()
                self._ready.append(lane)
            except BackendUnavailable as error:
                failed[lane.backend.name] = str(error)
        return failed

    def ask(self, given: run.Given) -> None:
        """Hand a case to every backend, unless that was done before."""
        if given.id not in self._pending and given.id not in self._finished:
            self._pending[given.id] = run.submit(given, self._ready, self._reference, self._options)

    def finished(self, given: run.Given) -> CaseFinished:
        """The case judged on every backend that has started: computed once, however often it is asked for."""
        if given.id not in self._finished:
            self.ask(given)
            pending = self._pending.pop(given.id)
            if not isinstance(pending, CaseFinished):
                wait(pending.futures)
                pending = run.judged(pending, self._reference, self._options)
            if self._options.comparison is not None:
                pending = self._options.comparison.baseline.held(pending)
            self._finished[given.id] = pending
        return self._finished[given.id]

    def end(self) -> None:
        """End every worker now, whatever it does."""
        end(self._lanes)
