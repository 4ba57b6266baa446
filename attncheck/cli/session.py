"""One run as the terminal sees it: events from the engine to the table, the progress bar and the exit code."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from attncheck import __version__
from attncheck.backends.base import Backend, BackendUnavailable
from attncheck.backends.registry import Settings, UnknownBackend, create, kind_of
from attncheck.backends.tables import Table as BackendTable
from attncheck.cli.choosing import known, policy
from attncheck.cli.invocation import Invocation
from attncheck.cli.messages import Stop, error, progress, unstarted, warning
from attncheck.cli.output import Bar, Printer
from attncheck.cli.record import Record, record
from attncheck.cli.reported import Reports, Wish, reports
from attncheck.cli.seen import Seen
from attncheck.engine import run as engine
from attncheck.engine.baseline import Comparison
from attncheck.engine.events import (
    BackendFailed,
    BackendPreparing,
    CaseFinished,
    Commands,
)
from attncheck.engine.expectations import Expectations, Usage
from attncheck.reports.layout import Layout, name_of
from attncheck.reports.table import Detail, Table
from attncheck.scenario.model import Kernel, Scenario
from attncheck.vocabulary import ExitCode, Flag

EVERY_BACKEND = "*"
"""Stands in a scenario's tolerance for every backend."""


@dataclass(frozen=True)
class Wanted:
    """What the command line asks of a run, beyond the cases."""

    backends: tuple[str, ...]
    backends_said: bool
    """Whether this call names them, and not a configuration file or nobody."""
    reference: str | None
    adapters: tuple[str, ...]
    tables: Mapping[str, BackendTable]
    kernel: Kernel
    kernel_forced: bool
    threshold: int | None
    thresholds: str | None
    shaders: str | None
    fail_fast: bool
    sharpness: bool
    time_limit: float
    backend_memory: int
    repeat: int
    expectations: Expectations
    journal: str | None
    resume: bool
    exit_zero: bool
    fail_on: frozenset[Flag]
    partial: bool
    """Whether other machines run the other parts of the selection."""
    comparison: Comparison | None
    """With the earlier run that is the measure, where there is one."""
    detail: Detail
    reports: tuple[Wish, ...]
    invocation: Invocation
    shrinking: Invocation | None
    """The words of `minimize`, where it takes the ids of this run."""
    showing: Invocation | None
    """The words of `show --result`, where it takes them."""


@dataclass(frozen=True)
class Chosen:
    """The backends of a run; `called`: a candidate's name -> what the command line calls it."""

    candidates: tuple[Backend, ...]
    reference: Backend | None
    called: Mapping[str, str]

    @property
    def every(self) -> tuple[Backend, ...]:
        """The candidates, and behind them the reference."""
        return (*self.candidates, *([self.reference] if self.reference is not None else []))


def run(cases: Sequence[engine.Runnable], wanted: Wanted) -> ExitCode:
    """Run `cases`, print the table as the results come, and give the exit code."""
    chosen = backends(wanted)
    check_tolerances(cases, wanted)
    # Whatever is wrong with the call is known by now: a journal is not begun for nothing.
    with reports(wanted.reports) as told, record(wanted.journal, resume=wanted.resume) as kept:
        code = _run(cases, chosen, wanted, kept, told)
    # What the run found stands in the table; that a journal or report lacks it must not look like success.
    broken = kept.broken or told.broken
    return ExitCode.INTERNAL if broken and code is not ExitCode.INTERRUPTED else code


def _run(
    cases: Sequence[engine.Runnable], chosen: Chosen, wanted: Wanted, kept: Record, told: Reports
) -> ExitCode:
    names = [backend.name for backend in chosen.every]
    printer = Printer(silent=told.take_stdout)
    layout = Layout.fit((case.id for case in cases), names, printer.width)

    commands = commands_of(wanted, chosen)
    table = Table(layout, wanted.detail, commands.run, commands.minimize, commands.show, printer.ramp)
    baseline = wanted.comparison.baseline if wanted.comparison is not None else None
    seen = Seen(wanted.fail_on, baseline, exit_zero=wanted.exit_zero, partial=wanted.partial)
    cancelled = threading.Event()
    usage = Usage(wanted.expectations.entries)
    settled = replace(options(wanted, chosen), cancelled=cancelled, finished=kept.finished)
    bar = Bar(len(cases), wanted=wanted.detail is not Detail.QUIET)
    # Closed at once, and with it the workers, also where the reader of stdout has left or a second Ctrl-C came.
    with (
        interruptible(cancelled),
        bar,
        closing(engine.run(cases, chosen.candidates, chosen.reference, settled)) as events,
    ):
        for event in events:
            kept.note(event)
            told.note(event)
            seen.note(event)
            usage.note(event)
            lines = table.lines(event)
            if lines or isinstance(event, BackendPreparing | BackendFailed):
                with bar.aside():
                    printer.print(lines)
                    if isinstance(event, BackendPreparing):
                        progress(f"{event.backend}: {event.note}")
                    if isinstance(event, BackendFailed):
                        error(unstarted(event.backend, event.message))
            if isinstance(event, CaseFinished):
                bar.advance(name_of(event.origin.id))
    for unused in usage.unused():
        warning(unused)
    return seen.code()


def commands_of(wanted: Wanted, chosen: Chosen) -> Commands:
    """How a case of this run is run again, and shrunk: not at all where its ids are not for `minimize`."""
    shrinking = wanted.shrinking.on(Commands.CASE, Commands.BACKEND) if wanted.shrinking is not None else ()
    called = {name: word for name, word in chosen.called.items() if name != word}
    showing = wanted.showing.on(Commands.CASE, Commands.BACKEND) if wanted.showing is not None else ()
    running = wanted.invocation.on(Commands.CASE, Commands.BACKEND)
    return Commands(running, shrinking, called, showing, wanted.backends, unsaid=not wanted.backends_said)


def options(wanted: Wanted, chosen: Chosen) -> engine.Options:
    """How each case is run and judged, and what the run says of itself."""
    return replace(
        judging(wanted), settings=_settings(wanted, chosen.every), commands=commands_of(wanted, chosen)
    )


def judging(wanted: Wanted) -> engine.Options:
    """How each case is run and judged."""
    return engine.Options(
        time_limit=wanted.time_limit,
        memory_limit=wanted.backend_memory,
        repeat=wanted.repeat,
        fail_fast=wanted.fail_fast,
        sharpness=wanted.sharpness,
        expectations=wanted.expectations,
        comparison=wanted.comparison,
    )


def _settings(wanted: Wanted, backends: Sequence[Backend]) -> dict[str, str]:
    """What decides the numbers beside the cases and the backends' names, as a journal keeps it."""
    return {
        "attncheck": __version__,
        **{f"what {backend.name} runs": _identity(backend) for backend in backends},
        "kernel": f"{wanted.kernel}{' (forced)' if wanted.kernel_forced else ''}",
        "thresholds": wanted.thresholds or "shipped",
        "threshold": "the shipped ones" if wanted.threshold is None else f"{wanted.threshold} keys",
        "adapter": ", ".join(wanted.adapters) or "the first",
        "shaders": wanted.shaders or "shipped",
        "repeat": str(wanted.repeat),
    }


def _identity(backend: Backend) -> str:
    try:
        return backend.launch().identity
    except BackendUnavailable:
        return "unavailable"


def check_tolerances(cases: Sequence[engine.Runnable], wanted: Wanted) -> None:
    """Raise Stop where a scenario gives a tolerance to a backend that there is not: it would silently do nothing."""
    settings = _placing(wanted)
    for case in cases:
        for name in case.tolerance if isinstance(case, Scenario) else ():
            try:
                if name != EVERY_BACKEND:
                    kind_of(name, settings)
            except UnknownBackend as unknown:
                assert isinstance(case, Scenario)
                where = f"{case.source.file}:{case.source.line}"
                raise Stop(f"{where}: the tolerance of {case.id}: {unknown}", ExitCode.USAGE) from None


def _placing(wanted: Wanted) -> Settings:
    return Settings(
        policy=policy(wanted.kernel, wanted.threshold, wanted.thresholds),
        forced=wanted.kernel_forced,
        adapters=wanted.adapters,
        shaders=Path(wanted.shaders) if wanted.shaders is not None else None,
        tables=wanted.tables,
    )


def backends(wanted: Wanted) -> Chosen:
    """The backends that a call names. Raises Stop (exit code 2) where there is no such one, or one is named twice."""
    settings = _placing(wanted)
    if len(set(wanted.backends)) < len(wanted.backends):
        raise Stop(f"a backend is named twice: {', '.join(wanted.backends)}", ExitCode.USAGE)
    with known():
        # The backend that is the reference already need not run twice.
        reference = wanted.reference if wanted.reference not in wanted.backends else None
        called = [(backend, name) for name in wanted.backends for backend in create(name, settings)]
        others = create(reference, settings) if reference is not None else ()
    # A reference is one: of several adapters it takes the first.
    candidates = tuple(backend for backend, _ in called)
    chosen = Chosen(candidates, others[0] if others else None, {backend.name: name for backend, name in called})
    columns = [backend.name for backend in chosen.every]
    if len(set(columns)) < len(columns):
        named = ", ".join(columns)
        raise Stop(f"two backends have one name: {named}; give one a table, [backends.NAME]", ExitCode.USAGE)
    return chosen


@contextmanager
def interruptible(cancelled: threading.Event) -> Iterator[None]:
    """Let the first Ctrl-C, or a request to terminate, end the run with its report; a second one ends it at once."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        if cancelled.is_set():
            raise KeyboardInterrupt
        cancelled.set()
        # Not through a buffered stream: the signal may have interrupted a write to it.
        os.write(2, b"\nattncheck: interrupted; finishing the report (once more to leave at once)\n")

    asked = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, stop) for number in asked}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
