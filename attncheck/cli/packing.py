"""One `bundle` as the terminal sees it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from attncheck.backends.base import Backend, BackendUnavailable
from attncheck.backends.registry import Settings, create, table_of
from attncheck.backends.tables import Table
from attncheck.bundle import contents, failing, script, words
from attncheck.bundle.subject import Subject
from attncheck.cli.alone import Alone
from attncheck.cli.choosing import serving
from attncheck.cli.messages import Stop, error, progress, unwritten, warning
from attncheck.cli.options import DEFAULT_REFERENCE
from attncheck.engine.run import Options
from attncheck.scenario.model import Scenario
from attncheck.vocabulary import ExitCode


def pack(asked: Alone, out: Path) -> ExitCode:
    """Run the case, write the bundle, and say what its script came to."""
    try:
        contents.check_place(out)
        it = subject(asked)
        scenario = asked.given if isinstance(asked.given, Scenario) else None
        table = table_of(asked.named, asked.settings)
        made = contents.write(out, it, scenario, options=asked.shaping, table=table)
    except failing.NotFailing as passing:
        error(f"{asked.given.id}: {passing}; there is nothing to pack")
        return ExitCode.FAILED
    except script.Unscripted as unscripted:
        error(f"{asked.given.id}: no script can show it: {unscripted}")
        return ExitCode.FAILED
    except contents.NoPlace as occupied:
        raise Stop(f"{occupied}\nnothing was written", ExitCode.USAGE) from None
    except OSError as failed:
        raise unwritten(f"the bundle {out}", failed, ran=True) from None
    click.echo(words.title(it))
    for line in words.numbers(it):
        click.echo(f"  {line}")
    click.echo(f"\n{made.folder} and {made.archive}: {', '.join(made.files)}")
    click.echo(f"{script.NAME} in a fresh process: {made.rerun.words} ({made.rerun.seconds:.1f}s)")
    if not made.rerun.shows:
        error(f"{script.NAME} does not show the failure by itself: {made.wanting}")
    return ExitCode.OK if made.rerun.shows else ExitCode.FAILED


def pack_again(
    case: Scenario,
    backend: Backend,
    limits: Options,
    out: Path,
    runs: int,
    shaping: Mapping[str, Any],
    table: Table | None,
) -> None:
    """Make the folder of what `minimize` has found a bundle. What cannot be shown is said; only Stop is raised.

    runs     how often the case was run to see it fail: as many processes, three at least, try
    shaping  options of the call that decide what it comes to, by parameter name
    table    what the configuration says of the backend, where it does
    """
    (reference,) = create(DEFAULT_REFERENCE, Settings())
    wanted = None if backend.name == reference.name else reference
    try:
        it = _seen(case, backend, wanted, limits, max(runs, 3))
        made = contents.write(out, it, case, options=shaping, table=table)
    except (failing.NotFailing, script.Unscripted, BackendUnavailable) as why:
        warning(f"no bundle was made: {why}")
        return
    except OSError as failed:
        raise unwritten(f"the bundle {out}", failed, ran=True) from None
    click.echo(f"bundle: {made.archive}; {script.NAME} in a fresh process: {made.rerun.words}")
    if not made.rerun.shows:
        warning(f"{script.NAME} does not show the failure by itself: {made.wanting}")


def _seen(case: Scenario, backend: Backend, reference: Backend | None, limits: Options, tries: int) -> Subject:
    """The failure, of a case that may fail in some runs only."""
    for _ in range(tries - 1):
        try:
            return failing.subject(case, backend, reference, limits, told)
        except failing.NotFailing:
            continue
    return failing.subject(case, backend, reference, limits, told)


def subject(asked: Alone) -> Subject:
    """The failing case. Raises NotFailing, Unscripted, and Stop (exit code 4) where the backend cannot start."""
    with serving(asked.named):
        return failing.subject(asked.given, asked.backend, asked.reference, asked.options, told)


def told(backend: str, note: str) -> None:
    """Say that an environment is being made."""
    progress(f"{backend}: {note}")
