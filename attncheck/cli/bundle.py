"""``attncheck bundle``: a failing case as a folder to post, with a script that shows the failure by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from attncheck.cli import options


@click.command(short_help="Pack a failing case for a bug tracker.", context_settings=options.CONTEXT)
@options.SELECTION
@options.BACKENDS
@options.LIMITS
@click.option(
    "--out",
    default="bundle",
    show_default=True,
    metavar="DIR",
    type=options.Place(path_type=Path),
    help="Where the bundle goes; DIR.zip holds the same.",
)
@click.pass_context
def bundle(ctx: click.Context, /, out: Path, **given: Any) -> int:
    """Pack one failing case: scenario, model, inputs, expected outputs, an issue to paste, and repro.py.

    repro.py needs NumPy and the backend's own runtime, nothing of attncheck, and is run in a fresh process before the
    bundle is done. CASE-ID is what a run printed; a bundle, or what minimize left, is packed anew. The exit code is 0
    where the script shows the failure, 1 where it does not, or where the case does not fail.
    """
    from attncheck.cli import alone, packing

    with alone.alone(ctx, given) as asked:
        return packing.pack(asked, out)
