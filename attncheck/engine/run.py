"""One run: cases through graph, oracle and backends to events, in the order in which they were given."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any

from attncheck import __version__
from attncheck.backends.base import Backend, BackendUnavailable
from attncheck.engine import judge, related, sessions, status
from attncheck.engine.baseline import Comparison
from attncheck.engine.events import (
    BackendFailed,
    BackendPreparing,
    BackendReady,
    CaseFinished,
    Commands,
    Event,
    RunFinished,
    RunStarted,
)
from attncheck.engine.expectations import Expectations
from attncheck.engine.lane import Attempt, Call, Lane, end
from attncheck.graph import read
from attncheck.graph.case import Case
from attncheck.graph.session import Session
from attncheck.graph.session import session as session_of
from attncheck.oracle import ask
from attncheck.relations.relation import Related
from attncheck.scenario.model import Scenario
from attncheck.vocabulary import Status

AHEAD = 4
"""Cases that may be in the backends' hands while an earlier one is judged: enough to keep every lane busy."""

Given = Scenario | Case
"""What can be run, and judged by the oracle."""

Runnable = Given | Related
"""What can be run: a relation holds a backend against itself."""

POLL = 0.1
"""Seconds between looks at `Options.cancelled` while a backend computes."""


@dataclass(frozen=True)
class Options:
    """How to run.

    time_limit   seconds that a backend may take for one request
    memory_limit bytes of memory that a backend's process may hold while it computes; None for no limit
    repeat       how often each case is run, in the same worker
    fail_fast    whether to stop at the first failing case
    sharpness    whether to hold each passing case against every wrong kernel, not only until one is rejected
    cancelled    set by a signal handler, say, to end the run early; what was judged before is reported
    settings     told in RunStarted, as are the commands
    finished     cases of an earlier run, by id: one with the same content on the same backends is told again, not run
    expectations what is known to fail, and whether to run what may take a backend down
    comparison   with the baseline, where there is one; it is filled as the run goes on
    """

    time_limit: float = 60.0
    memory_limit: int | None = None
    repeat: int = 1
    fail_fast: bool = False
    sharpness: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    settings: Mapping[str, str] = field(default_factory=dict)
    finished: Mapping[str, CaseFinished] = field(default_factory=dict)
    expectations: Expectations = field(default_factory=Expectations)
    commands: Commands | None = None
    comparison: Comparison | None = None


@dataclass(frozen=True)
class Pending:
    """A case in the backends' hands."""

    session: Session
    asked: tuple[judge.Asked, ...]
    attempts: tuple[tuple[Lane, Future[tuple[Attempt, ...]]], ...]

    @property
    def futures(self) -> list[Future[tuple[Attempt, ...]]]:
        """All that must have come before it is judged."""
        return [future for _, future in self.attempts]


def run(
    given: Sequence[Runnable], candidates: Sequence[Backend], reference: Backend | None, options: Options
) -> Generator[Event, None, None]:
    """Evaluate every case on every backend. Yields RunStarted first and RunFinished last, whatever happens between.

    given   scenarios, each of which is written as a case when its turn comes, and cases that are there already
    A backend that cannot start gives one BackendFailed and no results; without any candidate left nothing is run.
    """
    began = time.perf_counter()
    tally = _Tally(began)
    backends = (*candidates, *([reference] if reference is not None else []))
    names = tuple(backend.name for backend in backends)
    yield RunStarted(len(given), names, reference.name if reference else None, options.settings, options.commands)
    opened = lanes(backends, options)
    try:
        ready = yield from _start(opened, options)
        if any(lane.backend is not reference for lane in ready):
            for event in _cases(given, ready, reference, options):
                tally.count(event)
                if options.comparison is not None:
                    options.comparison.note(event)
                yield event
    except Exception:
        # A fault of our own in one case: what was judged before is counted and told, then the fault is.
        yield tally.finished(interrupted=True)
        raise
    finally:
        end(opened)
    if options.comparison is not None:
        yield options.comparison.compared(__version__, complete=tally.cases == len(given))
    yield tally.finished(interrupted=options.cancelled.is_set())


def lanes(backends: Sequence[Backend], options: Options) -> list[Lane]:
    """A lane for each backend, not yet started."""
    return [
        Lane(backend, options.time_limit, options.repeat, options.expectations.quarantine, options.memory_limit)
        for backend in backends
    ]


def _start(lanes: Sequence[Lane], options: Options) -> Generator[Event, None, list[Lane]]:
    """Start all workers side by side. Yields what to say of each; gives those that serve."""
    notes: SimpleQueue[BackendPreparing] = SimpleQueue()

    def note(backend: str) -> Callable[[str], None]:
        return lambda text: notes.put(BackendPreparing(backend, text))

    ready: list[Lane] = []
    for lane, future in [(lane, lane.start(note(lane.backend.name))) for lane in lanes]:
        while not options.cancelled.is_set() and wait([future], timeout=POLL).not_done:
            yield from _taken(notes)
        yield from _taken(notes)
        if options.cancelled.is_set():
            break
        try:
            started = BackendReady(lane.backend.name, future.result())
            if options.comparison is not None:
                options.comparison.note(started)
            yield started
            ready.append(lane)
        except BackendUnavailable as error:
            yield BackendFailed(lane.backend.name, str(error))
    return ready


def _taken(notes: SimpleQueue[BackendPreparing]) -> Iterator[BackendPreparing]:
    """What the lanes' threads have said by now."""
    while not notes.empty():
        yield notes.get()


def _cases(
    given: Sequence[Runnable], lanes: Sequence[Lane], reference: Backend | None, options: Options
) -> Iterator[CaseFinished]:
    """Keep the lanes fed `AHEAD` cases deep, and judge in order. Once cancelled they get no more."""
    pending: deque[Pending | related.Relating | CaseFinished] = deque()
    for one in (*given, *[None] * AHEAD):
        feeding = one is not None and not options.cancelled.is_set()
        if one is not None and feeding:
            pending.append(submit(one, lanes, reference, options))
        if pending and (not feeding or len(pending) > AHEAD):
            oldest = pending.popleft()
            if not isinstance(oldest, CaseFinished) and not _await(oldest.futures, options):
                return
            finished = oldest if isinstance(oldest, CaseFinished) else judged(oldest, reference, options)
            if options.comparison is not None:
                finished = options.comparison.baseline.held(finished)
            yield finished
            if options.fail_fast and any(result.fails for result in finished.results):
                return


def submit(
    given: Runnable, lanes: Sequence[Lane], reference: Backend | None, options: Options
) -> Pending | related.Relating | CaseFinished:
    """Build the case if need be, hand it to every lane, and compute the oracle's answers while they work.

    The steps of a session need the answers to those before, so that these come first there.
    """
    session, sides = related.whole(given) if isinstance(given, Related) else (session_of(given), ())
    earlier = options.finished.get(session.id)
    if earlier is not None and _still_holds(earlier, session, lanes):
        results = options.expectations.again(earlier.results, {lane.backend.name: lane.hello for lane in lanes})
        if results is not None:
            return earlier if results == earlier.results else replace(earlier, results=results)
    if isinstance(given, Related):
        return related.submitted(given, sides, session.digest, lanes)
    if len(session.cases) > 1:
        steps = sessions.steps(session)
        calls = [step.call for step in steps]
        attempts = tuple((lane, lane.submit(session.id, calls)) for lane in lanes)
        return Pending(session, tuple(step.asked for step in steps), attempts)
    (case,) = session.cases
    try:
        problem = read.any_problem(case.model, case.inputs)
    except read.Unreadable as unreadable:
        if isinstance(case.origin, Scenario):
            raise
        return _unread(case, lanes, reference, str(unreadable))
    attempts = tuple((lane, lane.submit(session.id, (Call(case, problem),))) for lane in lanes)
    answers = () if problem.invalid else ask.answer(problem, case.inputs)
    return Pending(session, (judge.Asked(case, problem, answers),), attempts)


def _unread(case: Case, lanes: Sequence[Lane], reference: Backend | None, why: str) -> CaseFinished:
    """A given model whose meaning attncheck does not know: nobody could judge what a backend gives."""
    said = f"not read by attncheck: {why}"
    results = tuple(judge.unsupported(case.id, it.backend.name, said, it.backend is reference) for it in lanes)
    return CaseFinished(case.origin, case.digest, results)


def _still_holds(earlier: CaseFinished, session: Session, lanes: Sequence[Lane]) -> bool:
    """Whether the results of an earlier run are those that this one would give: same content, same judgement."""
    same_backends = {result.backend for result in earlier.results} == {lane.backend.name for lane in lanes}
    return same_backends and earlier.digest == session.digest and earlier.origin == session.origin


def _await(futures: Sequence[Future[Any]], options: Options) -> bool:
    """Wait for all `futures`; False where the run is cancelled before they are there."""
    while wait(futures, timeout=POLL).not_done:
        if options.cancelled.is_set():
            return False
    return True


def judged(pending: Pending | related.Relating, reference: Backend | None, options: Options) -> CaseFinished:
    """Hold what every backend has given against the oracle, and against each other."""
    if isinstance(pending, related.Relating):
        return related.finished(pending)
    given = [
        sessions.Given(lane.backend, future.result(), lane.backend is reference) for lane, future in pending.attempts
    ]
    hellos = {lane.backend.name: lane.hello for lane, _ in pending.attempts}
    told = sessions.results(pending.session, pending.asked, given, options.sharpness)
    results = tuple(options.expectations.held(it, hellos[it.backend]) for it in told)
    return CaseFinished(pending.session.origin, pending.session.digest, results)


class _Tally:
    """Counts as cases finish."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._statuses: Counter[Status] = Counter()

    @property
    def cases(self) -> int:
        """How many are judged."""
        return self._statuses.total()

    def count(self, event: CaseFinished) -> None:
        self._statuses[status.of_case(event.results)] += 1

    def finished(self, interrupted: bool) -> RunFinished:
        return RunFinished(status.tally(self._statuses), time.perf_counter() - self._began, interrupted)
