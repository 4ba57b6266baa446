"""``attncheck report``: tell runs that are over in another format, and several as one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from attncheck.cli import options

if TYPE_CHECKING:
    from attncheck.reports.document import Report

ACTIONS = ("convert", "merge")
NOT_WRITTEN = "nothing was written"


@click.command(short_help="Convert the report of a run, or merge several.", context_settings=options.CONTEXT)
@click.argument("action", type=click.Choice(ACTIONS))
@click.argument("inputs", nargs=-1, required=True, type=options.Name(), metavar="FILE...")
@options.REPORT
@click.option("--exit-code", is_flag=True, help="Exit as the run would have: with 1 where a case failed.")
@click.pass_context
def report(
    ctx: click.Context, /, action: str, inputs: tuple[str, ...], report: tuple[str, ...], *, exit_code: bool
) -> int:
    """Write reports of runs that are over: of one FILE (convert), or of several made one (merge).

    FILE is what --report json or ndjson, or --journal wrote. Merged are the shards of a run, and runs of the same cases
    on other machines or versions, whose backends are told apart by the names of the files.
    """
    from attncheck.cli import overwriting, reported
    from attncheck.cli.invocation import said
    from attncheck.engine import status
    from attncheck.engine.events import RunFinished

    if action == "convert" and len(inputs) > 1:
        raise click.UsageError(f"convert takes one file, here are {len(inputs)}; merge makes one of several", ctx)
    # Not those of a configuration file, which are for runs.
    if not said(ctx, "report"):
        raise click.UsageError("say what to write, as in --report markdown or --report junit=FILE", ctx)
    wishes = tuple(map(reported.Wish.read, report))
    reported.check(wishes, NOT_WRITTEN)
    sources = [overwriting.Named(f"{name}, which this call reads", Path(name)) for name in inputs]
    overwriting.refuse(tuple(overwriting.reports(report)), sources, NOT_WRITTEN)
    found = _read([Path(name) for name in inputs])
    whole = reported.write(found, wishes)
    if not whole:
        from attncheck.vocabulary import ExitCode

        return ExitCode.INTERNAL
    if not exit_code:
        return 0
    finished = RunFinished(found.counts, found.seconds, found.interrupted)
    return status.exit_code(finished, [it.name for it in found.backends if not it.started])


def _read(paths: list[Path]) -> Report:
    """The one report of all `paths`. Raises Stop (exit code 2)."""
    from attncheck.cli.messages import Stop
    from attncheck.reports.document import Unreadable
    from attncheck.reports.merging import Conflict, merged, parts, refuse_doubles
    from attncheck.reports.reading import earlier
    from attncheck.vocabulary import ExitCode

    try:
        reports = [earlier(path) for path in paths]
        refuse_doubles(paths, reports)
        return reports[0] if len(reports) == 1 else merged(parts(paths, reports))
    except (Unreadable, Conflict) as wrong:
        raise Stop(str(wrong), ExitCode.USAGE) from None
