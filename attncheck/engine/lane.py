"""A lane: one backend with its worker, on a thread of its own, taking cases in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

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
from attncheck.graph.session import Bound
from attncheck.problem import AnyProblem
from attncheck.vocabulary import Verdict

Quarantine = Callable[[str, str, Hello], Expected | None]
"""Case id, backend's name and its worker's hello -> why the case must not be run there, or None."""


def no_quarantine(_case: str, _backend: str, _hello: Hello) -> Expected | None:
    """Every case may be run."""
    return None


@dataclass(frozen=True)
class Call:
    """One step of a session, `bind` being what of the step before its inputs are given. A case by itself is one."""

    case: Case
    problem: AnyProblem
    bind: Mapping[str, Bound] = field(default_factory=dict)


Chain = list[list[Outcome]]
"""What one request came to, by step: an outcome a repeat, as far as they came."""


@dataclass(frozen=True)
class Attempt:
    """What a backend gave for one step: why it does not cover it, or what each repeat of its requests came to.

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
        self._used = False
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

    def submit(self, name: str, calls: Sequence[Call]) -> Future[tuple[Attempt, ...]]:
        """Queue a session, by its case id: an attempt for each step, up to one that failed or that stands for all.

        The future never raises for anything that a backend does.
        """
        return self._thread.submit(self._attempts, name, calls)

    def renew(self) -> None:
        """Queue that what comes next is run by a process that has run nothing before."""
        self._thread.submit(self._renewed)

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
            self._used = False
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

    def _renewed(self) -> None:
        if self._used:
            self._drop_worker()

    def _drop_worker(self) -> None:
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def _attempts(self, name: str, calls: Sequence[Call]) -> tuple[Attempt, ...]:
        taken, declined = self._taken(calls)
        ran = self._ran(name, taken) if taken else ()
        return (*ran, declined) if declined is not None and len(ran) == len(taken) else ran

    def _taken(self, calls: Sequence[Call]) -> tuple[Sequence[Call], Attempt | None]:
        """The steps to run, and what stands for one that the backend declares not to take.

        Behind a step that its operator forbids there is none, so that those before it are run all the same; any other
        that is not taken stands for the whole session.
        """
        for number, call in enumerate(calls, 1):
            unsupported = self.backend.unsupported(call.case, call.problem, self.hello)
            if unsupported is not None:
                said = unsupported if len(calls) == 1 else f"{unsupported} (in step {number})"
                return calls[: number - 1] if call.problem.invalid else (), Attempt(said, (), 0.0)
        return calls, None

    def _ran(self, name: str, calls: Sequence[Call]) -> tuple[Attempt, ...]:
        """What came of steps that the backend takes, up to one that failed."""
        began = time.perf_counter()
        quarantined = self._quarantine(name, self.backend.name, self.hello)
        if quarantined is not None:
            return (Attempt(None, (), 0.0, quarantined),)
        try:
            requests = [self.backend.requests(call.case, call.problem, self.hello) for call in calls]
        except CannotRequest as error:
            failed = Outcome("", failure=Verdict.ERROR, message=str(error))
            return (Attempt(None, ((failed,),) * self._repeat, time.perf_counter() - began),)
        chains = self._chains(requests, calls)
        seconds = time.perf_counter() - began
        return tuple(
            Attempt(None, rounds, seconds) for at in range(len(calls)) if (rounds := self._rounds(chains, requests, at))
        )

    def _rounds(
        self, chains: Sequence[Chain], requests: Sequence[Sequence[Request]], at: int
    ) -> tuple[tuple[Outcome, ...], ...]:
        """What each repeat of step `at` came to, the request that is judged first in front; nothing where one ended."""
        if not all(chain[at] for chain in chains):
            return ()
        order = [request.kernel for request in requests[at]]
        columns = sorted((chain[at] for chain in chains), key=lambda column: order.index(column[0].kernel))
        # A request that failed has fewer outcomes than repeats; its last one stands for those that never came.
        return tuple(
            tuple(column[min(index, len(column) - 1)] for column in columns) for index in range(self._repeat)
        )

    def _chains(self, requests: Sequence[Sequence[Request]], calls: Sequence[Call]) -> list[Chain]:
        """Every request of the first step with its own in the later ones; the first failure is the last chain's."""
        chains: list[Chain] = []
        for first in requests[0]:
            chain = [next((it for it in step if it.kernel == first.kernel), step[0]) for step in requests]
            chains.append(self._chain(chain, calls))
            if any(column[-1].failure is not None for column in chains[-1] if column):
                break
        return chains

    def _chain(self, requests: Sequence[Request], calls: Sequence[Call]) -> Chain:
        """Every step after the other in the same worker, and that once a repeat, up to what is not a clean answer.

        Anything but a clean answer costs the worker, so that the next case starts clean. To decline the case is
        one, and so is a refusal to prepare the first step, said in a message: nothing has run, and a shader that does
        not compile would cost a worker a case.
        """
        columns: Chain = [[] for _ in calls]
        handles: list[int] = []
        at = 0
        try:
            worker = self._live_worker()
            self._used = True
            for _ in range(self._repeat):
                for at, (request, call) in enumerate(zip(requests, calls, strict=True)):
                    if at == len(handles):
                        handles.append(worker.prepare(request.payload, self._time_limit))
                    columns[at].append(self._answer(worker, handles[at], request, call))
            for handle in handles:
                worker.release(handle, self._time_limit)
        except BackendUnavailable as error:
            columns[at].append(_failed(requests[at], Verdict.ERROR, f"could not start again: {error}"))
        except WorkerFailed as failure:
            stderr = self._worker.stderr if self._worker is not None else ""
            declined = failure.verdict is Verdict.UNSUPPORTED and self._lets_go(handles)
            if not declined and (handles or failure.verdict is not Verdict.ERROR):
                self._drop_worker()
            failed = _failed(requests[at], failure.verdict, failure.message, stderr)
            columns[at].append(replace(failed, refused=failure.refused))
        return columns

    def _lets_go(self, handles: Sequence[int]) -> bool:
        """Whether the worker lets go of what it holds of a case that it declined, and so may go on."""
        try:
            for handle in handles:
                self._live_worker().release(handle, self._time_limit)
        except (WorkerFailed, BackendUnavailable):
            return False
        return True

    def _answer(self, worker: Worker, handle: int, request: Request, call: Call) -> Outcome:
        began = time.perf_counter()
        inputs = {name: array for name, array in call.case.inputs.items() if name not in call.bind}
        answer = worker.run(handle, inputs, self._time_limit, call.bind)
        evidence = Evidence(answer["evidence"]["provider"], tuple(answer["evidence"]["kernels"]))
        seconds = time.perf_counter() - began
        return Outcome(
            request.kernel,
            answer["outputs"],
            evidence,
            seconds=seconds,
            instead=request.instead,
            compute=request.compute,
        )


def end(lanes: Sequence[Lane]) -> None:
    """End the workers of all `lanes` now, whatever they do, and wait until they have ended."""
    for lane in lanes:
        lane.end()
    for lane in lanes:
        lane.join()


def _failed(request: Request, verdict: Verdict, message: str, stderr: str = "") -> Outcome:
    return Outcome(request.kernel, failure=verdict, message=message, stderr=stderr, instead=request.instead)
