"""Messages on stderr, in one voice."""

from __future__ import annotations

import shutil
import sys
import textwrap

import click

from attncheck.vocabulary import ExitCode


class Stop(Exception):
    """End the command with a message and an exit code."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code


def progress(message: str) -> None:
    """Say what goes on when it may take a while."""
    _say("attncheck: ", None, message)


def error(message: str) -> None:
    """Say what went wrong."""
    _say("attncheck: ", "red", message)


def warning(message: str) -> None:
    """Say what does not change the outcome, and yet somebody should look at."""
    _say("attncheck: warning: ", "yellow", message)


def _say(voice: str, colour: str | None, message: str) -> None:
    """Write to stderr, on a terminal broken between words; a line that is indented is a quotation and stays whole."""
    text = voice + message
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(line if line.startswith(" ") else _broken(line, width) for line in text.split("\n"))
    click.echo(click.style(voice, fg=colour, bold=True) + text.removeprefix(voice), err=True)


def _broken(line: str, width: int) -> str:
    return textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
