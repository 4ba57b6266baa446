"""``attncheck doctor``: what is here, what is missing, what to install."""

from __future__ import annotations

import click

from attncheck.cli import options


@click.command(short_help="Say what is here, what is missing, what to install.", context_settings=options.CONTEXT)
def doctor() -> int:
    """Say what is on this machine: versions, adapters, limits; and what to install where something is missing.

    Exits with 0 when the default backends can run, and with 4 when one cannot.
    """
    from attncheck.cli import inventory
    from attncheck.cli.output import Printer
    from attncheck.reports.lines import BLANK
    from attncheck.vocabulary import ExitCode

    printer = Printer()
    printer.print([*inventory.host(), BLANK, *inventory.packages(), BLANK])
    if inventory.missing():
        return ExitCode.BACKEND
    from attncheck.cli import checkup

    return checkup.run(printer)
