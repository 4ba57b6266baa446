"""``attncheck bisect``: between which released versions of a runtime the verdict on a case changes."""

from __future__ import annotations

from typing import Any

import click

from attncheck.cli import options


@click.command(
    short_help="Find the version of a runtime with which a verdict changes.", context_settings=options.CONTEXT
)
@options.SELECTION
@options.BACKEND
@options.PLACING
@options.LIMITS
@click.option(
    "--versions",
    required=True,
    metavar="A..B|LIST",
    help="1.20..1.32, as the package index has them, or a list: 1.20.1,1.22.0,1.23.2.",
)
@click.pass_context
def bisect(ctx: click.Context, /, versions: str, **given: Any) -> int:
    """Run one case on released versions of a backend's package, and narrow down where its verdict changes.

    Each version gets an environment of its own, made once and kept. Where the verdict changes once, no more than
    log2(n) + 2 of n versions are run; where it changes more than once, that is said. The exit code is 0 where a change
    was found, and 1 where none was.
    """
    from attncheck.cli import alone, bisecting

    with alone.alone(ctx, {**given, "reference": options.NO_REFERENCE}) as asked:
        return bisecting.search(asked, versions)
