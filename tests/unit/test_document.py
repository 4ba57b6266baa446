"""The document that every report is made of: of a run's events, or of a journal's; written, and read back."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from attncheck import __version__
from attncheck.engine import journal
from attncheck.engine.events import CaseFinished, Commands, Counts, Event, RunFinished, RunStarted
from attncheck.reports import document, json_report
from attncheck.reports.document import Report
from attncheck.reports.entries import BackendEntry, CaseEntry, ResultEntry
from attncheck.vocabulary import Flag, Status, Verdict
from tests.cli import events
from tests.cli.frozen import ROOT

RUN = events.everything()
REPORT = document.report(RUN)
RESULTS = [it for case in REPORT.cases for it in case.results]


def told(case: str, number: int = 0) -> ResultEntry:
    (found,) = (it for it in REPORT.cases if it.id.endswith(case))
    return found.results[number]


def test_the_run_that_the_formats_are_tested_by_has_everything_in_it() -> None:
    """A new verdict, status, flag or key must come into `events.everything` before a format can forget it."""
    assert {it.verdict for it in RESULTS} == set(Verdict)
    assert {it.status for it in RESULTS} == set(Status)
    assert {flag for it in RESULTS for flag in it.flags} == set(Flag)
    kinds = ((ResultEntry, RESULTS), (CaseEntry, REPORT.cases), (BackendEntry, REPORT.backends), (Report, [REPORT]))
    for kind, entries in kinds:
        for key in fields(kind):
            there = any(getattr(it, key.name) not in (None, "", (), {}, 0, False) for it in entries)
            assert there or key.name == "interrupted", key.name


def test_a_document_that_is_written_reads_back_as_it_was(tmp_path: Path) -> None:
    written = json_report.text(REPORT)
    jsonschema.validate(
        json.loads(written), json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    )
    (tmp_path / "report.json").write_text(written, encoding="utf-8")
    again = document.read(tmp_path / "report.json")
    assert json_report.text(again) == written
    assert again.cases[0] == REPORT.cases[0]
    assert again.cases[4].results[0].margin == float("inf")


def test_a_document_of_an_attncheck_that_knew_fewer_keys_reads_too() -> None:
    data = json.loads(json_report.text(REPORT))
    for case in data["cases"]:
        for key in ("about", "tags", "described", "reproduce"):
            del case[key]
        for result in case["results"]:
            for key in ("auto", "repeat", "differences", "sharpness", "explanation", "stderr", "minimize", "picture"):
                del result[key]
    data["a-key-of-a-later-attncheck"] = 1
    assert document.parsed(json.dumps(data), "old.json").counts == REPORT.counts


def test_every_output_that_differs_stands_in_it_and_not_the_worst_alone() -> None:
    found = told("window=22")
    assert [(it.role, it.subject, it.passed) for it in found.differences] == [
        ("output", "naive", True),
        ("output", "online", False),
        ("present_key", "online", False),
    ]
    assert found.differences[1].where == "output[batch 1, head 3, query 127, dim 63]"


def test_what_the_terminal_explains_stands_in_it() -> None:
    found = told("window=22")
    assert "equals the kernel that forgets the window" in found.explanation
    assert any(it.startswith("also present_key, online against oracle: ") for it in found.explanation)
    assert told("known").explanation[0] == "as expected: mismatch with max_abs from 0.0001 to 0.1"
    assert told("read-otherwise").stderr == ("validation", "of the shader failed")


def test_the_commands_travel_with_the_document() -> None:
    (case,) = (it for it in REPORT.cases if it.id.endswith("read-otherwise"))
    assert case.reproduce == f"attncheck run {case.id} --backend ort-webgpu:1 --adapter 'a b'"
    # What the command line calls the backend, which is more than its name where it has several adapters.
    assert case.results[0].minimize == f"attncheck minimize {case.id} --backend ort-webgpu:1"
    assert told("plain:op=gqa").minimize == "", "it passes"
    assert told("scenarios/prefill.yaml::exact", 1).minimize == "", "the reference is no suspect"
    assert told("decoder.onnx").minimize == "", "a model has no axes"


@pytest.mark.parametrize(
    ("failing", "unsaid", "words"),
    [
        ((), False, " --backend a --backend b@1"),
        ((), True, ""),
        (("a",), True, " --backend a"),
        (("b",), False, " --backend b@1"),
        (("a", "b"), False, " --backend a --backend b@1"),
        (("a", "b"), True, ""),
        (("b", "ort-cpu"), False, " --backend b@1"),
        (("ort-cpu",), True, " --backend ort-cpu"),
    ],
)
def test_a_case_is_run_alone_on_the_backends_on_which_it_fails(
    failing: tuple[str, ...], unsaid: bool, words: str
) -> None:
    commands = Commands(
        ("run", Commands.CASE, "--backend", Commands.BACKEND, "-v"),
        called={"b": "b@1"},
        tested=("a", "b@1"),
        unsaid=unsaid,
    )
    status = {it: Status.FAILED if it in failing else Status.PASSED for it in ("a", "b", "ort-cpu")}
    results = [events.result("c", backend=it, reference=it == "ort-cpu", status=status[it]) for it in status]
    assert commands.run("c", results) == f"run c{words} -v"


def test_a_name_that_a_shell_would_read_is_quoted() -> None:
    assert Commands(("run", Commands.CASE)).run("a b;rm") == "run 'a b;rm'"


def test_the_status_of_a_case_and_the_counts_are_those_of_the_run() -> None:
    (finished,) = (it for it in RUN if isinstance(it, RunFinished))
    assert REPORT.counts == finished.counts


def journalled(path: Path, run: list[Event]) -> list[Event]:
    with journal.Journal(path) as file:
        for event in run:
            file.write(event)
    return list(journal.read(path))


def test_a_journal_gives_the_document_that_its_run_gave(tmp_path: Path) -> None:
    again = document.report(journalled(tmp_path / "run.ndjson", RUN))
    assert json_report.text(again) == json_report.text(REPORT)


def test_a_journal_that_was_gone_on_from_gives_the_document_of_the_whole() -> None:
    """The first run was killed: no end of it is there. The second tells anew what runs, and only the other cases."""
    cases = [it for it in RUN if isinstance(it, CaseFinished)]
    before = [it for it in RUN if not isinstance(it, CaseFinished | RunFinished)]
    first, *others = before
    assert isinstance(first, RunStarted)
    stale = replace(cases[5], digest="of older content")
    end = next(it for it in RUN if isinstance(it, RunFinished))
    killed = [replace(first, cases=99), *others, *cases[:5], stale]
    assert document.report(killed).interrupted
    again = document.report([*killed, *before, *cases[5:], end])
    assert json_report.text(again) == json_report.text(REPORT)
    stopped = [*before, *cases[:5], RunFinished(Counts(passed=5), 1.0, interrupted=True)]
    assert document.report([*stopped, *before, *cases[5:]]).interrupted, "the second run has not come to its end"
    assert document.report([*RUN, *before]).interrupted, "nor has it where the first had"


def test_nothing_but_the_events_decides_what_stands_in_it() -> None:
    assert document.report([]).interrupted
    assert document.report([]).cases == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"report": 7, "attncheck": "9.9"}, "is a report in format 7, written by attncheck 9.9"),
        ({"report": 99, "attncheck": None}, f"is a report in format 99; attncheck {__version__} reads format 1"),
        ({"counts": {"passed": "many"}}, "counts.passed does not fit: "),
        ({"cases": [{"id": 3}]}, "cases[0].id does not fit: "),
        ({"attncheck": __version__, "backends": []}, "cases[0] has a result of wgsl, which is none of the backends: "),
    ],
)
def test_a_document_that_does_not_fit_is_refused_with_its_place(change: dict[str, Any], said: str) -> None:
    data = {**json.loads(json_report.text(REPORT)), **change}
    with pytest.raises(document.Unreadable) as refused:
        document.parsed(json.dumps(data), "run.json")
    assert str(refused.value).startswith("run.json")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"report": 1,', "run.json:1:14: no JSON: "),
        (b"[1]", "run.json is no report of attncheck: it has no key `report`"),
        (b'{"bench": 1}', "write one with `attncheck run --report json=FILE`"),
        (b"\xff\xfe\x00", "it is not text in UTF-8"),
        (b"[" * 100_000, "it is nested too deeply"),
        (None, "cannot read the report "),
    ],
)
def test_what_is_no_document_is_refused_with_a_hint(content: bytes | None, said: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(document.Unreadable) as refused:
        document.read(tmp_path / "run.json")
    assert said in str(refused.value)
