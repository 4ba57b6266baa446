"""``attncheck check``: one case as a yes or no, for other reducers and for ``git bisect run``."""

from __future__ import annotations

from typing import Any

import click

from attncheck.cli import options
from attncheck.vocabulary import Verdict


@click.command(short_help="Answer other tools whether a case fails.", context_settings=options.CONTEXT)
@options.SELECTION
@options.BACKENDS
@options.LIMITS
@click.option("--predicate", is_flag=True, help="Exit with 0 where CASE fails, 1 where not, 125 where none can tell.")
@click.option(
    "--verdict",
    multiple=True,
    type=click.Choice([str(verdict) for verdict in Verdict if verdict is not Verdict.PASS]),
    metavar="VERDICT",
    help="Fails means only this (repeatable): mismatch, crash, ...",
)
@click.option("--passes", is_flag=True, help="Exit with 0 where CASE passes and 1 where it fails.")
@click.pass_context
def check(
    ctx: click.Context, /, predicate: bool, verdict: tuple[str, ...], passes: bool, **given: Any
) -> int:
    """Run one case on one backend, and say by the exit code alone what it came to.

    CASE is an id, a scenario file with one case, a bundle (folder or zip), or a model with --inputs. With --predicate
    0 means interesting: it fails. 125 means that nobody can tell: it is unsupported, does not load, this call cannot be
    read, or the backend does not start.
    """
    from attncheck.cli import predicate as predicates

    if not predicate:
        raise click.UsageError("say --predicate: attncheck check --predicate CASE --backend NAME", ctx)
    return predicates.answer(ctx, given, frozenset(map(Verdict, verdict)), passes=passes)
