"""`attncheck show --result`: all there is to say of one case, run now or taken from an earlier run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attncheck.cli.main import invoke
from attncheck.compare.picture import Axis, Map
from attncheck.engine.events import CaseFinished
from attncheck.reports import drawing, json_report, whole
from attncheck.reports.document import report
from attncheck.reports.strip import ASCII, BLOCKS
from attncheck.vocabulary import ExitCode
from tests.cli import events
from tests.cli.frozen import ROOT, assert_golden, attncheck

FAULTY = ROOT / "tests" / "callables" / "faulty.py"


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    (folder / "report.json").write_text(json_report.text(report(events.every_verdict())), encoding="utf-8")
    return folder


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = invoke(["show", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_whole_of_wrong_numbers_reads_as_frozen() -> None:
    document = report(events.every_verdict())
    (case,) = (it for it in document.cases if "window-edges" in it.id)
    assert_golden("show-result.txt", "".join(f"{it.text}\n" for it in whole.lines(document, case, 100, BLOCKS)))


@pytest.mark.parametrize("number", range(sum(isinstance(it, CaseFinished) for it in events.every_verdict())))
def test_every_kind_of_result_can_be_shown_as_a_whole(number: int) -> None:
    document = report(events.every_verdict())
    case = document.cases[number]
    text = "\n".join(it.text for it in whole.lines(document, case, 80, ASCII))
    assert text.startswith(case.id)
    for result in case.results:
        assert f": {result.verdict}, {result.status}" in text
        assert all(word in text for line in result.explanation for word in line.split())
        assert all(f"| {line}" in text for line in result.stderr)
        assert f"attncheck explain {result.verdict}" in text


def test_a_map_is_drawn_row_by_row_with_its_marks() -> None:
    found = Map("margin", 3, Axis("query", 6, 2), Axis("dim", 4, 1), ((0.5, 10.0, 100.0, None), ("NaN",) * 4, (0,) * 4))
    assert [it.text for it in drawing.grid(found, ASCII)] == [
        "  margins of head 3, query 0 to 5, 2 a cell downwards, dim 0 to 3 to the right; . in tolerance, @ 100",
        "  0 |.+@ |",
        "  2 |!!!!|",
        "  4 |....|",
    ]


def test_a_report_s_case_is_told_without_running_anything(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "scenarios/window.yaml::dead", "--from", "report.json")
    assert code == ExitCode.OK
    assert "wgsl naive: crash, failed" in out
    assert "  | assertion failed: lanes <= 32\n" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("scenarios/window.yaml::deat", "--from", "report.json"), "near: scenarios/window.yaml::dead"),
        (("--from", "report.json"), "--from report.json: name one of its 19 cases by its id"),
        (("a::b", "--from", "edges.yaml"), "--from: edges.yaml:1:1: no JSON"),
        (("a::b", "--from", "report.json", "--seed", "3"), "--seed makes or chooses a case to run"),
        (("a::b", "--from", "report.json", "--kernel", "naive"), "--kernel says how a case is run, and --from runs"),
        (("edges.yaml::plain", "--repeat", "3"), "--repeat says how a case is run, and only --result runs the case"),
        (("edges.yaml::plain", "--result", "--step", "1"), "--onnx, --npz and --step tell of a case, and --result"),
    ],
)
def test_what_cannot_be_shown_is_a_mistake_of_usage(
    arguments: tuple[str, ...], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = called(capsys, *arguments)
    assert (code, out) == (ExitCode.USAGE, "")
    assert said in err


def test_a_case_is_run_on_every_backend_and_told_whole(folder: Path) -> None:
    how = ("--backend", f"{FAULTY}:zeros", "--backend", f"{FAULTY}:segfault")
    ran = attncheck("show", "edges.yaml::plain", "--result", *how, folder=folder, width=200)
    assert ran.code == ExitCode.OK, ran.text
    assert re.findall(r"^(\S+?)(?:, the reference)?: (\S+), (\S+)$", ran.stdout, re.MULTILINE) == [
        ("faulty.py:zeros", "mismatch", "failed"),
        ("faulty.py:segfault", "crash", "failed"),
        ("ort-cpu", "pass", "passed"),
    ]
    assert re.search(r"^ +error \S+ / tolerance \S+ = margin \S+$", ran.stdout, re.MULTILINE)
    assert re.search(r"^ +tolerance \S+ = \S+ arithmetic in f32 \+ \S+ storage in float32$", ran.stdout, re.MULTILINE)
    assert f"\n  attncheck run edges.yaml::plain {' '.join(how)}\n" in ran.stdout
    # The line that a failing row of `run` ends with is this command, for the backend of the row.
    row = attncheck("run", "edges.yaml::plain", *how, folder=folder)
    assert f"next: attncheck show --result edges.yaml::plain --backend {FAULTY}:segfault\n" in row.stdout


def test_a_backend_that_does_not_start_ends_it_with_its_code(folder: Path) -> None:
    ran = attncheck("show", "edges.yaml::plain", "--result", "--backend", "gone.py:f", folder=folder)
    assert ran.code == ExitCode.BACKEND
    assert "backend gone.py:f could not start" in ran.stderr
