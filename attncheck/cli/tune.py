"""``attncheck tune``: from what sizes on which kernel of our own pays on the adapter at hand."""

from __future__ import annotations

from typing import Any

import click

from attncheck.cli import options


@click.command(short_help="Measure which kernel pays from what size on.", context_settings=options.CONTEXT)
@options.BACKEND
@options.ADAPTER
@options.SHADERS
@click.option(
    "--runs",
    type=click.IntRange(1, 10000),
    default=20,
    show_default=True,
    metavar="N",
    help="Timed runs of each kernel at each size.",
)
@click.option(
    "--most-keys",
    type=click.IntRange(32, 1 << 18),
    metavar="N",
    help="The longest past to look at.  [default: 65536, on an adapter that is software 4096]",
)
@click.option(
    "--out",
    type=options.Place(dir_okay=False, path_type=str),
    default="thresholds.toml",
    show_default=True,
    metavar="FILE",
    help="The rules, for --thresholds of every command that has a --kernel.",
)
@click.pass_context
def tune(ctx: click.Context, /, **given: Any) -> int:
    """Time our own kernels at sizes that double, and write the rules by which --kernel auto shall choose among them.

    A kernel takes over where it is at least a twentieth faster. Outputs are checked first, as attncheck bench does.
    """
    from attncheck.cli import tuning

    return tuning.run(ctx, given)
