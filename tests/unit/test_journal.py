"""The journal holds a run's events as they were, to the last whole line, and a run goes on from it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from attncheck.backends.ort_cpu import OrtCpu
from attncheck.engine import journal
from attncheck.engine import run as engine
from attncheck.engine.events import CaseFinished, Event, RunFinished
from tests.drawing import scenario

CASES = [scenario(id=name, seed=seed) for seed, name in enumerate(("first", "second", "third"))]


def run(finished: dict[str, CaseFinished] | None = None) -> list[Event]:
    return list(engine.run(CASES, [OrtCpu()], None, engine.Options(finished=finished or {})))


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return run()


def written(path: Path, events: list[Event]) -> Path:
    with journal.Journal(path) as file:
        for event in events:
            file.write(event)
    return path


def finished(events: tuple[Event, ...] | list[Event]) -> list[CaseFinished]:
    return [event for event in events if isinstance(event, CaseFinished)]


def test_events_come_back_as_they_were(tmp_path: Path, events: list[Event]) -> None:
    assert journal.read(written(tmp_path / "journal.ndjson", events)) == tuple(events)


def test_every_line_is_plain_json_even_where_numbers_are_not_finite(tmp_path: Path, events: list[Event]) -> None:
    case = finished(events)[0]
    worst = case.results[0].worst
    assert worst is not None
    broken = replace(case.results[0], worst=replace(worst, got=-math.inf, margin=math.inf, error=math.nan))
    path = written(tmp_path / "journal.ndjson", [replace(case, results=(broken,))])

    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is no JSON")

    for line in path.read_text().splitlines():
        json.loads(line, parse_constant=refuse)
    (back,) = finished(journal.read(path))
    read = back.results[0].worst
    assert read is not None
    assert (read.got, read.margin) == (-math.inf, math.inf)
    assert math.isnan(read.error)


@pytest.mark.parametrize("torn", [1, 40])
def test_a_half_written_line_is_dropped_and_then_written_over(tmp_path: Path, events: list[Event], torn: int) -> None:
    path = written(tmp_path / "journal.ndjson", events[:-2])
    whole = path.read_bytes()
    written(tmp_path / "more.ndjson", events)
    path.write_bytes((tmp_path / "more.ndjson").read_bytes()[: len(whole) + torn])
    assert journal.read(path) == tuple(events[:-2])
    with journal.Journal(path, resume=True) as file:
        file.write(events[-2])
    assert journal.read(path) == tuple(events[:-1])


def test_finished_cases_are_told_again_and_not_run(events: list[Event]) -> None:
    first, *_ = finished(events)
    marked = replace(first, results=(replace(first.results[0], message="from before"),))
    again = finished(run({first.origin.id: marked}))
    assert [case.results[0].message for case in again] == ["from before", "", ""]
    assert isinstance(run({first.origin.id: marked})[-1], RunFinished)


@pytest.mark.parametrize(
    "changed",
    [{"digest": "another"}, {"results": ()}, {"origin": replace(CASES[0], tolerance={})}],
    ids=["content", "backends", "same"],
)
def test_a_finished_case_counts_only_for_the_same_content_on_the_same_backends(
    events: list[Event], changed: dict[str, object]
) -> None:
    first, *_ = finished(events)
    marked = replace(first, results=(replace(first.results[0], message="from before"),))
    marked = replace(marked, **changed)  # type: ignore[arg-type]
    told = finished(run({first.origin.id: marked}))[0]
    assert (told.results[0].message == "from before") is ("origin" in changed)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a journal"),
        ('{"journal": 99}\n', "is not a journal"),
        ('{"journal": 3}\nnonsense\n', ":2: not a line of a journal"),
        ('{"journal": 3}\n{"event": "Unheard"}\n', ":2: no event that attncheck"),
        ('{"journal": 3}\n{"event": "RunStarted", "cases": "many"}\n', r":2: RunStarted\.cases does not fit"),
    ],
)
def test_what_is_no_journal_is_told_with_file_and_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "journal.ndjson"
    path.write_text(text)
    with pytest.raises(journal.JournalError, match=words):
        journal.read(path)


def test_a_journal_that_cannot_be_written_or_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(journal.JournalError, match=r"cannot write the journal .*: Is a directory"):
        journal.Journal(tmp_path)
    with pytest.raises(journal.JournalError, match=r"cannot read the journal .*: No such file"):
        journal.read(tmp_path / "missing")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told(events: list[Event]) -> None:
    with pytest.raises(journal.JournalError, match="No space left"):
        journal.Journal(Path("/dev/full"))
