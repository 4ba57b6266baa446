"""Messages on stderr, in one voice."""

from __future__ import annotations

import click

from attncheck.vocabulary import ExitCode


class Stop(Exception):
    """End the command with a message and an exit code."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code


def progress(message: str) -> None:
    """Say what goes on when it may take a while."""
    click.echo(click.style("attncheck: ", bold=True) + message, err=True)


def error(message: str) -> None:
    """Say what went wrong."""
    click.echo(click.style("attncheck: ", fg="red", bold=True) + message, err=True)


def warning(message: str) -> None:
    """Say what does not change the outcome, and yet somebody should look at."""
    click.echo(click.style("attncheck: warning: ", fg="yellow", bold=True) + message, err=True)
