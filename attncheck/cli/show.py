"""``attncheck show``: one case, as words or as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from attncheck.cli import options


@click.command(short_help="Show one case, or write its model and inputs.", context_settings=options.CONTEXT)
@options.SELECTION
@click.option(
    "--onnx",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the case's ONNX model here.",
)
@click.option(
    "--npz",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the model's inputs here, by name (float16 and float32 as they are).",
)
@click.option(
    "--step",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of a session, step N by itself: its past is the oracle's present of the step before.",
)
@click.pass_context
def show(ctx: click.Context, /, onnx: Path | None, npz: Path | None, step: int | None, **given: Any) -> int:
    """Show one case: its scenario, the graph's inputs and outputs, and which keys each query sees.

    With --onnx or --npz, write its model or inputs to files instead; then any other tool can run it.
    """
    from attncheck.cli import exhibit, selection

    case = selection.single(ctx.obj, given)
    if onnx is None and npz is None:
        exhibit.tell(case, step)
    else:
        exhibit.save(case, step, onnx, npz)
    return 0
