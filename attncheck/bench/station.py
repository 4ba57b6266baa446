"""A backend's worker while it is timed: one process a backend, asked in turn, replaced when it is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from attncheck.backends import environments
from attncheck.backends.base import Backend, BackendUnavailable, Evidence, Hello, Launch, Outcome, Request
from attncheck.bench import adapter
from attncheck.bench.waking import Waking
from attncheck.engine.worker import Worker, WorkerFailed
from attncheck.graph.case import Case
from attncheck.vocabulary import Verdict

Answer = TypeVar("Answer")


class Station:
    """The worker of one backend. Nothing else computes while it does: the caller asks one station at a time.

    waking   shared by those that are timed beside each other
    """

    def __init__(
        self, backend: Backend, time_limit: float, memory_limit: int | None, waking: Waking | None = None
    ) -> None:
        self._backend = backend
        self._waking = waking or Waking()
        self._time_limit = time_limit
        self._memory_limit = memory_limit
        self._launch: Launch | None = None
        self._worker: Worker | None = None
        self._lock = threading.Lock()
        self._killed = False
        self.generation = 0
        """Counts the workers: what one has prepared, the next has not."""

    def start(self, note: environments.Note) -> Hello:
        """Start the worker, after making its environment where it has one to be made. Raises BackendUnavailable."""
        self._launch = environments.ready(self._backend.launch(), note)
        hello = self._live().hello
        self._backend.check(hello)
        self.hello = adapter.told(hello, self._launch)
        return self.hello

    def prepare(self, payload: Mapping[str, Any]) -> int:
        """A handle. Raises WorkerFailed."""
        try:
            worker = self._live()
        except BackendUnavailable as error:
            raise WorkerFailed(Verdict.ERROR, f"could not start again: {error}") from error
        return self._asked(lambda: worker.prepare(payload, self._time_limit), keep=True)

    def run(self, handle: int, request: Request, case: Case) -> Outcome:
        """One run of a prepared request with every check, as an outcome: after a failure the worker is another."""
        began, kernel = time.perf_counter(), request.kernel
        try:
            worker = self._there()
            answer = self._asked(lambda: worker.run(handle, case.inputs, self._time_limit))
        except WorkerFailed as failure:
            return Outcome(kernel, failure=failure.verdict, message=failure.message)
        evidence = Evidence(answer["evidence"]["provider"], tuple(answer["evidence"]["kernels"]))
        seconds = time.perf_counter() - began
        return Outcome(kernel, answer["outputs"], evidence, seconds=seconds, compute=request.compute)

    def time(self, handle: int, inputs: Mapping[str, Any], *, runs: int, sets: int) -> dict[str, Any]:
        """Durations, as worker/main.py tells. Raises WorkerFailed."""
        worker = self._there()
        limit = self._time_limit
        on = adapter.adapter(self.hello)
        wake = self._waking.seconds(on)
        told = self._asked(lambda: worker.time(handle, inputs, limit, runs=runs, wake=wake, sets=sets))
        self._waking.worked(on)
        return told

    def release(self, handle: int) -> None:
        """Give up what was prepared, if it is still there."""
        if self._worker is not None:
            worker = self._worker
            try:
                self._asked(lambda: worker.release(handle, self._time_limit))
            except WorkerFailed:
                return

    def kill(self) -> None:
        """End the worker now, whatever it does, and start no other; safe from any thread. What is asked fails."""
        with self._lock:
            self._killed = True
            if self._worker is not None:
                self._worker.kill()

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()
            self.generation += 1

    def _live(self) -> Worker:
        if self._worker is None:
            assert self._launch is not None, "a station starts before it is asked"
            worker = Worker(self._launch, self._memory_limit)
            with self._lock:
                self._worker = worker
                if self._killed:
                    worker.kill()
            try:
                worker.greet()
            except BackendUnavailable:
                self.close()
                raise
        return self._worker

    def _there(self) -> Worker:
        worker = self._worker
        if worker is None:
            raise WorkerFailed(Verdict.CRASH, "the backend's process was ended")
        return worker

    def _asked(self, ask: Callable[[], Answer], *, keep: bool = False) -> Answer:
        """Ask; anything but a clean answer costs the worker, but for a refusal to prepare that is said in a message."""
        try:
            return ask()
        except WorkerFailed as failure:
            if not (keep and failure.verdict is Verdict.ERROR):
                self.close()
            raise
