"""``attncheck init``: what a repository needs to begin."""

from __future__ import annotations

from pathlib import Path

import click

from attncheck.cli import options


@click.command(short_help="Write first scenarios, a configuration and a workflow.", context_settings=options.CONTEXT)
@click.argument("folder", default=".", type=options.Place(file_okay=False, path_type=Path), metavar="[DIR]")
def init(folder: Path) -> int:
    """Write into DIR what one begins with: scenarios with their JSON Schema for editors, attncheck.toml, a workflow.

    Nothing that is there is overwritten: then nothing is written at all.
    """
    from attncheck.cli import beginning

    beginning.write(folder)
    return 0
