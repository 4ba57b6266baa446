"""A mistake in a scenario file or on the command line: what, where, what is allowed, what next."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Self

WIDTH = 100


class Mistake(Enum):
    """Every kind of mistake, with the sentence that explains it in the docs."""

    MISSING_PATH = "missing-path", "a file or directory was named that does not exist"
    UNREADABLE = "unreadable", "the operating system refuses to read the file"
    NO_FILES = "no-files", "a directory holds no .yaml file"
    NOT_UTF8 = "not-utf8", "the file's bytes are not UTF-8 text"
    EMPTY_FILE = "empty-file", "the file, or its list of scenarios, holds nothing to test"
    YAML_SYNTAX = "yaml-syntax", "the file is not YAML"
    YAML_FEATURE = "yaml-feature", "YAML that the scenario language does not use: anchors, tags, several documents"
    DUPLICATE_KEY = "duplicate-key", "a key stands twice in one mapping"
    UNKNOWN_KEY = "unknown-key", "a key that the language does not have at this place"
    MISSING_KEY = "missing-key", "a key that must be there is not"
    BAD_VALUE = "bad-value", "a value of the wrong type or outside of what is allowed"
    EMPTY_MATRIX = "empty-matrix", "a matrix without axes, or an axis without values"
    SAID_TWICE = "said-twice", "one scenario gives an axis a value and also sweeps it in its matrix"
    EXCLUDES_NOTHING = "excludes-nothing", "an exclude entry that matches no case of the matrix"
    EXCLUDES_ALL = "excludes-all", "the exclude entries leave no case of the matrix"
    UNUSABLE = "unusable", "a value of a pairwise matrix that no possible case has"
    TOO_MANY_CASES = "too-many-cases", "a matrix expands to more cases than anybody could run"
    DUPLICATE_ID = "duplicate-id", "two cases would have one id"
    BATCH = "batch", "a list has another length than the batch"
    HEADS = "heads", "heads is not a multiple of kv_heads"
    CAPACITY = "capacity", "the keys do not fit into the KV buffers"
    RAGGED = "ragged", "lengths over the batch that the operator cannot express"
    ROTARY = "rotary", "a rotary embedding that cannot be"
    FOREIGN = "foreign", "an axis, or a value of it, that the operator does not have"
    WINDOW = "window", "a window or a causality that the operator cannot combine"
    BUFFERS = "buffers", "past, present or cache buffers that contradict the lengths"
    MASK = "mask", "a bias, a mask or holes that contradict each other or the operator"
    STEPS = "steps", "steps that contradict each other, or what stands beside them"
    MEMORY = "memory", "the case would take more memory than the limit"
    ASSIGNMENT = "assignment", "text on the command line that is not axis=value"
    EXPRESSION = "expression", "a -k expression that cannot be read"
    NO_SUCH_CASE = "no-such-case", "a case id without wildcards that no case has"
    NO_SUCH_TAG = "no-such-tag", "a tag that no scenario has"

    meaning: str

    def __new__(cls, word: str, meaning: str) -> Self:
        """The member for `word`."""
        member = object.__new__(cls)
        member._value_ = word
        member.meaning = meaning
        return member


@dataclass(frozen=True)
class Diagnostic:
    """One mistake at one place.

    file          as the user gave it, or the option's name (`--case`, `--set`, `-k`)
    line, column  1-based, in characters; 0 where the file as a whole is meant; of several `--case` each is a line
    message       what is wrong and what is allowed, without a full stop
    hint          what to do next, empty where the message says it
    text          the source line
    width         how many characters of `text` are meant, at least 1
    """

    kind: Mistake
    file: str
    line: int
    column: int
    message: str
    hint: str = ""
    text: str = ""
    width: int = 1

    @property
    def place(self) -> str:
        """`file:line:column`, or the file alone."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class ScenarioErrors(Exception):
    """Every mistake found, in the order of files and lines. Nothing was loaded."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(render_all(self.diagnostics))


def nearest(word: str, words: Iterable[str]) -> str:
    """A hint that names the allowed word most like `word`, or nothing where none comes near."""
    found = get_close_matches(word, [one for one in words if one], n=1, cutoff=0.6) if word else []
    return f"did you mean `{found[0]}`?" if found else ""


def shown(text: str, limit: int = 40) -> str:
    """`text` as it may stand in a message: one line, clipped, no character that moves a terminal's cursor."""
    clean = _printable(text)
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."


def listed(words: Sequence[str], last: str = "or") -> str:
    """`a, b or c`, each in backquotes."""
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


def render(diagnostic: Diagnostic) -> str:
    """The diagnostic as plain text: place and message, the source line with a caret, the hint."""
    lines = [f"{diagnostic.place}: {diagnostic.message}"]
    if diagnostic.line and diagnostic.text.strip():
        lines += _quotation(diagnostic)
    if diagnostic.hint:
        lines.append(f"  hint: {diagnostic.hint}")
    return "\n".join(lines)


def render_all(diagnostics: Iterable[Diagnostic]) -> str:
    """Diagnostics as plain text, a blank line between two."""
    return "\n\n".join(render(diagnostic) for diagnostic in diagnostics)


def _quotation(diagnostic: Diagnostic) -> list[str]:
    text = _printable(diagnostic.text.rstrip("\r\n"))
    start = diagnostic.column - 1
    skipped = max(0, start - WIDTH // 2) if len(text) > WIDTH else 0
    clipped = text[skipped : skipped + WIDTH]
    start -= skipped
    width = max(1, min(diagnostic.width, len(clipped) - start))
    gutter = f"{diagnostic.line:>5} | "
    pad = " " * _columns(clipped[:start].ljust(start))
    return [
        f"{gutter}{clipped}".rstrip(),
        f"{' ' * (len(gutter) - 2)}| {pad}{'^' * _columns_under(clipped, start, width)}",
    ]


def _columns_under(text: str, start: int, width: int) -> int:
    return max(width, _columns(text[start : start + width]))


def _columns(text: str) -> int:
    """How many terminal columns `text` takes."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _printable(text: str) -> str:
    return "".join(
        char if char.isprintable() else " " if char in "\t\n\r" else "\N{REPLACEMENT CHARACTER}" for char in text
    )
