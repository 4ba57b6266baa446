"""``attncheck minimize``: the smallest case that still fails in the same way."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from attncheck.cli import options

_RUNS = re.compile(r"([1-9]\d{0,2})/([1-9]\d{0,2})")


def _runs(_ctx: click.Context, _option: click.Parameter, text: str) -> tuple[int, int]:
    found = _RUNS.fullmatch(text)
    if found is None or int(found[1]) > int(found[2]):
        raise click.BadParameter(f"{text!r} is not M/N: M failing runs of N, as in 3/3 or 1/5")
    return int(found[1]), int(found[2])


@click.command(
    short_help="Shrink a failing case to the smallest that fails in the same way.", context_settings=options.CONTEXT
)
@options.SELECTION
@options.BACKEND
@options.PLACING
@options.LIMITS
@click.option(
    "--out",
    type=options.Place(path_type=str),
    default="minimal",
    show_default=True,
    metavar="DIR",
    help="Where the smallest case goes.",
)
@click.option(
    "--time",
    type=options.Amount(),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="What the search may take in all, earlier parts of it included; the start is run whatever it takes.",
)
@click.option(
    "--evaluations",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many runs of a case the search may take in all; the start is run whatever it takes.",
)
@click.option(
    "--runs",
    default="3/3",
    show_default=True,
    metavar="M/N",
    callback=_runs,
    help="Run the start and the end N times, of which M must fail.",
)
@click.option("--same-kernel", is_flag=True, help="Follow only cases that the same kernels computed.")
@click.option("--jobs", type=click.IntRange(1, 64), default=2, show_default=True, metavar="N", help="Workers at once.")
@click.option(
    "--verify",
    type=options.Place(exists=True, path_type=str),
    metavar="DIR",
    help="Run the smallest case in DIR, or in a bundle's zip file, and its neighbours again.",
)
@click.option("--bundle/--no-bundle", default=True, help="Whether the smallest case is bundled.  [default: it is]")
@click.option(
    "--restart",
    is_flag=True,
    help="Search afresh where DIR holds another search: of a kernel that was edited since, say.",
)
@click.option("-q", "--quiet", is_flag=True, help="Only the smallest case.")
@click.pass_context
def minimize(ctx: click.Context, /, **given: Any) -> int:
    """Shrink one failing case to the smallest that fails in the same way, with proof that none near is smaller.

    CASE-ID is what a run printed; a bundle, folder or zip, names its case as well. DIR gets the case, its model and
    arrays, a journal to go on from, and minimal.json: every case one step simpler, with what it came to; and a bundle
    to post, as attncheck bundle makes it. The same call again goes on where the last one was ended.
    """
    from attncheck.cli import alone, shrinking

    if given["verify"] is not None:
        return shrinking.verify(ctx, given)
    if not (given["what"] or given["case"]):
        raise click.UsageError("name the case to shrink: the id that a run printed, or --case", ctx)
    with shrinking.place(Path(given["out"])) as out, alone.bundled(ctx, given, out) as words:
        return shrinking.shrink(alone.single(ctx, words), shrinking.wanted(ctx, words))
