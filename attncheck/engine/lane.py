"""A lane: one backend with its worker, on a thread of its own, taking cases in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from attncheck.backends import environments
from attncheck.backends.base import (
    Backend,
    BackendUnavailable,
    CannotRequest,
    Evidence,
    Hello,
    Launch,
    Outcome,
    Request,
)
from attncheck.engine.events import Expected
from attncheck.engine.worker import Worker, WorkerFailed
from attncheck.graph.case import Case
from attncheck.problem import AnyProblem
from attncheck.vocabulary import Verdict

Quarantine = Callable[[str, str, Hello], Expected | None]
"""Case id, backend's name and its worker's hello -> why the case must not be run there, or None."""


def no_quarantine(_case: str, _backend: str, _hello: Hello) -> Expected | None:
    """Every case may be run."""
    return None


@dataclass(frozen=True)
class Attempt:
    """What a backend gave for one case: why it does not cover it, or what each repeat of its requests came to.

    rounds       one a repeat, the first one first: an outcome for each request, in the backend's order
    quarantined  why the case was not run at all
    """

    unsupported: str | None
    rounds: tuple[tuple[Outcome, ...], ...]
    seconds: float
    quarantined: Expected | None = None


class Lane:
    """Runs one backend's cases one after the other, beside the other lanes."""

    def __init__(
        self,
        backend: Backend,
        time_limit: float,
        repeat: int = 1,
        quarantine: Quarantine = no_quarantine,
        memory_limit: int | None = None,
    ) -> None:
        self.backend = backend
        self._memory_limit = memory_limit
        self._quarantine = quarantine
        self._time_limit = time_limit
        self._repeat = repeat
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=backend.name)
        self._lock = threading.Lock()
        self._launch: Launch | None = None
        self._worker: Worker | None = None
        self._lost: BackendUnavailable | None = None
        self._stopped = False
        self._hello: Hello | None = None

    @property
    def hello(self) -> Hello:
        """What the started worker said of itself."""
        assert self._hello is not None, "a lane takes cases only after it has started"
        return self._hello

    def start(self, note: environments.Note) -> Future[Hello]:
        """Start the worker, after making its environment where it has one to be made: `note` is told so, on a thread.

        The future raises BackendUnavailable when the backend cannot serve here.
        """
        return self._thread.submit(self._started, note)

    def submit(self, case: Case, problem: AnyProblem) -> Future[Attempt]:
        """Queue one case. The future never raises for anything that a backend does."""
        return self._thread.submit(self._attempt, case, problem)

    def end(self) -> None:
        """End the worker now, whatever it does, and drop what is queued; `join` waits for it."""
        with self._lock:
            self._stopped = True
            if self._worker is not None:
                self._worker.kill()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait until everything has ended."""
        self._thread.shutdown(wait=True)
        self._drop_worker()

    def _started(self, note: environments.Note) -> Hello:
        self._launch = environments.ready(self.backend.launch(), note)
        hello = self._live_worker().hello
        self.backend.check(hello)
        self._hello = hello
        return hello

    def _live_worker(self) -> Worker:
        """The warm worker, or a new one where the last was lost."""
        if self._lost is not None:
            raise self._lost
        if self._worker is None:
            assert self._launch is not None, "a lane starts before it takes cases"
            worker = Worker(self._launch, self._memory_limit)
            with self._lock:
                self._worker = worker
                if self._stopped:
                    worker.kill()
            try:
                worker.greet()
            except BackendUnavailable as error:
                # Whoever could not start once will not start for the next case: that answer is at hand.
                self._lost, self._worker = error, None
                raise
        return self._worker

    def _drop_worker(self) -> None:
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def _attempt(self, case: Case, problem: AnyProblem) -> Attempt:
        began = time.perf_counter()
        unsupported = self.backend.unsupported(case, problem, self.hello)
        if unsupported is not None:
            return Attempt(unsupported, (), 0.0)
        quarantined = self._quarantine(case.id, self.backend.name, self.hello)
        if quarantined is not None:
            return Attempt(None, (), 0.0, quarantined)
        try:
            columns = self._columns(self.backend.requests(case, problem, self.hello), case)
        except CannotRequest as error:
            columns = [[Outcome("", failure=Verdict.ERROR, message=str(error))]]
        # A request that failed has fewer outcomes than repeats; its last one stands for those that never came.
        rounds = tuple(
            tuple(column[min(index, len(column) - 1)] for column in columns) for index in range(self._repeat)
        )
        return Attempt(None, rounds, time.perf_counter() - began)

    def _columns(self, requests: Sequence[Request], case: Case) -> list[list[Outcome]]:
        """The outcomes of every repeat, a list for each request; the first failure is the last request's."""
        columns: list[list[Outcome]] = []
        for request in requests:
            columns.append(self._repeats(request, case))
            if columns[-1][-1].failure is not None:
                break
        return columns

    def _repeats(self, request: Request, case: Case) -> list[Outcome]:
        """One outcome a repeat in the same worker, up to the first that is not a clean answer.

        Anything but a clean answer costs the worker, so that the next case starts clean. A refusal to prepare, said in
        a message, is one: nothing has run, and a shader that does not compile would cost a worker a case.
        """
        outcomes: list[Outcome] = []
        prepared = False
        try:
            worker = self._live_worker()
            handle = worker.prepare(request.payload, self._time_limit)
            prepared = True
            for _ in range(self._repeat):
                outcomes.append(self._answer(worker, handle, request, case))  # noqa: PERF401  what came before a crash stays
            worker.release(handle, self._time_limit)
        except BackendUnavailable as error:
            outcomes.append(Outcome(request.kernel, failure=Verdict.ERROR, message=f"could not start again: {error}"))
        except WorkerFailed as failure:
            stderr = self._worker.stderr if self._worker is not None else ""
            if prepared or failure.verdict is not Verdict.ERROR:
                self._drop_worker()
            outcomes.append(Outcome(request.kernel, failure=failure.verdict, message=failure.message, stderr=stderr))
        return outcomes

    def _answer(self, worker: Worker, handle: int, request: Request, case: Case) -> Outcome:
        began = time.perf_counter()
        answer = worker.run(handle, dict(case.inputs), self._time_limit)
        evidence = Evidence(answer["evidence"]["provider"], tuple(answer["evidence"]["kernels"]))
        return Outcome(request.kernel, answer["outputs"], evidence, seconds=time.perf_counter() - began)
