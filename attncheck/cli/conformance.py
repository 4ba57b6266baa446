"""``attncheck conformance``: the official tests of an operator set, on any backend."""

from __future__ import annotations

from typing import Any

import click

from attncheck.cli import gates, options

SUITES = ("onnx",)


@click.command(short_help="Run the official tests of attention operators.", context_settings=options.CONTEXT)
@click.argument("suite", type=click.Choice(SUITES))
@click.argument("what", nargs=-1, type=options.Name(), metavar="[CASE-ID]...")
@options.KEYWORD
@options.LIST
@options.BACKENDS
@options.JUDGEMENT
@gates.GATES
@options.DETAIL
@click.pass_context
def conformance(ctx: click.Context, /, suite: str, **given: Any) -> int:
    """Run the node tests of Attention, RotaryEmbedding and LinearAttention that the installed onnx package generates.

    Every backend is judged by the float64 oracle, as in run; where the output that a test states differs from the
    oracle, the row is flagged disputed. CASE-ID is what the table and --list print, and may hold * and ?.
    """
    from attncheck.cli import asked, official, reported, selection, session, sharing

    asked.refuse_contradictions(ctx, given)
    with reported.also_of_nothing(given):
        mine = sharing.shared(official.selected(given), given)
    cases = selection.shuffled(mine.cases, given)
    if given["list"]:
        for case in cases:
            click.echo(case.id)
        return 0
    return session.run(cases, asked.wanted(ctx, given, "attncheck", "conformance", suite, elsewhere=mine.elsewhere))
