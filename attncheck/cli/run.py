"""``attncheck run``: evaluate cases and print the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from attncheck.cli import options

if TYPE_CHECKING:
    from attncheck.cli.session import Wanted


@click.command(short_help="Run cases and judge every backend.", context_settings=options.CONTEXT)
@options.SELECTION
@click.option("--list", is_flag=True, help="Print the ids of the selected cases, and run nothing.")
@options.BACKENDS
@options.JUDGEMENT
@options.DETAIL
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> int:
    """Run cases on every backend and hold the results against the float64 oracle.

    PATH is a scenario file or a folder of them; without any, the shipped scenarios run. CASE-ID is what the table and
    --list print, FILE::NAME, and may hold * and ?.
    """
    from attncheck.cli import selection, session

    if given["quiet"] and given["verbose"]:
        raise click.UsageError("-q and -v exclude each other", ctx)
    if given["journal"] and given["resume"]:
        raise click.UsageError("--journal begins a journal and --resume continues one: give one of them", ctx)
    scenarios = selection.shuffled(selection.selected(ctx.obj, given), given)
    if given["list"]:
        for scenario in scenarios:
            click.echo(scenario.id)
        return 0
    return session.run(scenarios, _wanted(ctx, given))


def _wanted(ctx: click.Context, given: dict[str, Any]) -> Wanted:
    from attncheck.cli import configuration, expectations
    from attncheck.cli.invocation import Invocation, said
    from attncheck.cli.session import Wanted
    from attncheck.reports.table import Detail
    from attncheck.vocabulary import Flag

    detail = Detail.QUIET if given["quiet"] else Detail.VERBOSE if given["verbose"] else Detail.NORMAL
    return Wanted(
        backends=given["backend"] or (options.DEFAULT_CANDIDATE,),
        reference=None if given["reference"] == options.NO_REFERENCE else given["reference"],
        adapters=given["adapter"],
        tables=configuration.backends(ctx.obj),
        kernel=given["kernel"],
        # A configuration file only gives a default; what this call says overrules a scenario's own kernel.
        kernel_forced=said(ctx, "kernel"),
        threshold=given["threshold"],
        shaders=given["shaders"],
        fail_fast=given["fail_fast"],
        sharpness=given["sharpness"],
        time_limit=given["time_limit"],
        backend_memory=given["backend_memory"],
        repeat=given["repeat"],
        expectations=expectations.wanted(ctx.obj, given),
        journal=given["journal"] or given["resume"],
        resume=given["resume"] is not None,
        exit_zero=given["exit_zero"],
        fail_on=frozenset(Flag(word) for word in given["fail_on"]),
        detail=detail,
        invocation=Invocation.of(ctx),
    )
