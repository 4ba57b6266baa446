"""The whole of one case's results, as `attncheck show --result` prints it: run now, or taken from an earlier run."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from attncheck.cli import asked, selection, session
from attncheck.cli.addresses import NEAR
from attncheck.cli.messages import Stop, error, progress, unstarted
from attncheck.cli.output import Printer
from attncheck.engine import run as engine
from attncheck.engine.events import BackendFailed, BackendPreparing, Event
from attncheck.reports import whole
from attncheck.reports.document import Report, Unreadable, report
from attncheck.reports.entries import CaseEntry
from attncheck.reports.reading import earlier
from attncheck.vocabulary import ExitCode

SCENARIO = ("keyword", "tag", "set", "seed", "inputs", "dim")
"""Options that make or choose a case, which an earlier run has done."""

UNASKED: Mapping[str, Any] = {
    "fail_fast": False, "sharpness": True, "journal": None, "resume": None, "exit_zero": False, "fail_on": (),
    "quiet": False, "verbose": True, "report": (), "shard": None, "shard_times": (), "baseline": None,
}
"""What `run` can be asked for and this command cannot."""


def tell(ctx: click.Context, given: Mapping[str, Any]) -> ExitCode:
    """Run the case that the call names and print all there is; 4 where a backend did not start."""
    case = selection.single(ctx.obj, given)
    wanted = asked.wanted(ctx, {**UNASKED, **given})
    chosen = session.backends(wanted)
    session.check_tolerances([case], wanted)
    events: list[Event] = []
    for event in engine.run([case], chosen.candidates, chosen.reference, session.options(wanted, chosen)):
        events.append(event)
        if isinstance(event, BackendPreparing):
            progress(f"{event.backend}: {event.note}")
        if isinstance(event, BackendFailed):
            error(unstarted(event.backend, event.message))
    told = report(events)
    if told.cases:
        _print(told, told.cases[0])
    return ExitCode.OK if all(it.started for it in told.backends) else ExitCode.BACKEND


def tell_earlier(ctx: click.Context, given: Mapping[str, Any]) -> ExitCode:
    """Print what the report or journal of `--from` says of the case named. Raises Stop."""
    said = [f"--{name}" for name in SCENARIO if given[name]]
    if said:
        raise click.UsageError(f"{said[0]} makes or chooses a case to run; --from takes one that was run", ctx)
    try:
        told = earlier(Path(given["from"]))
    except Unreadable as wrong:
        raise Stop(f"--from: {wrong}", ExitCode.USAGE) from None
    _print(told, _named(told, given))
    return ExitCode.OK


def _named(told: Report, given: Mapping[str, Any]) -> CaseEntry:
    """The one case that the words name: by its id, or, where there is but one, by nothing."""
    known = {case.id: case for case in told.cases}
    words = [*given["what"], *(f"case:{text}" for text in given["case"])]
    if not words and len(known) == 1:
        return told.cases[0]
    if len(words) != 1:
        raise Stop(f"--from {given['from']}: name one of its {len(known)} cases by its id", ExitCode.USAGE)
    if words[0] not in known:
        near = get_close_matches(words[0], known, n=NEAR, cutoff=0.3)
        hint = "".join(f"\n  near: {one}" for one in near)
        raise Stop(f"{given['from']} has no case {words[0]}{hint}", ExitCode.USAGE)
    return known[words[0]]


def _print(told: Report, case: CaseEntry) -> None:
    printer = Printer()
    printer.print(whole.lines(told, case, printer.width, printer.ramp))
