"""What a word of a report means: its sentence from the vocabulary, and its paragraphs from docs/verdicts/."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from attncheck.reports.lines import BLANK, Line, line, paragraph
from attncheck.vocabulary import ExitCode, Flag, Status, Verdict

FLAGS = "flags.md"
"""The page on all flags; a verdict has a page of its own."""

_MEANING = re.compile(r"<!-- generated: .* -->.*?<!-- end: .* -->", re.DOTALL)
"""The sentence that a page takes from the vocabulary, as `explained` does."""
_TAIL = "`CASE` is the id"
"""How the last paragraph of a verdict's page begins, which tells of the other pages."""


@dataclass(frozen=True)
class Word:
    """A word and what it is: "verdict", "status", "flag" or "exit code"."""

    name: str
    kind: str
    meaning: str


def words() -> Mapping[str, Word]:
    """Every word that can be explained, kind by kind."""
    every = [Word(str(it), "verdict", it.meaning) for it in Verdict]
    every += [Word(str(it), "status", it.meaning) for it in Status]
    every += [Word(str(it), "flag", it.meaning) for it in Flag]
    every += [Word(str(it.value), "exit code", it.meaning) for it in ExitCode]
    return {it.name: it for it in every}


def nearest(text: str) -> str:
    """The word that `text` comes near; empty where there is none."""
    return next(iter(get_close_matches(text.lower(), words(), n=1)), "")


def every(width: int | None) -> list[Line]:
    """All words with their sentences."""
    known = words().values()
    room = max(len(it.name) for it in known)
    lines: list[Line] = []
    for kind, plural in (
        ("verdict", "Verdicts, what was seen"),
        ("status", "Statuses, what that means after expectations"),
        ("flag", "Flags, remarks beside a verdict"),
        ("exit code", "Exit codes"),
    ):
        lines += [*([BLANK] if lines else []), line(plural, "heading")]
        for it in (word for word in known if word.kind == kind):
            lines += paragraph(f"{it.name.ljust(room)}  {it.meaning}", width, "  ", hanging=" " * (room + 2))
    return lines


def explained(word: Word, pages: Path, width: int | None) -> list[Line]:
    """The paragraphs on `word` in the folder of pages, as lines of a terminal."""
    lines = paragraph(f"{word.kind} {word.name}: {word.meaning}", width, "", hanging="  ")
    for block in re.split(r"\n{2,}", _text(word, pages)):
        lines += [BLANK, *_block(block, width)] if block else []
    return lines


def _text(word: Word, pages: Path) -> str:
    """The part of a page that is about `word`, without its title; empty where none is."""
    if word.kind == "verdict":
        page = (pages / f"{word.name}.md").read_text(encoding="utf-8").partition("\n")[2]
    elif word.kind == "flag":
        page = (pages / FLAGS).read_text(encoding="utf-8").partition(f"\n## {word.name}\n")[2].partition("\n## ")[0]
    else:
        return ""
    return _MEANING.sub("", page).partition(_TAIL)[0].strip()


def _block(block: str, width: int | None) -> list[Line]:
    """A heading, a list, commands, or a paragraph."""
    rows = [row.rstrip() for row in block.strip("\n").split("\n")]
    if rows[0].startswith("## "):
        return [line(rows[0].removeprefix("## "), "heading")]
    if rows[0].startswith("    "):
        return [line(row) for row in rows]
    if rows[0].startswith("- "):
        items = re.split(r"\n(?=- )", "\n".join(rows))
        return [made for item in items for made in paragraph(_plain(item), width, "", hanging="  ")]
    return paragraph(_plain("\n".join(rows)), width, "")


def _plain(text: str) -> str:
    """Markdown's words in one line, without its marks; what is code keeps its back quotes."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(text.split()))
    return text.replace("**", "")
