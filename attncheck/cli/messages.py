"""Messages on stderr, in one voice."""

from __future__ import annotations

import errno
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


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a disk, or a limit, that takes no more: nobody's mistake, and no question of usage."""


def unwritten(path: object, failed: OSError, *, ran: bool = False, then: str = "") -> Stop:
    """What to raise where a file cannot be written: its path and why, with one exit code for a disk that is full.

    ran    whether cases were run before, so that it is no mistake of the call's; then: what to do next
    """
    code = ExitCode.INTERNAL if ran or failed.errno in FULL else ExitCode.USAGE
    why = failed.strerror or str(failed)
    return Stop("; ".join(filter(None, (f"{failed.filename or path} cannot be written: {why}", then))), code)


def unstarted(backend: str, why: object) -> str:
    """That a backend could not start, and why."""
    return f"backend {backend} could not start: {why}"


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
