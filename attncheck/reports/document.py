"""What every report is made of: a run as one document, a pure function of its events; the writers know nothing else.

It is what `--report json` writes (docs/report.schema.json), so that a document that was written can be read back and
told in any other format. Its parts stand in `entries`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from attncheck import __version__
from attncheck.compare.difference import Difference
from attncheck.compare.sharpness import Sharpness
from attncheck.engine import status
from attncheck.engine.events import (
    BackendFailed,
    BackendReady,
    CaseFinished,
    Commands,
    Compared,
    Counts,
    Event,
    Result,
    RunFinished,
    RunStarted,
)
from attncheck.graph.case import Origin
from attncheck.reports import describe, explanation, rows
from attncheck.reports.entries import (
    Alone,
    BackendEntry,
    CaseEntry,
    DifferenceEntry,
    Noticed,
    Number,
    Ran,
    ResultEntry,
    StepEntry,
    Worst,
)
from attncheck.scenario import command_line
from attncheck.scenario.model import Scenario
from attncheck.vocabulary import Status

FORMAT = 1


@dataclass(frozen=True)
class Report:
    """A run.

    report       version of this format
    interrupted  whether cases that were selected are missing
    selected     cases that were to be run; counts: those that were, by status
    baseline     how it stands to the earlier run that it was held against; null where it was held against none
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
    baseline: Compared | None = None


class Unreadable(Exception):
    """A file is no document that can be read. The message names the file, what is wrong, and what to do."""


def report(events: Sequence[Event]) -> Report:
    """The report of a run's events, or of a journal's: where that was gone on from, of its last run."""
    begun = max((at for at, it in enumerate(events) if isinstance(it, RunStarted)), default=None)
    started = events[begun] if begun is not None else RunStarted(0, (), None)
    assert isinstance(started, RunStarted), "it was looked for as one"
    finished = next((it for it in events[begun or 0 :] if isinstance(it, RunFinished)), None)
    # A case that was run again, because its content changed, stands there twice.
    last = {it.origin.id: it for it in events if isinstance(it, CaseFinished)}
    cases = tuple(_case(it, started.commands) for it in last.values())
    return Report(
        report=FORMAT,
        attncheck=__version__,
        interrupted=finished is None or finished.interrupted,
        seconds=finished.seconds if finished is not None else 0.0,
        selected=started.cases,
        counts=counted(cases),
        settings=dict(started.settings),
        backends=tuple(_backend(name, started, events) for name in started.backends),
        cases=cases,
        baseline=next((it for it in events[begun or 0 :] if isinstance(it, Compared)), None),
    )


def counted(cases: Sequence[CaseEntry]) -> Counts:
    """Cases by status."""
    return status.tally({word: sum(case.status is word for case in cases) for word in Status})


def read(path: Path) -> Report:
    """The document that `--report json` wrote into a file. Raises Unreadable."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as failed:
        raise Unreadable(f"cannot read the report {path}: {failed.strerror or failed}") from None
    except UnicodeDecodeError:
        raise Unreadable(f"{path} is no report of attncheck: it is not text in UTF-8") from None
    return parsed(text, str(path))


def parsed(text: str, name: str) -> Report:
    """The document in `text`, which messages call `name`. Raises Unreadable."""
    how = "write one with `attncheck run --report json=FILE`"
    try:
        data = json.loads(text)
    except json.JSONDecodeError as wrong:
        raise Unreadable(f"{name}:{wrong.lineno}:{wrong.colno}: no JSON: {wrong.msg}; is the file whole?") from None
    except RecursionError:
        raise Unreadable(f"{name} is no report of attncheck: it is nested too deeply; {how}") from None
    if not isinstance(data, dict) or "report" not in data:
        raise Unreadable(f"{name} is no report of attncheck: it has no key `report`; {how}")
    version, by = data["report"], data.get("attncheck")
    written = f", written by attncheck {by}" if by else ""
    if version != FORMAT:
        raise Unreadable(
            f"{name} is a report in format {version}{written}; attncheck {__version__} reads format "
            f"{FORMAT}: convert it with the version that wrote it"
        )
    try:
        found: Report = TypeAdapter(Report).validate_python(data)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise Unreadable(
            f"{name}: {place.removeprefix('.')} does not fit: {first['msg']}{written}; this is attncheck {__version__}"
        ) from None
    check_backends(found, name)
    return found


def check_backends(found: Report, name: str) -> None:
    """Raise Unreadable where a result is of a backend that the document, which messages call `name`, does not list."""
    listed = {it.name for it in found.backends}
    for number, case in enumerate(found.cases):
        for it in case.results:
            if it.backend not in listed:
                known = ", ".join(sorted(listed)) or "there is none"
                raise Unreadable(
                    f"{name}: cases[{number}] has a result of {it.backend}, which is none of the backends: {known}; "
                    "the file was changed by hand, or written by another tool"
                )


def _backend(name: str, started: RunStarted, events: Sequence[Event]) -> BackendEntry:
    reference = name == started.reference
    for event in reversed(events):
        if isinstance(event, BackendReady) and event.backend == name:
            return BackendEntry(name, reference, True, dict(event.hello.versions), dict(event.hello.device))
        if isinstance(event, BackendFailed) and event.backend == name:
            return BackendEntry(name, reference, False, message=event.message)
    return BackendEntry(name, reference, False, message="the run ended before it had started")


def _case(event: CaseFinished, commands: Commands | None) -> CaseEntry:
    origin = event.origin
    file, line, axes = _written(origin)
    return CaseEntry(
        id=origin.id,
        digest=event.digest,
        file=file,
        line=line,
        axes=axes,
        status=status.of_case(event.results),
        results=tuple(_result(it, origin, commands) for it in event.results),
        about=origin.about if isinstance(origin, Scenario) else "",
        tags=origin.tags if isinstance(origin, Scenario) else (),
        described=describe.origin(origin),
        reproduce=commands.run(origin.id, event.results) if commands is not None else "",
    )


def _written(origin: Origin) -> tuple[str, int, str]:
    if isinstance(origin, Scenario):
        return origin.source.file, origin.source.line, command_line(origin)
    return origin.place, 0, ""


def _result(it: Result, origin: Origin, commands: Commands | None) -> ResultEntry:
    worst = it.worst
    place = worst.place if worst is not None else None
    return ResultEntry(
        backend=it.backend,
        reference=it.reference,
        verdict=it.verdict,
        status=it.status,
        flags=it.flags,
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
        step=None if it.step is None else StepEntry(it.step.number, it.step.of, it.step.label),
        seconds=it.seconds,
        auto=it.auto,
        repeat=it.repeat,
        differences=tuple(map(_difference, it.differences)),
        sharpness=None if it.sharpness is None else _noticed(it.sharpness),
        explanation=tuple(explanation.lines(it, verbose=True)),
        stderr=tuple(explanation.plain(it.stderr)),
        minimize=_shrinking(it, origin, commands),
        picture=it.picture,
    )


def _shrinking(it: Result, origin: Origin, commands: Commands | None) -> str:
    """The command that shrinks a failure."""
    return commands.minimize(origin.id, it.backend) if commands is not None and rows.shrinks(it, origin) else ""


def _noticed(it: Sharpness) -> Noticed:
    return Noticed(it.relevant, it.rejected, it.survivors, it.by_poison)


def _difference(it: Difference) -> DifferenceEntry:
    at = it.place
    return DifferenceEntry(
        role=it.role,
        output=at.output,
        subject=it.subject,
        against=it.against,
        where=describe.place(at, it.role),
        batch=at.batch,
        head=at.head,
        row=at.row,
        dim=at.dim,
        got=it.got,
        expected=it.expected,
        error=it.error,
        tolerance=it.tolerance,
        margin=it.margin,
        max_abs=it.max_abs,
        compared=it.compared,
        failing=it.failing,
        nonfinite=it.nonfinite,
        above=it.above,
        passed=it.passed,
        terms=it.terms,
    )
