"""``attncheck bench``: how fast the backends compute cases that they compute right."""

from __future__ import annotations

from typing import Any, get_args

import click

from attncheck.cli import options
from attncheck.scenario.model import Kernel


@click.command(short_help="Time backends and kernels on cases that they get right.", context_settings=options.CONTEXT)
@options.CASES
@options.LIST
@options.BACKEND
@click.option(
    "--kernel",
    "kernel",
    multiple=True,
    type=click.Choice(get_args(Kernel)),
    metavar="NAME",
    help=f"Own kernel to time (repeatable), of {', '.join(get_args(Kernel))}.  [default: all but auto]",
)
@options.ADAPTER
@options.RULES
@options.SHADERS
@click.option(
    "--runs",
    type=click.IntRange(1, 10000),
    default=20,
    show_default=True,
    metavar="N",
    help="Timed runs of each contender on each case.",
)
@click.option(
    "--batch",
    type=click.IntRange(1, 10000),
    default=5,
    show_default=True,
    metavar="N",
    help="Runs of one contender before it is the next one's turn.",
)
@click.option(
    "--seconds",
    type=options.Amount(),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Give a contender that has taken so long on a case no further turn.",
)
@click.option(
    "--cache",
    type=options.Bytes(),
    default="256M",
    show_default=True,
    metavar="SIZE",
    help="What the buffers that decoding steps take in turn exceed: more than the GPU's own cache holds.",
)
@click.option(
    "--memory-limit",
    type=options.Bytes(),
    metavar="SIZE",
    help="Refuse cases that would need more memory here.  [default: half of this machine's]",
)
@click.option(
    "--device-memory",
    type=options.Bytes(),
    default="8G",
    show_default=True,
    metavar="SIZE",
    help="Do not time what would hold more memory on the device.",
)
@click.option(
    "--time-limit",
    type=options.Amount(),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="What a backend may take for one answer.",
)
@click.option(
    "--report",
    multiple=True,
    type=options.ReportWish(["json"]),
    metavar="FORMAT[=FILE]",
    help="Write a report when all is timed: json=FILE; without FILE it takes the place of the table.",
)
@click.option(
    "--plot",
    type=options.Place(suffix=".svg", dir_okay=False, path_type=str),
    metavar="FILE.svg",
    help="Draw what was timed, as an SVG file.",
)
@click.option(
    "--baseline",
    type=options.Place(exists=True, dir_okay=False, path_type=str),
    metavar="FILE",
    help="Hold the ratios against those of a former run's JSON report.",
)
@click.option(
    "--fail-below",
    type=options.Amount(),
    metavar="RATIO",
    help="Exit with 1 where a ratio is less than so many times the baseline's: 0.9.",
)
@click.pass_context
def bench(ctx: click.Context, /, **given: Any) -> int:
    """Time attention on backends and kernels, side by side, and hold it against what the adapter can do.

    Without a PATH the shipped cases are timed: those tagged bench on a GPU, those tagged bench-small on an adapter that
    is software. What is not right is not timed.
    """
    from attncheck.cli import asked, benching

    if given["fail_below"] is not None and given["baseline"] is None:
        raise click.UsageError("--fail-below compares with a --baseline: give one", ctx)
    for name in ("threshold", "thresholds"):
        here = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if here and "auto" not in given["kernel"]:
            raise click.UsageError(f"--{name} says what auto chooses, which is not timed: add --kernel auto", ctx)
    asked.refuse_idle_outputs(ctx, given)
    return benching.run(ctx, given)
