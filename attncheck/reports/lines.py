"""Lines of text with styles by meaning: what every text report yields, before a terminal is known.

A style names a role, not a colour; `STYLES` is the only place that turns roles into colours. Foregrounds are the
terminal's own named ones and nothing sets a background, so that dark and light terminals both stay readable.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from attncheck.vocabulary import Status

Role = Literal["plain", "heading", "title", "good", "bad", "caution"]

STYLES: dict[Role, str] = {
    "plain": "",
    "heading": "bold",
    "title": "",
    "good": "green",
    "bad": "bold red",
    "caution": "yellow",
}

STATUS_ROLES: dict[Status, Role] = {
    Status.PASSED: "good",
    Status.FAILED: "bad",
    Status.XFAILED: "caution",
    Status.XPASSED: "bad",
    Status.SKIPPED: "caution",
}


@dataclass(frozen=True)
class Span:
    """A run of text in one role."""

    text: str
    role: Role = "plain"


@dataclass(frozen=True)
class Line:
    """One line of a report, without its line end."""

    spans: tuple[Span, ...] = ()

    @property
    def text(self) -> str:
        """The line without styles or trailing blanks: what stands in a pipe."""
        return "".join(span.text for span in self.spans).rstrip()


BLANK = Line()


def line(text: str, role: Role = "plain") -> Line:
    """Make a line of one role."""
    return Line((Span(text, role),))


def columns(rows: Mapping[str, str]) -> list[Line]:
    """Names and values in two columns."""
    width = max(map(len, rows), default=0)
    return [line(f"  {name.ljust(width)}  {value}") for name, value in rows.items()]


def shorten(text: str, width: int, head: int | None = None) -> str:
    """Cut the middle out of `text` so that it fits `width`, behind its first `head` characters (None: 2/5 of it)."""
    if len(text) <= width:
        return text
    head = usual_head(width) if head is None else head
    return f"{text[:head]}..{text[len(text) - (width - 2 - head) :]}"


def usual_head(width: int) -> int:
    """Where `shorten` cuts: the end of an id, which tells cases apart, keeps the larger part."""
    return max(1, (width - 2) * 2 // 5)


def paragraph(text: str, width: int | None, indent: str, hanging: str = "") -> list[Line]:
    """Break `text` into indented lines of at most `width` characters (None: never break, except where it breaks)."""
    lines: list[Line] = []
    for piece in text.splitlines() or [""]:
        if width is None:
            lines.append(line(indent + piece))
            continue
        wrapped = textwrap.wrap(
            piece,
            max(width, len(indent) + 20),
            initial_indent=indent,
            subsequent_indent=indent + hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines.extend(line(row) for row in wrapped)
    return lines
