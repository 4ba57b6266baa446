"""The report for streams: one JSON object a line, the head of the run, each case, its end.

Each line says in `line` what it is; docs/report-line.schema.json describes them. A line breaks no other one: a reader
needs no more than one at a time, and what was cut off has no end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from attncheck.engine.events import Compared, Counts
from attncheck.engine.journal import sayable
from attncheck.reports.document import FORMAT, Report, Unreadable, check_backends, counted
from attncheck.reports.entries import BackendEntry, CaseEntry, Number


@dataclass(frozen=True)
class Head:
    """The first line: what was to be run, and on what; `report` is the version of the format."""

    line: Literal["head"]
    report: int
    attncheck: str
    selected: int
    settings: dict[str, str]
    backends: tuple[BackendEntry, ...]


@dataclass(frozen=True)
class Case:
    """One line for each case, as it stands in the JSON report."""

    line: Literal["case"]
    case: CaseEntry


@dataclass(frozen=True)
class End:
    """The last line: whether cases that were selected are missing, those that are not by status, and the baseline."""

    line: Literal["end"]
    interrupted: bool
    seconds: Number
    counts: Counts
    baseline: Compared | None = None


LINE: TypeAdapter[Head | Case | End] = TypeAdapter(Head | Case | End)


def text(report: Report) -> str:
    """The lines of a run."""
    head = Head("head", report.report, report.attncheck, report.selected, report.settings, report.backends)
    end = End("end", report.interrupted, report.seconds, report.counts, report.baseline)
    return "".join([_line(head), *(_line(Case("case", it)) for it in report.cases), _line(end)])


def read(path: Path) -> Report:
    """The document that lines of a file tell in parts; without an end, of a run that had none. Raises Unreadable."""
    found: list[Head | Case | End] = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            found += [LINE.validate_python(json.loads(line))] if line.strip() else []
        except ValueError as wrong:
            first, *_ = str(wrong).splitlines()
            raise Unreadable(f"{path}:{number}: no line of a report: {first}; is the file whole?") from None
    head = found[0]
    if not isinstance(head, Head) or head.report != FORMAT:
        raise Unreadable(f"{path}:1: no head of a report in format {FORMAT}: convert it with the version that wrote it")
    cases = tuple(it.case for it in found if isinstance(it, Case))
    end = next((it for it in found if isinstance(it, End)), End("end", True, 0.0, counted(cases)))
    report = Report(
        report=head.report,
        attncheck=head.attncheck,
        interrupted=end.interrupted,
        seconds=end.seconds,
        selected=head.selected,
        counts=end.counts,
        settings=head.settings,
        backends=head.backends,
        cases=cases,
        baseline=end.baseline,
    )
    check_backends(report, str(path))
    return report


def _line(it: Head | Case | End) -> str:
    data = LINE.dump_python(it, mode="json", warnings=False)
    # Escaped beyond ASCII: a reader that takes U+2028 for the end of a line meets none.
    return json.dumps(sayable(data), separators=(",", ":"), allow_nan=False) + "\n"


def schema_text() -> str:
    """The JSON Schema of a line, draft 2020-12."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "attncheck report, one line"}
    return json.dumps({**head, **LINE.json_schema(mode="serialization"), **head}, indent=2, ensure_ascii=False) + "\n"
