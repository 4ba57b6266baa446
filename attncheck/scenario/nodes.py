"""Text with places: values that know their line and column, wherever they were read from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from attncheck.scenario.diagnostics import Diagnostic, Mistake, shown

Scalar = str | int | float | bool | None

_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")
_OCTAL = re.compile(r"0o[0-7]{1,40}")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,40}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True, eq=False)
class Node:
    """A value at a place. Nodes are told apart by identity: two equal values are two places.

    value   a scalar, a tuple of nodes (a list), or a tuple of entries (a mapping)
    text    the text of a scalar, empty otherwise
    width   how many characters of the line it covers
    """

    line: int
    column: int
    text: str
    value: Scalar | tuple[Node, ...] | Mapping
    width: int = 1

    def plain(self) -> object:
        """The value without places."""
        if isinstance(self.value, Mapping):
            return {entry.key.text: entry.value.plain() for entry in self.value.entries}
        if isinstance(self.value, tuple):
            return [item.plain() for item in self.value]
        return self.value

    def entries(self) -> tuple[Entry, ...]:
        """The entries of a mapping; none for anything else."""
        return self.value.entries if isinstance(self.value, Mapping) else ()

    def items(self) -> tuple[Node, ...]:
        """The items of a list; none for anything else."""
        return self.value if isinstance(self.value, tuple) else ()

    def get(self, key: str) -> Node | None:
        """The value under `key` of a mapping."""
        return next((entry.value for entry in self.entries() if entry.key.text == key), None)

    def within(self) -> Iterator[Node]:
        """The node itself, and every node below it."""
        yield self
        for node in (*self.items(), *(node for entry in self.entries() for node in (entry.key, entry.value))):
            yield from node.within()

    def described(self) -> str:
        """The value as a message quotes it."""
        if isinstance(self.value, Mapping):
            return "a mapping"
        if isinstance(self.value, tuple):
            return "a list" if self.value else "an empty list"
        if self.value is None:
            return "nothing"
        looks_otherwise = isinstance(self.value, str) and not isinstance(scalar(self.text), str)
        return f'`"{shown(self.text)}"`' if looks_otherwise else f"`{shown(self.text)}`"


@dataclass(frozen=True, eq=False)
class Entry:
    """A key and its value."""

    key: Node
    value: Node


@dataclass(frozen=True, eq=False)
class Mapping:
    """The entries of a mapping, in file order, keys unique."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Document:
    """A text that mistakes are found in: a file, or the value of a command-line option.

    root       what it holds; None where nothing could be read
    mistakes   what was wrong already in reading
    unusable   the nodes that those mistakes are about, so that nothing more need be said of them
    """

    file: str
    lines: tuple[str, ...]
    root: Node | None = None
    mistakes: tuple[Diagnostic, ...] = ()
    unusable: frozenset[Node] = frozenset()

    def mistake(self, kind: Mistake, node: Node, message: str, hint: str = "") -> Diagnostic:
        """A diagnostic at `node`."""
        text = self.lines[node.line - 1] if 0 < node.line <= len(self.lines) else ""
        return Diagnostic(kind, self.file, node.line, node.column, message, hint, text, node.width)


def scalar(text: str) -> Scalar:
    """A plain scalar by the YAML 1.2 core schema: `1e-5` is a number, `off` and `yes` are strings."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text[0] in "tT"
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text) or _SPECIAL.fullmatch(text):
        return float(text.replace(".", "", 1) if _SPECIAL.fullmatch(text) else text)
    return text
