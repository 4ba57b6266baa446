"""What every report is made of: a run as one document, a pure function of its events; the writers know nothing else.

It is what `--report json` writes (docs/report.schema.json), so that a document that was written can be read back and
told in any other format. Within a version of the format keys are only added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from attncheck import __version__
from attncheck.engine import status
from attncheck.engine.events import (
    BackendFailed,
    BackendReady,
    CaseFinished,
    Counts,
    Event,
    Expected,
    Result,
    RunFinished,
    RunStarted,
)
from attncheck.graph.case import Origin
from attncheck.oracle.conventions import Convention
from attncheck.scenario import command_line
from attncheck.scenario.model import Scenario

FORMAT = 1

Number = float | Literal["NaN", "Infinity", "-Infinity"]


@dataclass(frozen=True)
class Worst:
    """The element with the largest error in relation to its tolerance; `row` is a slot in a present."""

    output: str
    batch: int
    head: int
    row: int
    dim: int
    got: Number
    expected: Number


@dataclass(frozen=True)
class Ran:
    """What ran, as the backend's runtime told it."""

    provider: str
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class Alone:
    """Who is alone, in words, and the largest difference of each pair; null where there is none to compare."""

    said: str
    candidate_oracle: Number | None
    reference_oracle: Number | None
    candidate_reference: Number | None


@dataclass(frozen=True)
class Step:
    """A step of a session: `number` from 1 on, `of` how many, and what it is called there."""

    number: int
    of: int
    label: str


@dataclass(frozen=True)
class ResultEntry:
    """One case on one backend.

    instead    why `kernel` is not the kernel that was asked for; empty where it is
    error      absolute difference from the expected value at the worst element; null without numbers to compare
    tolerance  what it may be there; margin: error / tolerance
    against    "oracle", or the kernel that the worst element was compared with
    max_abs    the largest absolute difference of all compared elements
    wrong      the known wrong kernels that give these numbers, by name
    step       of a session: the first step that went wrong, which the rest is about; of those that passed, the worst
    """

    backend: str
    reference: bool
    verdict: str
    status: str
    flags: tuple[str, ...]
    kernel: str
    instead: str
    error: Number | None
    tolerance: Number | None
    margin: Number | None
    max_abs: Number | None
    against: str | None
    compared: int
    failing: int
    worst: Worst | None
    message: str
    diagnosis: str
    wrong: tuple[str, ...]
    convention: Convention | None
    attribution: Alone | None
    expected: Expected | None
    evidence: Ran | None
    step: Step | None
    seconds: Number


@dataclass(frozen=True)
class CaseEntry:
    """One case.

    file, line   where it was written; line 0 for a model that was there before
    axes         what `--case` takes to make it again; empty for such a model
    status       the worst of its results'
    """

    id: str
    digest: str
    file: str
    line: int
    axes: str
    status: str
    results: tuple[ResultEntry, ...]


@dataclass(frozen=True)
class BackendEntry:
    """A backend of the run; `message` says why it could not start, empty where it did."""

    name: str
    reference: bool
    started: bool
    versions: dict[str, str] = field(default_factory=dict)
    device: dict[str, Any] = field(default_factory=dict)
    message: str = ""


@dataclass(frozen=True)
class Report:
    """A run.

    report       version of this format
    interrupted  whether cases that were selected are missing
    selected     cases that were to be run; counts: those that were, by status
    """

    report: int
    attncheck: str
    interrupted: bool
    seconds: Number
    selected: int
    counts: Counts
    settings: dict[str, str]
    backends: tuple[BackendEntry, ...]
    cases: tuple[CaseEntry, ...]


def report(events: Sequence[Event]) -> Report:
    """The report of a run's events."""
    started = next((it for it in events if isinstance(it, RunStarted)), RunStarted(0, (), None))
    finished = next((it for it in events if isinstance(it, RunFinished)), None)
    cases = tuple(_case(it) for it in events if isinstance(it, CaseFinished))
    return Report(
        report=FORMAT,
        attncheck=__version__,
        interrupted=finished is None or finished.interrupted,
        seconds=finished.seconds if finished is not None else 0.0,
        selected=started.cases,
        counts=finished.counts if finished is not None else _counted(cases),
        settings=dict(started.settings),
        backends=tuple(_backend(name, started, events) for name in started.backends),
        cases=cases,
    )


def _counted(cases: Sequence[CaseEntry]) -> Counts:
    return status.tally({word: sum(case.status == word for case in cases) for word in status.WORST_FIRST})


def _backend(name: str, started: RunStarted, events: Sequence[Event]) -> BackendEntry:
    reference = name == started.reference
    for event in events:
        if isinstance(event, BackendReady) and event.backend == name:
            return BackendEntry(name, reference, True, dict(event.hello.versions), dict(event.hello.device))
        if isinstance(event, BackendFailed) and event.backend == name:
            return BackendEntry(name, reference, False, message=event.message)
    return BackendEntry(name, reference, False, message="the run ended before it had started")


def _case(event: CaseFinished) -> CaseEntry:
    file, line, axes = _written(event.origin)
    results = tuple(_result(result) for result in event.results)
    return CaseEntry(event.origin.id, event.digest, file, line, axes, str(status.of_case(event.results)), results)


def _written(origin: Origin) -> tuple[str, int, str]:
    if isinstance(origin, Scenario):
        return origin.source.file, origin.source.line, command_line(origin)
    return origin.place, 0, ""


def _result(it: Result) -> ResultEntry:
    worst = it.worst
    place = worst.place if worst is not None else None
    return ResultEntry(
        backend=it.backend,
        reference=it.reference,
        verdict=str(it.verdict),
        status=str(it.status),
        flags=tuple(map(str, it.flags)),
        kernel=it.kernel,
        instead=it.instead,
        error=None if worst is None else worst.error,
        tolerance=None if worst is None else worst.tolerance,
        margin=None if worst is None else worst.margin,
        max_abs=None if worst is None else worst.max_abs,
        against=None if worst is None else worst.against,
        compared=sum(each.compared for each in it.differences if each.against == "oracle"),
        failing=sum(each.failing for each in it.differences if each.against == "oracle"),
        worst=None
        if worst is None or place is None
        else Worst(place.output, place.batch, place.head, place.row, place.dim, worst.got, worst.expected),
        message=it.message,
        diagnosis=it.diagnosis,
        wrong=it.wrong,
        convention=it.convention,
        attribution=None if it.attribution is None else Alone(**asdict(it.attribution)),
        expected=it.expected,
        evidence=None if it.evidence is None else Ran(it.evidence.provider, it.evidence.kernels),
        step=None if it.step is None else Step(it.step.number, it.step.of, it.step.label),
        seconds=it.seconds,
    )
