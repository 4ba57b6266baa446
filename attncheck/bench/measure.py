"""The driver: each case is judged on every contender, and those that are right are timed in turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from attncheck.backends.base import BackendUnavailable, CannotRequest, Request
from attncheck.bench import floor, memory, parts, rates
from attncheck.bench.adapter import Adapter, adapter
from attncheck.bench.awaiting import Interrupted, awaited
from attncheck.bench.contenders import Contender
from attncheck.bench.events import (
    BenchEvent,
    BenchFinished,
    BenchStarted,
    CaseRefused,
    CaseTimed,
    Part,
    Rates,
    StationFailed,
    StationReady,
    Timing,
)
from attncheck.bench.interleave import turns
from attncheck.bench.judging import Expected, expected, judged
from attncheck.bench.loader import loader, waiter
from attncheck.bench.station import Station
from attncheck.bench.waking import Waking
from attncheck.bench.work import work
from attncheck.engine.worker import WorkerFailed
from attncheck.graph import read, write
from attncheck.problem import Problem
from attncheck.scenario import command_line
from attncheck.scenario.memory import readable
from attncheck.scenario.model import Scenario
from attncheck.vocabulary import Verdict


@dataclass(frozen=True)
class Options:
    """How to time.

    runs          counted runs of each contender on each case
    batch         how many of them before it is another's turn
    seconds       once a contender has taken so long on a case, it gets no further turn
    beyond        bytes that the sets of buffers of a decoding step exceed together: more than a GPU's cache holds
    host_memory   most bytes that a case may take here
    device_memory most bytes that the contenders of a case may hold on the device
    time_limit    seconds that a worker may take for one answer
    cancelled     set by a signal handler to end early: no further contender is judged or timed, none is waited for, and
                  the case at hand is told as far as it was timed
    note          is told what goes on while a backend's environment is made
    """

    runs: int = 20
    batch: int = 5
    seconds: float = 60.0
    beyond: int = 256 << 20
    host_memory: int = 8 << 30
    device_memory: int = 8 << 30
    time_limit: float = 300.0
    backend_memory: int | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    settings: Mapping[str, str] = field(default_factory=dict)
    note: Callable[[str], None] = lambda _: None


@dataclass
class _Ready:
    """A contender whose outputs are right, with what it was asked; `handle` where a worker has it prepared.

    turns   what its worker told of each of its turns, see worker/main.py
    """

    contender: Contender
    station: Station
    payload: Mapping[str, Any]
    timing: Timing
    sets: int
    handle: int = 0
    generation: int = -1
    turns: list[dict[str, Any]] = field(default_factory=list)
    spent: float = 0.0


def bench(
    cases: Sequence[Scenario], contenders: Sequence[Contender], options: Options
) -> Generator[BenchEvent, None, None]:
    """Yields BenchStarted first and BenchFinished last. A backend that cannot start is told and left out."""
    began = time.perf_counter()
    yield BenchStarted(tuple(case.id for case in cases), tuple(it.label for it in contenders), options.settings)
    waking = Waking()
    stations = {
        it.of: Station(it.backend, options.time_limit, options.backend_memory, waking) for it in reversed(contenders)
    }

    def end() -> None:
        for station in stations.values():
            station.kill()

    ready: list[StationReady] = []
    try:
        for of in dict.fromkeys(it.of for it in contenders):
            started = awaited(partial(_started, of, stations[of], options), options.cancelled, end)
            if options.cancelled.is_set():
                break  # what failed may have failed because its process was ended
            ready += [started] if isinstance(started, StationReady) else []
            yield started
        there = [it for it in contenders if it.of in {started.backend for started in ready}]
        measured = [(it.adapter, it.rates) for it in ready if it.rates is not None]
        for case in cases if there and not options.cancelled.is_set() else ():
            told = awaited(partial(_case, case, there, stations, measured, options), options.cancelled, end)
            if told is not None:
                yield told
            if options.cancelled.is_set():
                break
    except Interrupted:
        pass  # what has not come back is not told
    finally:
        for station in stations.values():
            station.close()
    yield BenchFinished(time.perf_counter() - began, options.cancelled.is_set())


def _started(name: str, station: Station, options: Options) -> StationReady | StationFailed:
    try:
        hello = station.start(partial(_noted, options, name))
        return StationReady(name, hello, rates.measured(station))
    except BackendUnavailable as error:
        return StationFailed(name, str(error))


def _noted(options: Options, backend: str, text: str) -> None:
    options.note(f"{backend}: {text}")


def _case(
    scenario: Scenario,
    contenders: Sequence[Contender],
    stations: Mapping[str, Station],
    measured: Sequence[tuple[Adapter, Rates]],
    options: Options,
) -> CaseRefused | CaseTimed | None:
    """What came of a case; None where the call was interrupted before anybody was timed."""
    why = memory.refusal(scenario, options.host_memory)
    if why is None and scenario.steps:
        why = "a session of several calls: its steps are timed as cases of their own"
    if why is not None:
        return CaseRefused(scenario.id, why)
    case = write.build(scenario)
    problem = read.any_problem(case.model, case.inputs)
    if not isinstance(problem, Problem) or problem.invalid:
        return CaseRefused(scenario.id, f"it is no attention to be timed: {problem.invalid or problem.kind}")
    known = expected(case, problem)
    timings: list[Timing] = []
    ready: list[_Ready] = []
    for contender in contenders:
        found = None if options.cancelled.is_set() else _judged(known, contender, stations[contender.of])
        if found is None or options.cancelled.is_set():
            break  # as when it starts
        if isinstance(found, _Ready):
            ready.append(found)
            timings.append(found.timing)
        else:
            timings.append(found)
    by_label = {it.label: it for it in _timed(known, ready, options)}
    asked = work(problem)
    done = tuple(
        floor.believed(by_label.get(it.label, it), asked, scenario.dtype, floor.best(it.adapter, measured))
        for it in timings
    )
    words = command_line(scenario)
    if options.cancelled.is_set() and not any(it.timed for it in done):
        return None
    return CaseTimed(scenario.id, words, case.digest, scenario.dtype, asked, known.sample.words, done)


def _judged(known: Expected, contender: Contender, station: Station) -> _Ready | Timing:
    """Ask once, with every check, whatever the contender: only a pass is worth timing."""
    of = adapter(station.hello)
    blank = Timing(contender.of, contender.kernel, contender.label, Verdict.UNSUPPORTED, use=contender.use, adapter=of)
    backend = contender.backend
    why = backend.unsupported(known.case, known.whole, station.hello)
    if why is not None:
        return replace(blank, message=why)
    try:
        request = backend.requests(known.case, known.whole, station.hello)[0]
    except CannotRequest as error:
        return replace(blank, verdict=Verdict.ERROR, message=str(error))
    if request.instead:
        return replace(blank, message=f"{request.instead}: {request.kernel} would run")
    payload = {**_payload(known, request), **contender.asked}
    try:
        handle = station.prepare(payload)
    except WorkerFailed as failure:
        return replace(blank, verdict=failure.verdict, message=failure.message)
    verdict, message = judged(known, backend, station.run(handle, request, known.case))
    station.release(handle)
    timing = replace(blank, kernel=request.kernel or contender.kernel, verdict=verdict, message=message)
    return _Ready(contender, station, payload, timing, 1) if verdict is Verdict.PASS else timing


def _payload(known: Expected, request: Request) -> Mapping[str, Any]:
    """What the request asks, and what only a timed one needs to know."""
    if "plan" in request.payload:
        return {**request.payload, "apart": parts.apart(request.payload["plan"], known.whole.output.name)}
    if "model" in request.payload:
        return {**request.payload, "loader": loader(known.case.inputs), "waiter": waiter()}
    return request.payload


def _timed(known: Expected, ready: Sequence[_Ready], options: Options) -> list[Timing]:
    """Time what is right, in turn, until each has had its runs."""
    one = {it.timing.label: memory.device_bytes(known.case, it.payload) for it in ready}
    total = sum(one.values())
    if total > options.device_memory:
        held = " + ".join(f"{readable(size)} of {label}" for label, size in one.items())
        limit = readable(options.device_memory)
        told = f"not timed: {held} = {readable(total)} on the device, more than the limit of {limit}"
        return [replace(it.timing, message=told) for it in ready]
    for it in ready:
        share = options.device_memory // len(ready)
        beyond = 0 if it.station.hello.device.get("software") else _beyond(known, options)
        it.sets = memory.sets(one[it.timing.label], beyond, share)
    for it, runs in turns(ready, options.runs, options.batch):
        if it.timing.verdict is Verdict.PASS and it.spent < options.seconds and not options.cancelled.is_set():
            began = time.perf_counter()
            _take_turn(known, it, runs, options)
            it.spent += time.perf_counter() - began
    for it in ready:
        if it.generation == it.station.generation:
            it.station.release(it.handle)
    return [_told(it, options) for it in ready]


def _beyond(known: Expected, options: Options) -> int:
    """Rows that decode read the cache once: warm in the GPU's own cache it would be another kernel's time."""
    return options.beyond if known.whole.rows < min(known.whole.kv_len) else 0


def _take_turn(known: Expected, it: _Ready, runs: int, options: Options) -> None:
    try:
        if it.generation != it.station.generation:
            if it.turns:
                told = "while it was timed: its process was lost with another contender's"
                it.timing = replace(it.timing, verdict=Verdict.ERROR, message=told)
                return
            it.handle = it.station.prepare(it.payload)
            it.generation = it.station.generation
        inputs = {} if it.turns else known.case.inputs
        it.turns.append(it.station.time(it.handle, inputs, runs=runs, sets=it.sets))
    except WorkerFailed as failure:
        if not options.cancelled.is_set():
            told = f"while it was timed: {failure.message}"
            it.timing = replace(it.timing, verdict=failure.verdict, message=told)


def _told(it: _Ready, options: Options) -> Timing:
    if it.timing.verdict is not Verdict.PASS:
        return it.timing
    if not it.turns:
        return replace(it.timing, message="not timed: interrupted") if options.cancelled.is_set() else it.timing
    told = it.turns[-1]
    seconds, taken = (np.concatenate([turn[name] for turn in it.turns]) for name in ("seconds", "part_seconds"))
    found = tuple(
        Part(str(part["name"]), bool(part["apart"]), bool(part["alone"]), tuple(map(float, taken[:, column])))
        for column, part in enumerate(told["parts"])
    )
    notes = [str(told.get("note", ""))]
    if len(seconds) < options.runs:
        notes.append(f"{len(seconds)} of {options.runs} runs, in {it.spent:.0f} s")
    timed = replace(it.timing, clock=str(told["clock"]), message="; ".join(filter(None, notes)))
    return replace(timed, seconds=tuple(map(float, seconds)), parts=found)
