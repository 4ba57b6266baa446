"""``attncheck show``: one case, as words or as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from attncheck.cli import options
from attncheck.cli.invocation import KEPT

RUNNING = KEPT - {"memory_limit", "inputs", "dim"}
"""Parameters that say how a case is run, by name."""


@click.command(short_help="Show one case, or write its model and inputs.", context_settings=options.CONTEXT)
@options.SELECTION
@click.option(
    "--onnx",
    type=options.Place(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the case's ONNX model here.",
)
@click.option(
    "--npz",
    type=options.Place(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the model's inputs here, by name (float16 and float32 as they are).",
)
@click.option(
    "--step",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of a session, step N by itself: its past is the oracle's present of the step before.",
)
@click.option("--result", is_flag=True, help="Run the case on every backend, and show all there is to say of it.")
@click.option(
    "--from",
    type=options.Place(exists=True, dir_okay=False, path_type=str),
    metavar="FILE",
    help="Show the result in this JSON report or journal, and run nothing.",
)
@options.BACKENDS
@options.LIMITS
@options.REPEAT
@options.EXPECTING
@click.pass_context
def show(ctx: click.Context, /, onnx: Path | None, npz: Path | None, step: int | None, **given: Any) -> int:
    """Show one case: its scenario, the graph's inputs and outputs, and which keys each query sees.

    With --onnx or --npz, write its model or inputs to files instead; then any other tool can run it. With --result,
    show what came of it: every output on every backend with its numbers, what ran, a picture of what is wrong, stderr
    and the commands to go on with; the options from --backend on say how, as they do for attncheck run.
    """
    from attncheck.cli import exhibit, overwriting, selection

    _refuse_contradictions(ctx, onnx or npz or step, given)
    if given["from"] is not None:
        from attncheck.cli import results

        return results.tell_earlier(ctx, given)
    if given["result"]:
        from attncheck.cli import results

        return results.tell(ctx, given)
    case = selection.single(ctx.obj, given)
    if onnx is None and npz is None:
        exhibit.tell(case, step)
    else:
        overwriting.refuse_in_call(ctx.obj, {**given, "onnx": onnx, "npz": npz})
        exhibit.save(case, step, onnx, npz)
    return 0


def _refuse_contradictions(ctx: click.Context, exhibited: object, given: dict[str, Any]) -> None:
    """Raise click.UsageError for options that have nothing to say beside each other."""
    looked_at = given["result"] or given["from"] is not None
    if looked_at and exhibited:
        raise click.UsageError("--onnx, --npz and --step tell of a case, and --result of what came of it", ctx)
    here = click.core.ParameterSource.COMMANDLINE
    running = [name for name in sorted(RUNNING) if ctx.get_parameter_source(name) is here]
    if running and (given["from"] is not None or not looked_at):
        why = "--from runs nothing" if looked_at else "only --result runs the case"
        raise click.UsageError(f"--{running[0].replace('_', '-')} says how a case is run, and {why}", ctx)
