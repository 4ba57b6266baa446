"""``attncheck run``: evaluate cases and print the table."""

from __future__ import annotations

from typing import Any

import click

from attncheck.cli import gates, options


@click.command(short_help="Run cases and judge every backend.", context_settings=options.CONTEXT)
@options.SELECTION
@options.LIST
@options.BACKENDS
@options.JUDGEMENT
@gates.GATES
@options.DETAIL
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> int:
    """Run cases on every backend and hold the results against the float64 oracle.

    PATH is a scenario file or a folder of them; without any, the `paths` of the configuration run, or else the shipped
    scenarios. CASE-ID is what the table and --list print, FILE::NAME, and may hold * and ?.
    """
    from attncheck.cli import asked, reported, selection, session, sharing

    given = {**selection.with_paths(ctx.obj, given)}
    asked.refuse_contradictions(ctx, given)
    with reported.also_of_nothing(given):
        mine = sharing.shared(selection.selected(ctx.obj, given), given)
    cases = selection.shuffled(mine.cases, given)
    if given["list"]:
        for case in cases:
            click.echo(case.id)
        return 0
    return session.run(cases, asked.wanted(ctx, given, elsewhere=mine.elsewhere))
