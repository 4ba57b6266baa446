"""The measurements of a folder, as JSON lines: a file for each process, which a later run goes on from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attncheck.scenario.command_line import command_line
from attncheck.scenario.model import Scenario

Record = dict[str, Any]


def about(index: int, scenario: Scenario) -> Record:
    """What every record says of its case."""
    told = {"op": scenario.op, "dtype": scenario.dtype, "data": scenario.data}
    return {"index": index, "case": command_line(scenario), **told, "results": [], "wrong": {}}


def fault(index: int, scenario: Scenario, trace: str) -> Record:
    """The record of a case at which attncheck itself failed."""
    return {**about(index, scenario), "fault": trace}


class OtherMeasurement(Exception):
    """The folder holds a measurement of something else: two would be mixed up."""


def read(folder: Path) -> tuple[Record, list[Record]]:
    """What was measured (empty where nothing was yet), and every case of it once, in the order of the draw.

    A line that a killed process left unfinished is passed over. Raises OtherMeasurement where the files disagree.
    """
    setup: Record = {}
    cases: dict[int, Record] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for record in _lines(path):
            if "setup" not in record:
                cases[record["index"]] = record
            elif setup and not same(setup, record["setup"]):
                raise OtherMeasurement(f"{path} was measured otherwise than the other files of {folder}")
            else:
                setup = record["setup"]
    return setup, [cases[index] for index in sorted(cases)]


def same(setup: Record, other: Record) -> bool:
    """Whether two setups measure the same draw on the same backends."""
    return all(setup.get(key) == other.get(key) for key in ("seed", "always", "backends", "versions"))


def _lines(path: Path) -> Iterator[Record]:
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


class Writer:
    """A new file of a folder, begun with what is measured and flushed at each case."""

    def __init__(self, folder: Path, setup: Record) -> None:
        number = 1 + max((int(path.stem) for path in folder.glob("*.jsonl") if path.stem.isdigit()), default=0)
        while True:
            try:
                self._file = (folder / f"{number:04}.jsonl").open("x", encoding="utf-8")
                break
            except FileExistsError:  # another process took this number meanwhile
                number += 1
        self.write({"setup": setup})

    def write(self, record: Record) -> None:
        """Add one line."""
        self._file.write(json.dumps(record, separators=(",", ":")) + "\n")
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()
