"""Python's traceback in what a process wrote, told in a line a frame, down to the user's own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

HEAD = "Traceback (most recent call last):"
FRAME = re.compile(r' {2}File "(?P<file>.+)", line (?P<line>\d+)(?:, in (?P<where>.+))?')
LIBRARY = re.compile(r"[/\\](site|dist)-packages[/\\]|[/\\]lib[/\\]python3[^/\\]*[/\\]|^<frozen ")
"""In the path of what is installed, which no user of it wrote."""
INSIDE = " " * 4
"""Begins a frame's code, and the marks below that."""


@dataclass(frozen=True)
class Frame:
    """A frame: ``k.py:7, in boom``, and the first line of its code; empty where the file could not be read."""

    at: str
    library: bool
    code: str = ""

    @property
    def text(self) -> str:
        """The frame in a line."""
        return f"{self.at}: {self.code}" if self.code else self.at


def brief(lines: Iterable[str]) -> list[str]:
    """`lines` with each traceback's frames in a line each, down to the last that is no library's; all else stays."""
    told: list[str] = []
    frames: list[Frame] = []
    for text in lines:
        found = FRAME.fullmatch(text)
        if found is not None:
            where = f", in {found['where']}" if found["where"] else ""
            frames.append(Frame(f"{found['file']}:{found['line']}{where}", LIBRARY.search(found["file"]) is not None))
        elif frames and text.startswith(INSIDE):
            frames[-1] = replace(frames[-1], code=frames[-1].code or text.strip())
        else:
            told += _down_to_the_user(frames)
            frames = []
            told += [text] if text != HEAD else []
    return told + _down_to_the_user(frames)


def _down_to_the_user(frames: list[Frame]) -> list[str]:
    last = max((at for at, it in enumerate(frames) if not it.library), default=len(frames) - 1)
    return [it.text for it in frames[: last + 1]]
