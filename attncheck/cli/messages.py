"""Messages on stderr, in one voice."""

from __future__ import annotations

import click


class Stop(click.ClickException):
    """End the command with a message and an exit code; `note` is what to do next."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code


def error(message: str) -> None:
    """Say what went wrong."""
    click.echo(click.style("attncheck: ", fg="red", bold=True) + message, err=True)


def note(message: str) -> None:
    """Say something that one should know and that stops nothing."""
    click.echo(click.style("attncheck: ", bold=True) + message, err=True)
