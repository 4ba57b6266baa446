"""Expectations files into Expectations, or into every mistake of all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attncheck.scenario.diagnostics import Diagnostic, Mistake, ScenarioErrors, nearest, shown
from attncheck.scenario.expectation import Expectation
from attncheck.scenario.expectation_keys import KEYS
from attncheck.scenario.load import EXPECTATIONS, text_of
from attncheck.scenario.model import Source
from attncheck.scenario.nodes import Document, Node
from attncheck.scenario.nodes import Mapping as Entries
from attncheck.scenario.yaml_text import read
from attncheck.vocabulary import Verdict

__all__ = ["EXPECTATIONS", "load", "parse"]

_ROOT = "expectations"


def load(paths: Sequence[str | os.PathLike[str]]) -> tuple[Expectation, ...]:
    """The expectations of `paths`, in the order of files and entries.

    Raises ScenarioErrors with every mistake of every file; then nothing was loaded.
    """
    mistakes: list[Diagnostic] = []
    expectations: list[Expectation] = []
    for path in map(Path, paths):
        text = text_of(path) if path.exists() or path.is_symlink() else _missing(path)
        if isinstance(text, Diagnostic):
            mistakes.append(text)
            continue
        found, wrong = parse(str(path), text)
        expectations += found
        mistakes += wrong
    if mistakes:
        raise ScenarioErrors(mistakes)
    return tuple(expectations)


def _missing(path: Path) -> Diagnostic:
    neighbours = [str(it) for it in path.parent.iterdir()] if path.parent.is_dir() else []
    hint = nearest(str(path), neighbours) or "docs/expectations.md says what such a file holds"
    return Diagnostic(Mistake.MISSING_PATH, str(path), 0, 0, "no such file", hint)


def parse(file: str, text: str) -> tuple[list[Expectation], list[Diagnostic]]:
    """The expectations of one file's text and every mistake in it, sorted by place. `file` is as messages show it."""
    reader = _Reader(read(file, text, instead_of_aliases="quote a pattern that begins with `*`"))
    expectations = list(reader.expectations())
    return expectations, sorted(reader.mistakes, key=lambda mistake: (mistake.line, mistake.column))


class _Reader:
    """Nodes into expectations; collects the mistakes it meets."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.mistakes = list(document.mistakes)

    def expectations(self) -> Iterator[Expectation]:
        """Every entry without a mistake, in order."""
        root = self.document.root
        if root is None or (root.value is None and not root.text):
            if not self.mistakes:
                hint = f"begin with `{_ROOT}:`, or write `{_ROOT}: []` where nothing is known to fail"
                message = "the file holds no expectations"
                self.mistakes.append(Diagnostic(Mistake.EMPTY_FILE, self.document.file, 0, 0, message, hint))
            return
        for entry in self._entries(root):
            if entry in self.document.unusable:
                continue
            if not isinstance(entry.value, Entries):
                self._found(Mistake.BAD_VALUE, entry, f"an expectation must be a mapping, not {entry.described()}")
                continue
            expectation = self._expectation(entry)
            if expectation is not None:
                yield expectation

    def _entries(self, root: Node) -> tuple[Node, ...]:
        if not isinstance(root.value, Entries):
            message = f"an expectations file is a mapping with the key `{_ROOT}`, not {root.described()}"
            self._found(Mistake.BAD_VALUE, root, message)
            return ()
        self._unknown(root, (_ROOT,))
        listed = root.get(_ROOT)
        if listed is None:
            if not _misspelt(root, _ROOT):
                hint = f"`{_ROOT}` is a list of mappings"
                self._found(Mistake.MISSING_KEY, root, f"a file without `{_ROOT}`", hint)
            return ()
        if listed not in self.document.unusable and not isinstance(listed.value, tuple):
            message = f"`{_ROOT}` must be a list of expectations, not {listed.described()}"
            self._found(Mistake.BAD_VALUE, listed, message, "begin each with `- case:`")
        return listed.items()

    def _expectation(self, node: Node) -> Expectation | None:
        before = len(self.mistakes)
        self._unknown(node, KEYS)
        for name, key in KEYS.items():
            if key.required and node.get(name) is None and not _misspelt(node, name):
                hint = f"`{name}` is {key.allowed}: {key.meaning}"
                self._found(Mistake.MISSING_KEY, node, f"an expectation without `{name}`", hint)
        values = self._values(node)
        self._band_fits(node, values)
        if len(self.mistakes) > before or self._spoiled(node):
            return None
        values["cases"] = values.pop("case")
        return Expectation(source=Source(self.document.file, node.line), **values)

    def _values(self, node: Node) -> dict[str, Any]:
        """What stands under each known key, where it is sound."""
        found: dict[str, Any] = {}
        for entry in node.entries():
            key = KEYS.get(entry.key.text)
            if key is None or entry.value in self.document.unusable:
                continue
            value = key.read(entry.value, self._bad_value)
            if value is not None:
                found[key.name] = value
        return found

    def _band_fits(self, node: Node, values: Mapping[str, Any]) -> None:
        """A mismatch needs a band, since any other error would be another fault; nothing else has a number to hold."""
        verdict, band = values.get("verdict"), node.get("max_abs")
        if verdict is Verdict.MISMATCH and band is None and not _misspelt(node, "max_abs"):
            hint = f"`max_abs` is {KEYS['max_abs'].allowed}: how large the known error is"
            self._found(Mistake.MISSING_KEY, node, "an expected mismatch without `max_abs`", hint)
        if verdict not in (None, Verdict.MISMATCH) and band is not None:
            message = f"`max_abs` goes with the verdict `{Verdict.MISMATCH}`, not with `{verdict}`"
            self._found(Mistake.BAD_VALUE, band, message, "remove it")

    def _spoiled(self, node: Node) -> bool:
        """Whether reading YAML already found fault with a value of `node`."""
        return any(entry.value in self.document.unusable for entry in node.entries())

    def _unknown(self, node: Node, allowed: Mapping[str, object] | tuple[str, ...]) -> None:
        for entry in node.entries():
            word = entry.key.text
            if word not in allowed:
                hint = nearest(word, allowed) or f"allowed: {', '.join(allowed)}"
                self._found(Mistake.UNKNOWN_KEY, entry.key, f"unknown key `{shown(word)}`", hint)

    def _bad_value(self, node: Node, message: str, hint: str) -> None:
        self._found(Mistake.BAD_VALUE, node, message, hint)

    def _found(self, kind: Mistake, node: Node, message: str, hint: str = "") -> None:
        self.mistakes.append(self.document.mistake(kind, node, message, hint))


def _misspelt(node: Node, wanted: str) -> bool:
    """Whether a missing key is there with a typing error, which is reported as an unknown key."""
    return any(nearest(entry.key.text, (wanted,)) for entry in node.entries() if entry.key.text not in KEYS)
