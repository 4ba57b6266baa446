"""A failure in at most six lines: where, how large, what it looks like, what it equals, who is alone, what to run next.

Where there is more to say than fits, what says least goes first, and the last line says where the rest stands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from attncheck.engine.events import Result
from attncheck.reports import describe, expected, explanation, rows
from attncheck.reports.lines import Line, line, paragraph
from attncheck.reports.strip import strip
from attncheck.vocabulary import Verdict

MOST = 6
"""Lines below the row of a failure."""

SHORTER = (2, 1)
"""Lines of what wrong numbers equal, where something else would not be told for it: its first words say most."""

INDENT = "    "
QUOTED = "| "
"""Stands before what a process wrote itself."""
CUT = " .."


class Rank(IntEnum):
    """What is left out first has the highest."""

    PLACE = 0
    MESSAGE = 1
    EQUALS = 2
    STEP = 3
    ALONE = 4
    EXPECTED = 5
    STRIP = 6
    FLAGS = 7
    READING = 8
    WORDS = 9
    OTHERS = 10


@dataclass(frozen=True)
class Piece:
    """A paragraph, or of what a process wrote one line, which is never broken."""

    rank: Rank
    text: str

    def lines(self, width: int | None) -> list[Line]:
        """As it stands below a row."""
        if self.rank is Rank.WORDS:
            return [line(INDENT + QUOTED + self.text)]
        return paragraph(self.text, width, INDENT, hanging="  ")


def lines(result: Result, width: int | None, ramp: str, command: str) -> list[Line]:
    """At most `MOST` lines on a failing `result`.

    ramp      the characters of the strip
    command   what shows the whole of the result; empty where there is no such command
    """
    every = pieces(result, width, ramp)
    kept = _kept(every, width)
    made = [row for piece in kept for row in piece.lines(width)]
    explain = f"attncheck explain {result.status if result.verdict is Verdict.PASS else result.verdict}"
    whole = made == [row for piece in every for row in piece.lines(width)]
    return [*made, line(f"{INDENT}{'next' if whole else 'the rest'}: {command or explain}")]


def pieces(result: Result, width: int | None, ramp: str) -> list[Piece]:
    """All there is to say, in the order in which it is said."""
    worst = rows.told(result)
    found = [Piece(Rank.EXPECTED, text) for text in expected.expectation(result, verbose=False)]
    if result.step is not None and result.verdict is not Verdict.PASS:
        found.append(Piece(Rank.STEP, f"{describe.step(result.step)} is the first to go wrong"))
    if worst is not None and not worst.passed:
        found += [Piece(Rank.PLACE, text) for text in describe.worst(worst)]
        drawn = strip(result.picture, ramp, None if width is None else width - len(INDENT)) if result.picture else ""
        found += [Piece(Rank.STRIP, drawn)] if drawn else []
        found += [Piece(Rank.OTHERS, text) for text in describe.others(result.differences, worst)]
    found += [Piece(Rank.MESSAGE, result.message)] if result.message else []
    found += [Piece(Rank.EQUALS, result.diagnosis)] if result.diagnosis else []
    if result.convention is not None:
        found += [Piece(Rank.READING, text) for text in describe.convention(result.convention)]
    if result.attribution is not None:
        found += [Piece(Rank.ALONE, text) for text in describe.attribution(result.attribution, numbers=False)]
    found += [Piece(Rank.FLAGS, text) for text in explanation.flags(result)]
    return found + [Piece(Rank.WORDS, text) for text in explanation.last_words(result, brief=True)]


def _kept(every: list[Piece], width: int | None) -> list[Piece]:
    """The pieces that fit above the last line: two are put together, some left out, the longest cut."""
    for first, second, how in JOINED:
        if _height(every, width) >= MOST:
            every = _joined(every, first, second, how, width)
    for most in SHORTER:
        if _height(every, width) >= MOST:
            every = [_shortened(it, most, width) if it.rank is Rank.EQUALS else it for it in every]
    while _height(every, width) >= MOST:
        least = max(piece.rank for piece in every)
        if least <= Rank.EQUALS:
            return _cut(every, width)
        # Of what a process wrote the end says most, of anything else the beginning.
        of_least = [at for at, piece in enumerate(every) if piece.rank == least]
        gone = of_least[0] if least is Rank.WORDS else of_least[-1]
        every = every[:gone] + every[gone + 1 :]
    return every


JOINED = ((Rank.EQUALS, Rank.ALONE, "; "), (Rank.STEP, Rank.PLACE, ": "))
"""What can share a line where lines are short, and what stands between."""


def _joined(every: list[Piece], first: Rank, second: Rank, between: str, width: int | None) -> list[Piece]:
    """With the first pieces of two ranks in one line, where there is room for both."""
    one = next((it for it in every if it.rank is first), None)
    other = next((it for it in every if it.rank is second), None)
    if one is None or other is None:
        return every
    both = Piece(min(first, second), f"{one.text}{between}{other.text}")
    if len(both.lines(width)) > 1:
        return every
    return [both if it is one else it for it in every if it is not other]


def _cut(every: list[Piece], width: int | None) -> list[Piece]:
    """With so much of the longest piece as there is room for."""
    longest = max(every, key=lambda it: len(it.lines(width)))
    room = MOST - 1 - _height([it for it in every if it is not longest], width)
    return [_shortened(it, max(1, room), width) if it is longest else it for it in every]


def _shortened(piece: Piece, most: int, width: int | None) -> Piece:
    """A piece of at most so many lines, with a mark where more of it was."""
    if len(piece.lines(width)) <= most:
        return piece
    lines = piece.lines(None if width is None else width - len(CUT))
    return replace(piece, text="\n".join(it.text.strip() for it in lines[:most]) + CUT)


def _height(every: list[Piece], width: int | None) -> int:
    return sum(len(piece.lines(width)) for piece in every)
