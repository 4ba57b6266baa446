"""One tuning as the terminal sees it: sizes timed, the fastest kernel at each, the file of rules."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import click
import psutil

from attncheck.backends.base import Hello
from attncheck.backends.registry import kind_of
from attncheck.backends.wgsl import limits
from attncheck.bench import measure, tuning
from attncheck.bench.contenders import Contender, contenders
from attncheck.bench.events import CaseTimed, StationFailed
from attncheck.bench.tuning import Asked
from attncheck.cli import configuration, options, overwriting
from attncheck.cli.choosing import known, placing, serving
from attncheck.cli.messages import Stop, error, progress, unstarted
from attncheck.cli.output import Bar, Printer
from attncheck.cli.reported import check_writable
from attncheck.cli.session import interruptible
from attncheck.engine import trial
from attncheck.engine.files import write_whole
from attncheck.reports.bench_table import digits
from attncheck.reports.lines import Line, Role, Span, line
from attncheck.scenario.model import Kernel
from attncheck.vocabulary import ExitCode

MOST, MOST_SOFTWARE = 65536, 4096
COLUMN = 10


def run(ctx: click.Context, given: Mapping[str, Any]) -> ExitCode:
    """Measure, print, write. Raises Stop."""
    out = Path(given["out"])
    check_writable([out])
    overwriting.refuse_in_call(ctx.obj, given)
    everyone = _contenders(ctx, given)
    hello = _hello(everyone[0])
    software = bool(hello.device["software"])
    memory = psutil.virtual_memory().total // 2
    most = given["most_keys"] or (MOST_SOFTWARE if software else MOST)
    cases = tuning.asked(most, limits(hello), memory)
    timed, code = _timed(cases, everyone, given["runs"], memory)
    if code is not ExitCode.OK:
        return code
    found = [
        rule
        for way in tuning.ways(most)
        for rule in tuning.rules(
            way, *(tuning.times(timed, cases, way, dtype) for dtype in ("float32", "float16"))
        )
    ]  # fmt: skip
    when = datetime.now(UTC).date().isoformat()
    text = tuning.text(found, str(hello.device["adapter"]), software, when)
    try:
        write_whole(out, text.encode())
    except OSError as failed:
        raise Stop(f"cannot write {out}: {failed.strerror or failed}", ExitCode.INTERNAL) from None
    Printer().print([line(""), *(line(_said(rule)) for rule in found), line(f"{len(found)} rules written to {out}")])
    return ExitCode.OK


def _contenders(ctx: click.Context, given: Mapping[str, Any]) -> tuple[Contender, ...]:
    names = given["backend"] or (options.DEFAULT_CANDIDATE,)
    settings = placing(given, configuration.backends(ctx.obj))
    if len(names) > 1 or len(given["adapter"]) > 1:
        raise Stop("rules are those of one backend on one adapter: name one of each", ExitCode.USAGE)
    with known():
        if not kind_of(names[0], settings).gpu:
            raise Stop(f"{names[0]} has no kernels to choose among: name wgsl or wgsl-dawn", ExitCode.USAGE)
        return contenders(names, tuple(it for it in get_args(Kernel) if it != "auto"), settings)


def _hello(contender: Contender) -> Hello:
    with serving(contender.of):
        return trial.start(contender.backend, progress)


def _timed(
    cases: Sequence[Asked], everyone: Sequence[Contender], runs: int, memory: int
) -> tuple[list[CaseTimed], ExitCode]:
    """Every case as it was timed, a line each."""
    cancelled = threading.Event()
    told = measure.Options(runs=runs, host_memory=memory, device_memory=memory, cancelled=cancelled, note=progress)
    named = {it.scenario.id: it for it in cases}
    kernels = [it.kernel for it in everyone]
    printer, bar = Printer(), Bar(len(cases), wanted=True)
    printer.print([line("".ljust(24) + "".join(kernel.rjust(COLUMN) for kernel in kernels), "title")])
    timed: list[CaseTimed] = []
    failed = False
    happening = measure.bench([it.scenario for it in cases], everyone, told)
    with interruptible(cancelled), bar, closing(happening) as events:
        for event in events:
            if isinstance(event, StationFailed):
                failed = True
                error(unstarted(event.backend, event.message))
            if isinstance(event, CaseTimed):
                timed.append(event)
                with bar.aside():
                    printer.print(_lines(named[event.case], event, kernels))
                bar.advance(event.case)
    wrong = [timing for case in timed for timing in case.timings if timing.failed]
    for timing in wrong:
        error(f"{timing.label}: {timing.verdict}, {timing.message}; no rules are written")
    if cancelled.is_set():
        return timed, ExitCode.INTERRUPTED
    if wrong:
        return timed, ExitCode.FAILED
    return timed, ExitCode.BACKEND if failed else ExitCode.OK


def _lines(asked: Asked, event: CaseTimed, kernels: Sequence[str]) -> list[Line]:
    """How many times as long as the fastest each kernel takes; nothing under one that does not cover the case."""
    medians = {it.kernel: it.summary.median for it in event.timings if it.timed}
    fastest = min(medians.values(), default=0.0)
    spans = [Span(f"{asked.way.name} {asked.dtype} {asked.keys}".ljust(24))]
    for kernel in kernels:
        told = "" if kernel not in medians else digits(medians[kernel] / fastest)
        role: Role = "good" if medians.get(kernel) == fastest else "plain"
        spans.append(Span(told.rjust(COLUMN), role))
    return [Line(tuple(spans))]


def _said(rule: tuning.Rule) -> str:
    return f"{rule.way.name}: {rule.kernel} from {rule.keys} keys on ({rule.measured})"
