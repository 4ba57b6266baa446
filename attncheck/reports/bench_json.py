"""The JSON document of a bench: everything that was seen, in a form with a version and a schema."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from attncheck import __version__
from attncheck.backends.base import Hello
from attncheck.bench import comparison
from attncheck.bench.adapter import NOWHERE, Adapter, adapter
from attncheck.bench.baseline import Baseline, Known, Ratio
from attncheck.bench.events import (
    BenchEvent,
    BenchFinished,
    BenchStarted,
    CaseRefused,
    CaseTimed,
    StationFailed,
    StationReady,
    Timing,
)
from attncheck.engine.baseline import ran_on

FORMAT = 2
"""1 held sums of parts where a run's own time now is."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""Of a median, a rate or a ratio: what is not above zero would be a fault of the clock, and is told as one."""

Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Seconds; of a single run they may be less than what the clock counts in."""

Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class PartEntry:
    """A kernel of a run, or several that follow each other; median: seconds.

    apart   it only moves rows into place, and is not in the contender's time
    alone   it was timed by itself in further runs: such parts take more together than the run
    """

    name: str
    apart: bool
    alone: bool
    median: Duration


@dataclass(frozen=True)
class RowEntry:
    """One contender on one case; numbers are null where nothing was timed.

    use              the backend that `backend` configures or pins, as its table or NAME@VERSION says
    label            as the table shows it: the backend, and the kernel asked for
    kernel           what ran
    median, p10, p90 seconds of a run without what is apart; seconds: every run
    apart            median seconds of what only moves rows
    to_naive         how many times as fast as the naive kernel; to_ort_webgpu: as ONNX Runtime's WebGPU provider
    """

    backend: str
    use: str
    label: str
    kernel: str
    verdict: str
    message: str
    clock: str
    median: Positive | None
    p10: Duration | None
    p90: Duration | None
    apart: Duration | None
    to_naive: Positive | None
    to_ort_webgpu: Positive | None
    seconds: tuple[Duration, ...]
    parts: tuple[PartEntry, ...]

    @property
    def timed(self) -> bool:
        """Whether there are durations."""
        return self.median is not None


@dataclass(frozen=True)
class CaseEntry:
    """One case. `message` says why nobody was given it; flop, bytes and kv_bytes are the least that any kernel does."""

    id: str
    axes: str
    digest: str
    message: str
    judged: str
    dtype: str
    flop: Count
    bytes: Count
    kv_bytes: Count
    rows: tuple[RowEntry, ...]


@dataclass(frozen=True)
class RatesEntry:
    """What the adapter was seen to do at its best: operations a second, and bytes read and written a second."""

    fma: Positive
    copy: Positive
    matrix: Positive | None


@dataclass(frozen=True)
class StationEntry:
    """A backend; `message` says why it could not start."""

    name: str
    started: bool
    versions: dict[str, str] = field(default_factory=dict)
    device: dict[str, Any] = field(default_factory=dict)
    rates: RatesEntry | None = None
    message: str = ""


@dataclass(frozen=True)
class Bench:
    """A bench. `bench` is the version of this format; `software`: whether absolute durations say nothing."""

    bench: int
    attncheck: str
    interrupted: bool
    seconds: Duration
    software: bool
    settings: dict[str, str]
    backends: tuple[StationEntry, ...]
    cases: tuple[CaseEntry, ...]


@dataclass(frozen=True)
class _Versioned:
    """What a document of any format has."""

    bench: int


class Unreadable(ValueError):
    """A file is no document of a bench. The message says why."""


def read(path: Path) -> Bench:
    """The document that stands in a file. Raises Unreadable."""
    try:
        text = path.read_bytes()
        version = TypeAdapter(_Versioned).validate_json(text, strict=True).bench
        if version != FORMAT:
            raise Unreadable(f"{path} has format {version}; this attncheck reads format {FORMAT}")
        return TypeAdapter(Bench).validate_json(text, strict=True)
    except OSError as failed:
        raise Unreadable(f"{path} cannot be read: {failed.strerror or failed}") from failed
    except ValidationError as wrong:
        first = wrong.errors()[0]
        here = f", not {reprlib.repr(first['input'])}" if isinstance(first["input"], bool | int | float | str) else ""
        told = f"{first['msg']}{here if first['loc'] else ''}"
        raise _wrong(path, ".".join(map(str, first["loc"])), told) from wrong


def baseline(path: Path) -> Baseline:
    """The ratios that a document holds. Raises Unreadable, also where it holds none."""
    found = read(path)
    rows: dict[tuple[str, str], Known] = {}
    adapters = {it.name: adapter(Hello(it.versions, it.device)) for it in found.backends}
    for number, case in enumerate(found.cases):
        placed = [_Placed(row, adapters.get(row.backend, NOWHERE)) for row in case.rows]
        for index, row in enumerate(case.rows):
            place = f"cases.{number}.rows.{index}"
            if (case.id, row.label) in rows:
                raise _wrong(path, place, f"a second row of {row.label} on {case.id}, of which there can be one")
            rows[case.id, row.label] = Known(case.digest, dict(_ratios(path, place, placed[index], placed)))
    if not any(known.ratios for known in rows.values()):
        raise Unreadable(
            f"{path} holds no ratio: in none of its cases ({len(found.cases)}) was a contender timed beside the naive "
            "kernel or ort-webgpu"
        )
    made_with = {it.name: ran_on(it.versions, it.device) for it in found.backends if it.started}
    return Baseline(rows, found.interrupted, found.software, made_with)


@dataclass(frozen=True)
class _Placed:
    """A row with what it was computed on, which stands with its backend."""

    entry: RowEntry
    adapter: Adapter

    @property
    def backend(self) -> str:
        return self.entry.backend

    @property
    def label(self) -> str:
        return self.entry.label

    @property
    def use(self) -> str:
        return self.entry.use

    @property
    def timed(self) -> bool:
        return self.entry.timed


def _ratios(path: Path, place: str, row: _Placed, rows: Sequence[_Placed]) -> Iterator[tuple[str, Ratio]]:
    """Those that are not of a row to itself, nor to one on another adapter, which were written once."""
    said = {comparison.NAIVE: row.entry.to_naive, comparison.WEBGPU: row.entry.to_ort_webgpu}
    elsewhere = comparison.elsewhere(row, rows)
    for name, anchor in comparison.anchors(row, rows).items():
        value = said[name]
        if value is None or anchor is row or name in elsewhere:
            continue
        if anchor is None or not (anchor.timed and row.timed):
            raise _wrong(path, place, f"a ratio to {name} is allowed where both were timed, and they were not")
        yield name, Ratio(value, anchor.label)


def _wrong(path: Path, place: str, told: str) -> Unreadable:
    at = f" at {place}" if place else ""
    return Unreadable(f"{path} is no report of attncheck bench{at}: {told}; `--report json=FILE` writes one")


def text(events: Sequence[BenchEvent]) -> str:
    """The document of a bench's events."""
    data = TypeAdapter(Bench).dump_python(document(events), mode="json", warnings=False)
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def schema_text() -> str:
    """The JSON Schema of the document, draft 2020-12."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "attncheck bench"}
    schema = TypeAdapter(Bench).json_schema(mode="serialization")
    return json.dumps({**head, **schema, **head}, indent=2, ensure_ascii=False) + "\n"


def document(events: Sequence[BenchEvent]) -> Bench:
    """The document of what has happened so far."""
    started = next((it for it in events if isinstance(it, BenchStarted)), BenchStarted((), ()))
    finished = next((it for it in events if isinstance(it, BenchFinished)), BenchFinished(0.0, interrupted=True))
    ready = [it for it in events if isinstance(it, StationReady)]
    return Bench(
        bench=FORMAT,
        attncheck=__version__,
        interrupted=finished.interrupted,
        seconds=finished.seconds,
        software=any(not it.adapter.speaks for it in ready),
        settings=dict(started.settings),
        backends=tuple(_station(it) for it in events if isinstance(it, StationReady | StationFailed)),
        cases=tuple(_case(it) for it in events if isinstance(it, CaseTimed | CaseRefused)),
    )


def _station(event: StationReady | StationFailed) -> StationEntry:
    if isinstance(event, StationFailed):
        return StationEntry(event.backend, started=False, message=event.message)
    rates = None if event.rates is None else RatesEntry(**asdict(event.rates))
    return StationEntry(event.backend, True, dict(event.hello.versions), dict(event.hello.device), rates)


def _case(event: CaseTimed | CaseRefused) -> CaseEntry:
    if isinstance(event, CaseRefused):
        return CaseEntry(event.case, "", "", event.message, "", "", 0, 0, 0, ())
    rows = tuple(_row(timing, event.timings) for timing in event.timings)
    work = event.work
    return CaseEntry(
        event.case, event.axes, event.digest, "", event.judged, event.dtype, work.flop, work.bytes, work.kv_bytes, rows
    )


def _row(timing: Timing, timings: Sequence[Timing]) -> RowEntry:
    of = timing.summary if timing.timed else None
    moving = timing.moving
    return RowEntry(
        backend=timing.backend,
        use=timing.use,
        label=timing.label,
        kernel=timing.kernel,
        verdict=str(timing.verdict),
        message=timing.message,
        clock=timing.clock,
        median=None if of is None else of.median,
        p10=None if of is None else of.p10,
        p90=None if of is None else of.p90,
        apart=None if moving is None else moving.median,
        to_naive=comparison.against(timing, comparison.naive_of(timing, timings)),
        to_ort_webgpu=comparison.against(timing, comparison.webgpu_of(timing, timings)),
        seconds=timing.seconds,
        parts=tuple(PartEntry(it.name, it.apart, it.alone, it.median) for it in timing.parts),
    )
