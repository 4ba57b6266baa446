"""Where text goes: results to stdout, progress and diagnostics to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from attncheck.reports.lines import STYLES, Line, shorten
from attncheck.reports.strip import ASCII, BLOCKS

BAR_TEXT = 30
"""Room for the last finished case behind the progress bar."""


class Printer:
    """Prints lines on stdout: with styles on a terminal, as plain text anywhere else."""

    def __init__(self, *, silent: bool = False) -> None:
        """A silent one prints nothing: stdout is somebody else's."""
        self._silent = silent
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)

    @property
    def width(self) -> int | None:
        """Columns that a line may take: the terminal's, or COLUMNS in a pipe, or None for no limit."""
        if self._console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
            return max(40, self._console.width)
        return None

    @property
    def ramp(self) -> str:
        """The characters of a strip: blocks, or plain ones where there is no colour or no Unicode to be had."""
        plain = bool(os.environ.get("NO_COLOR")) or self._console.is_dumb_terminal
        return ASCII if plain or not self._console.encoding.lower().startswith("utf") else BLOCKS

    def print(self, lines: Iterable[Line]) -> None:
        """Print `lines` and flush, so that each result can be read when it is there."""
        for line in () if self._silent else lines:
            if not self._console.color_system:
                sys.stdout.write(line.text + "\n")
                continue
            text = Text()
            for span in line.spans:
                text.append(span.text, STYLES[span.role] or None)
            text.rstrip()
            self._console.print(text)
        sys.stdout.flush()


class Bar:
    """A progress bar on stderr that steps aside while lines are printed; nothing at all where stderr is no terminal."""

    def __init__(self, total: int, wanted: bool) -> None:
        console = Console(stderr=True)
        self._progress: Progress | None = None
        if not (wanted and console.is_terminal and not console.is_dumb_terminal):
            return
        self._progress = Progress(
            BarColumn(bar_width=24, style="bright_black", complete_style="green", finished_style="green"),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
            refresh_per_second=4,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("starting", total=total)

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def advance(self, description: str) -> None:
        """One case is done."""
        if self._progress is not None:
            self._progress.update(self._task, advance=1, description=shorten(description, BAR_TEXT))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bar off the screen for the time of the block."""
        if self._progress is None:
            yield
            return
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()


class Ticker:
    """One line on stderr that says how far a search is; nothing at all where stderr is no terminal."""

    def __init__(self, wanted: bool) -> None:
        console = Console(stderr=True)
        shown = wanted and console.is_terminal and not console.is_dumb_terminal
        self._width = console.width
        self._status = console.status("starting", spinner="dots") if shown else None
        self.subject = ""

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, text: str) -> None:
        """Show `text`, and behind it the subject."""
        if self._status is not None:
            room = max(BAR_TEXT, self._width - len(text) - 8)
            self._status.update(Text(f"{text}  {shorten(self.subject, room)}"))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the line off the screen for the time of the block."""
        if self._status is not None:
            self._status.stop()
        yield
