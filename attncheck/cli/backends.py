"""``attncheck backends``: which backends there are, which can run here, and why another cannot."""

from __future__ import annotations

from typing import Any

import click

from attncheck.cli import completing, options


@click.command(short_help="List the backends: which can run here, and why not.", context_settings=options.CONTEXT)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completing.backends)
@click.pass_context
def backends(ctx: click.Context, /, **given: Any) -> int:
    """List every backend, those of the configuration's [backends.NAME] tables too, and try to start each.

    A NAME says which to try, in any form that --backend takes; then the exit code is 4 when one of them cannot start.
    An environment that a backend requires is made first, once.
    """
    from attncheck.cli import configuration, trials

    return trials.run(given["names"], configuration.backends(ctx.obj))
