"""The journal: a run's events as they happen, one JSON object a line, readable again to the last whole line.

The first line tells the format. A line that a killed process left half written is dropped on reading, and cut off
before the journal is continued. Numbers that JSON cannot say are strings: "NaN", "Infinity", "-Infinity".
"""

from __future__ import annotations

import errno
import json
import math
import os
from functools import cache
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

from pydantic import TypeAdapter, ValidationError

from attncheck import __version__
from attncheck.engine.events import Event

FORMAT = 3
_KINDS: dict[str, type] = {kind.__name__: kind for kind in get_args(Event)}


class JournalError(Exception):
    """A journal cannot be read or continued. The message names the file, and the line where there is one."""


class Journal:
    """Writes events to a file, each one handed to the operating system before the next happens."""

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        """Begin a new journal, or with `resume` continue one behind its last whole line. Raises JournalError."""
        self.path = path
        self._file: FileIO | None = None
        if not resume and path.is_file() and path.stat().st_size:
            raise JournalError(
                f"the journal {path} is there already: go on from it with --resume, or name another file"
            )
        try:
            if resume:
                _cut_torn_line(path)
            # Unbuffered: what a full disk refused must not come up again when the file is closed.
            self._file = path.open("ab" if resume else "wb", buffering=0)
            if not resume:
                self._line({"journal": FORMAT, "attncheck": __version__})
        except OSError as error:
            self.close()
            raise JournalError(f"cannot write the journal {path}: {error.strerror}") from error

    def write(self, event: Event) -> None:
        """Append one event. Raises JournalError when the disk is full, say."""
        try:
            data = _adapter(type(event)).dump_python(event, mode="json")
            self._line({"event": type(event).__name__, **sayable(data)})
        except OSError as error:
            raise JournalError(f"cannot write the journal {self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Close the file, where there is one."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _line(self, data: dict[str, Any]) -> None:
        assert self._file is not None, "the journal is open"
        line = json.dumps(data, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        if self._file.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read(path: Path) -> tuple[Event, ...]:
    """Every event of a journal, in order. Raises JournalError."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise JournalError(f"cannot read the journal {path}: {error.strerror}") from error
    whole = [line for line in lines if line.endswith(b"\n")]
    if not whole or _parsed(path, 1, whole[0]).get("journal") != FORMAT:
        raise JournalError(f"{path} is not a journal of attncheck in format {FORMAT}")
    return tuple(_event(path, number, line) for number, line in enumerate(whole[1:], start=2))


def _event(path: Path, number: int, line: bytes) -> Event:
    data = _parsed(path, number, line)
    kind = _KINDS.get(data.pop("event", ""))
    if kind is None:
        raise JournalError(f"{path}:{number}: no event that attncheck {__version__} knows")
    try:
        event: Event = _adapter(kind).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise JournalError(f"{path}:{number}: {kind.__name__}.{place} does not fit: {first['msg']}") from error
    return event


def _parsed(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise JournalError(f"{path}:{number}: not a line of a journal: {error}") from error
    if not isinstance(data, dict):
        raise JournalError(f"{path}:{number}: not a line of a journal: no JSON object")
    return data


def _cut_torn_line(path: Path) -> None:
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)


def sayable(data: Any) -> Any:
    """Plain data with the floats that JSON lacks as strings, which reading takes as floats again."""
    if isinstance(data, float) and not math.isfinite(data):
        return "NaN" if math.isnan(data) else ("Infinity" if data > 0 else "-Infinity")
    if isinstance(data, dict):
        return {key: sayable(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [sayable(value) for value in data]
    return data


def _adapter(kind: type) -> TypeAdapter[Any]:
    return _adapters()[kind]


@cache
def _adapters() -> dict[type, TypeAdapter[Any]]:
    return {kind: TypeAdapter(kind) for kind in _KINDS.values()}
