"""One drawn case measured: on every backend through the engine's lanes and judge, and for every wrong kernel.

A measurement is plain data, one line of JSON:

    index, case, op, dtype     the case: `attncheck run --case 'op=gqa q_len=4 ...'` runs it again
    results   backend, verdict, status, compute, message; where numbers were judged: margin, and factor by kernel
    wrong     by the arithmetic that a backend may declare: how many wrong kernels are relevant, the names of those
              `rejected` (`by_poison`: by NaN alone), and of the `survivors` with the factor of each
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from attncheck.backends.base import Backend
from attncheck.compare.arithmetic import Compute
from attncheck.compare.judge import Incomparable, widened
from attncheck.compare.sharpness import trials
from attncheck.engine import judge
from attncheck.engine.expectations import Expectations
from attncheck.engine.lane import Attempt, Call, Lane
from attncheck.graph import read, write
from attncheck.oracle import ask
from attncheck.problem import Arrays
from attncheck.reports import device
from attncheck.scenario.model import Scenario
from benchmarks.tolerance.factor import factor
from benchmarks.tolerance.records import Record, about

TIME_LIMIT = 60.0
"""Seconds that a backend may take for one case."""


class Bench:
    """Warm workers of some backends, and what is known to fail on them."""

    def __init__(self, lanes: Sequence[Lane], expectations: Expectations) -> None:
        self._lanes = lanes
        self._expectations = expectations

    @property
    def hellos(self) -> dict[str, str]:
        """Versions and device of each started worker, in words, by backend."""
        return {lane.backend.name: device.summary(lane.hello) for lane in self._lanes}

    def measure(self, index: int, scenario: Scenario) -> Record:
        """Everything about one case; a case whose bound overflows says `incomparable` in place of results."""
        case = write.build(scenario)
        problem = read.any_problem(case.model, case.inputs)
        record = about(index, scenario)
        if problem.invalid:
            return record | {"invalid": problem.invalid}
        attempts = [(lane, lane.submit(case.id, (Call(case, problem),))) for lane in self._lanes]
        answers = ask.answer(problem, case.inputs)
        asked = judge.Asked(case, problem, answers)
        try:
            computes = dict.fromkeys(lane.backend.arithmetic(problem) for lane in self._lanes)
            record["wrong"] = {compute: _wrong(asked, compute) for compute in computes}
            record["results"] = [self._result(asked, lane, attempt) for lane, attempt in attempts]
        except Incomparable as incomparable:
            record |= {"incomparable": str(incomparable), "wrong": {}}
        return record

    def _result(self, asked: judge.Asked, lane: Lane, future: Future[tuple[Attempt, ...]]) -> Record:
        backend, (attempt,) = lane.backend, future.result()
        compute = backend.arithmetic(asked.problem)
        result = self._expectations.held(judge.result(asked, backend, attempt, reference=False), lane.hello)
        told: Record = {"backend": backend.name, "verdict": result.verdict, "status": result.status, "compute": compute}
        if result.message:
            told["message"] = result.message
        if result.diagnosis:
            told["diagnosis"] = result.diagnosis
        if result.expected is not None:
            told["expected"] = Path(result.expected.place).name
        if result.worst is not None:
            told |= {"margin": result.worst.margin, "role": result.worst.role, "against": result.worst.against}
        if result.differences:
            told["factor"] = {
                outcome.kernel: _factor(asked, outcome.outputs, compute)
                for outcome in attempt.rounds[0]
            }
        return told


def _wrong(asked: judge.Asked, compute: Compute) -> Record:
    rejected: list[str] = []
    by_poison: list[str] = []
    survivors: dict[str, float] = {}
    for trial in trials(asked.problem, asked.case.inputs, asked.answers, compute):
        if trial.by_poison:
            by_poison.append(trial.name)
        elif trial.rejected:
            rejected.append(trial.name)
        else:
            survivors[trial.name] = _factor(asked, trial.outputs, compute)
    return {"rejected": rejected, "by_poison": by_poison, "survivors": survivors}


def _factor(asked: judge.Asked, outputs: Arrays, compute: Compute) -> float:
    numbers = {it.output: widened(asked.problem, it, outputs) for it in asked.answers}
    return factor(asked.answers, numbers, asked.problem.dtype, compute)


@contextmanager
def bench(backends: Sequence[Backend], expectations: Expectations) -> Iterator[Bench]:
    """Workers of `backends`, started side by side and ended at the end. Raises BackendUnavailable."""
    lanes = [Lane(backend, TIME_LIMIT, quarantine=expectations.quarantine) for backend in backends]
    try:
        for started in [lane.start(lambda _: None) for lane in lanes]:
            started.result()
        yield Bench(lanes, expectations)
    finally:
        for lane in lanes:
            lane.end()
        for lane in lanes:
            lane.join()
