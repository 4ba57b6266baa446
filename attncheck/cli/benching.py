"""One bench as the terminal sees it: which cases and contenders, the table, the reports, the exit code."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import click
import psutil

from attncheck import __version__
from attncheck.backends.registry import Settings
from attncheck.bench import measure
from attncheck.bench.adapter import adapter
from attncheck.bench.baseline import Baseline, compared, incomparable
from attncheck.bench.contenders import Contender, contenders
from attncheck.bench.events import BenchEvent, BenchFinished, CaseRefused, CaseTimed, StationFailed
from attncheck.bench.station import Station
from attncheck.cli import configuration, options, overwriting, selection
from attncheck.cli.choosing import known, placing, serving
from attncheck.cli.messages import Stop, error, progress, unstarted
from attncheck.cli.output import Bar, Printer
from attncheck.cli.reported import Wish, check, check_writable, put
from attncheck.cli.session import interruptible
from attncheck.engine.worker import START_LIMIT
from attncheck.reports import bench_json, bench_plot, bench_table
from attncheck.reports.numbers import plural
from attncheck.scenario.model import Kernel, Scenario
from attncheck.scenario.select import BENCH, BENCH_SMALL, HUGE
from attncheck.vocabulary import ExitCode


def run(ctx: click.Context, given: Mapping[str, Any]) -> ExitCode:
    """Time what the call names. Raises Stop."""
    asked = _contenders(given, placing(given, configuration.backends(ctx.obj)))
    cases = _cases(ctx, given, asked)
    if given["list"]:
        for case in cases:
            click.echo(case.id)
        return ExitCode.OK
    wishes = tuple(map(Wish.read, given["report"]))
    plot = Path(given["plot"]) if given["plot"] is not None else None
    check(wishes)
    check_writable([plot] if plot is not None else [])
    overwriting.refuse_in_call(ctx.obj, given)
    before = _baseline(given)
    if before is not None:
        _refuse_incomparable(given["baseline"], before, cases, asked)
    events = _happen(cases, asked, given, silent=any(wish.path is None for wish in wishes))
    files = [(wish.path, bench_json.text(events)) for wish in wishes]
    files += [(plot, bench_plot.text(events))] if plot is not None else []
    written = [put(path, text) for path, text in files]
    code = _code(events, interrupted=not any(isinstance(it, BenchFinished) and not it.interrupted for it in events))
    if before is not None and code in (ExitCode.OK, ExitCode.FAILED, ExitCode.BACKEND):
        held = _compare(events, before, given)
        code = held if code is ExitCode.OK else code
    return code if all(written) or code is ExitCode.INTERRUPTED else ExitCode.INTERNAL


def _contenders(given: Mapping[str, Any], settings: Settings) -> tuple[Contender, ...]:
    names = given["backend"] or (options.DEFAULT_CANDIDATE,)
    if len(set(names)) < len(names):
        raise Stop(f"a backend is named twice: {', '.join(names)}", ExitCode.USAGE)
    kernels = tuple(dict.fromkeys(given["kernel"])) or tuple(it for it in get_args(Kernel) if it != "auto")
    with known():
        found = contenders(names, kernels, settings)
    labels = [it.label for it in found]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise Stop(f"two contenders are called {twice}: name each backend and adapter once", ExitCode.USAGE)
    return found


def _cases(ctx: click.Context, given: Mapping[str, Any], asked: Sequence[Contender]) -> list[Scenario]:
    """The cases that the call names, of which those that are there to be timed go before others."""
    named = given["what"] or given["case"]
    tags = given["tag"] or (() if named else (BENCH if _on_hardware(asked) else BENCH_SMALL,))
    # What a case takes is looked at when its turn comes: others are timed all the same.
    words = {**given, "tag": tags, "memory_limit": sys.maxsize}
    found = selection.selected(ctx.obj, words, (HUGE,))
    cases = [case for case in found if isinstance(case, Scenario)]
    meant = [case for case in cases if not {BENCH, BENCH_SMALL}.isdisjoint(case.tags)]
    if not cases:
        raise Stop("a model has no axes to tell its work from: give scenarios, or --case", ExitCode.USAGE)
    return meant or cases


def _on_hardware(asked: Sequence[Contender]) -> bool:
    """Whether the first backend of which it is known if its adapter is hardware has one; False where there is none."""
    for contender in {it.of: it for it in asked}.values():
        station = Station(contender.backend, START_LIMIT, None)
        with serving(contender.of), closing(station):
            kind = adapter(station.start(progress)).kind
        if kind in ("hardware", "software"):
            return kind == "hardware"
    return False


def _baseline(given: Mapping[str, Any]) -> Baseline | None:
    try:
        return bench_json.baseline(Path(given["baseline"])) if given["baseline"] is not None else None
    except bench_json.Unreadable as wrong:
        raise Stop(f"--baseline: {wrong}\nnothing was run", ExitCode.USAGE) from None


def _refuse_incomparable(
    file: str, before: Baseline, cases: Sequence[Scenario], asked: Sequence[Contender]
) -> None:
    """Raise Stop (exit code 5) where no ratio of this call can be compared: it is known before anything is timed."""
    why = incomparable(before, {case.id for case in cases}, [it.label for it in asked])
    if why:
        raise Stop(f"nothing of this call could be compared with {file}: {why}\nnothing was run", ExitCode.NOTHING)


def _happen(
    cases: Sequence[Scenario], asked: Sequence[Contender], given: Mapping[str, Any], *, silent: bool
) -> list[BenchEvent]:
    """Time everything and print the table as it comes."""
    cancelled = threading.Event()
    told = measure.Options(
        runs=given["runs"],
        batch=given["batch"],
        seconds=given["seconds"],
        beyond=given["cache"],
        host_memory=given["memory_limit"] or psutil.virtual_memory().total // 2,
        device_memory=given["device_memory"],
        time_limit=given["time_limit"],
        cancelled=cancelled,
        note=progress,
        settings={
            "attncheck": __version__,
            "runs": str(given["runs"]),
            **{name: given[name] or "shipped" for name in ("shaders", "thresholds")},
            **({"threshold": str(given["threshold"])} if given["threshold"] is not None else {}),
        },
    )
    printer = Printer(silent=silent)
    table = bench_table.Table(printer.width)
    events: list[BenchEvent] = []
    bar = Bar(len(cases), wanted=True)
    with interruptible(cancelled), bar, closing(measure.bench(cases, asked, told)) as happening:
        for event in happening:
            events.append(event)
            lines = table.lines(event)
            if lines or isinstance(event, StationFailed):
                with bar.aside():
                    printer.print(lines)
                    if isinstance(event, StationFailed):
                        error(unstarted(event.backend, event.message))
            if isinstance(event, CaseTimed | CaseRefused):
                bar.advance(event.case)
    return events


def _compare(events: Sequence[BenchEvent], before: Baseline, given: Mapping[str, Any]) -> ExitCode:
    """Print how the ratios stand to the baseline's; exit code 1 where one is below what was asked for."""
    found = compared(events, before)
    least = given["fail_below"]
    silent = any(Wish.read(text).path is None for text in given["report"])
    printer = Printer(silent=silent)
    printer.print(bench_table.compared_lines(found, least, printer.width))
    if not found.changes:
        error("no ratio could be compared with the baseline")
        return ExitCode.NOTHING
    worse = found.below(least) if least is not None else ()
    if worse:
        error(f"--fail-below {least:g}: {plural(len(worse), 'ratio')} fell below that share of the baseline's")
    return ExitCode.FAILED if worse else ExitCode.OK


def _code(events: Sequence[BenchEvent], *, interrupted: bool) -> ExitCode:
    if interrupted:
        return ExitCode.INTERRUPTED
    timings = [timing for event in events if isinstance(event, CaseTimed) for timing in event.timings]
    if any(timing.failed for timing in timings):
        return ExitCode.FAILED
    if any(isinstance(event, StationFailed) for event in events):
        return ExitCode.BACKEND
    if not any(timing.timed for timing in timings):
        error("nothing was timed")
        return ExitCode.NOTHING
    return ExitCode.OK
