"""The journal of a search: a head that says which search it is, and a line for every run of a case."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from attncheck.minimize.candidate import Candidate, of_text
from attncheck.minimize.head import Head
from attncheck.minimize.seen import Seen
from attncheck.scenario import ScenarioErrors
from attncheck.scenario.model import Scenario


class Unfitting(Exception):
    """A journal is of another start, backend, edited file or setting. The message says what differs."""


class Damaged(Exception):
    """A line of a journal cannot be read. The message says which, why, and what to do."""


class Journal:
    """One file of NDJSON. What is noted before `begin` is held, so that a search that ends at once leaves nothing."""

    def __init__(self, path: Path, head: Head) -> None:
        self._path = path
        self._head = head
        self._file: FileIO | None = None
        self._held: list[bytes] = []
        self._whole: int | None = None

    def read(self, like: Scenario) -> Iterator[tuple[Candidate, float, int, Seen]]:
        """Every run: the case, seconds so far, which run alone it was, and what it came to.

        A last line that was cut short counts as never written. Raises Unfitting, Damaged, OSError.
        """
        whole = self._path.read_bytes().split(b"\n")[:-1] if self._path.exists() else []
        if not whole:
            return
        found = self._object(1, whole[0])
        try:
            differing = self._head.differences(found)
        except (KeyError, TypeError, AttributeError):
            raise self._damaged(1, "it is no head of a journal") from None
        if differing:
            raise Unfitting("; ".join(differing))
        self._whole = sum(len(line) + 1 for line in whole)
        for number, line in enumerate(whole[1:], 2):
            yield self._run(number, line, like)

    def begin(self) -> None:
        """Write from now on, behind what was read or a head, what is held first. Raises OSError."""
        if self._file is not None:
            return
        with self._path.open("ab") as file:
            file.truncate(self._whole or 0)
        self._file = self._path.open("ab", buffering=0)
        held, self._held = self._held, []
        for line in [*([] if self._whole else [_line(self._head.document)]), *held]:
            self._write(line)

    def note(self, data: Mapping[str, Any]) -> None:
        """Write a line, or hold it until `begin`. Raises OSError."""
        if self._file is None:
            self._held.append(_line(data))
        else:
            self._write(_line(data))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _write(self, line: bytes) -> None:
        assert self._file is not None, "a journal is begun before it is written"
        try:
            while line:  # of a line that was taken in part, the rest is refused, with the reason
                line = line[self._file.write(line) :]
        except OSError as failed:
            failed.filename = str(self._path)
            raise

    def _run(self, number: int, line: bytes, like: Scenario) -> tuple[Candidate, float, int, Seen]:
        data = self._object(number, line)
        try:
            return of_text(data["case"], like), float(data["seconds"]), int(data["alone"]), Seen.read(data)
        except KeyError as missing:
            raise self._damaged(number, f"it lacks {missing}") from None
        except ScenarioErrors:
            raise self._damaged(number, "its case is none") from None
        except (TypeError, ValueError) as other:
            raise Unfitting(f"line {number} of its journal is another attncheck's: {other}") from None

    def _object(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except ValueError:
            raise self._damaged(number, "it is no JSON") from None
        if not isinstance(found, dict):
            raise self._damaged(number, "it is no JSON object")
        return found

    def _damaged(self, number: int, why: str) -> Damaged:
        mend = (
            "it says which search this is: --restart searches afresh, --out DIR does so in another folder"
            if number == 1
            else "remove that line, and what it held is run again; or search afresh, with --restart"
        )
        return Damaged(f"line {number} of the journal {self._path} is damaged: {why}\n{mend}")


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode() + b"\n"
