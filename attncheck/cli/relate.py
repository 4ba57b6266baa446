"""``attncheck relate``: hold every backend against itself by relations that need no right numbers."""

from __future__ import annotations

from typing import Any

import click

from attncheck.cli import completing, gates, options


@click.command(short_help="Check relations that need no reference.", context_settings=options.CONTEXT)
@options.SELECTION
@click.option(
    "--relation",
    multiple=True,
    metavar="NAME",
    shell_complete=completing.relations,
    help="Check this relation only; may be repeated.  [default: all that apply]",
)
@options.LIST
@options.BACKENDS
@options.JUDGEMENT
@gates.GATES
@options.DETAIL
@click.pass_context
def relate(ctx: click.Context, /, relation: tuple[str, ...], **given: Any) -> int:
    """Check relations of cases on every backend: S calls of one token equal one call, packed equals separate.

    Each case is run with its twin, and the backend's two results are held against each other; no reference judges.
    CASE-ID is what the table and --list print, FILE::NAME/RELATION, or that of a case for all its relations.
    """
    from attncheck.cli import asked, related, reported, selection, session, sharing

    given = {**selection.with_paths(ctx.obj, given)}
    asked.refuse_contradictions(ctx, given)
    with reported.also_of_nothing(given):
        mine = sharing.shared(related.selected(ctx, relation, given), given)
    cases = selection.shuffled(mine.cases, given)
    if given["list"]:
        for case in cases:
            click.echo(case.id)
        return 0
    return session.run(cases, related.wanted(ctx, given, mine.elsewhere))
