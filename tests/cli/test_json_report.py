"""``--report json``: one document that its schema describes, whole or not there, also of a run that was ended early."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from attncheck.engine.events import CaseFinished, Counts, Event, Result, RunFinished, RunStarted
from attncheck.graph.case import GivenModel
from attncheck.reports import document as documents
from attncheck.reports import json_report
from attncheck.vocabulary import Status, Verdict

from .frozen import ROOT, attncheck

WRONG = f"{ROOT / 'tests' / 'callables' / 'planted.py'}:softcap_ignored"
HANGS = f"{ROOT / 'tests' / 'callables' / 'faulty.py'}:hangs"


def checked(text: str) -> dict[str, Any]:
    """The document, held against the schema in docs/."""
    document: dict[str, Any] = json.loads(text)
    jsonschema.validate(document, json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8")))
    return document


def test_a_script_finds_in_it_what_to_minimise(tmp_path: Path) -> None:
    (tmp_path / "caps.yaml").write_text(
        "scenarios:\n  - {name: plain, q_len: 2, head_dim: 8}\n  - {name: capped, q_len: 2, head_dim: 8, softcap: 1}\n",
        encoding="utf-8",
    )
    ran = attncheck("run", "caps.yaml", "--backend", WRONG, "--report", "json=report.json", folder=tmp_path)
    assert ran.code == 1
    document = checked((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (document["report"], document["interrupted"], document["selected"]) == (1, False, 2)
    assert document["counts"] == {"passed": 1, "failed": 1, "xfailed": 0, "xpassed": 0, "skipped": 0}
    plain, capped = document["cases"]
    assert [plain[key] for key in ("id", "file", "line", "status")] == ["caps.yaml::plain", "caps.yaml", 2, "passed"]
    assert (capped["line"], capped["axes"]) == (3, "q_len=2 head_dim=8 softcap=1")
    assert len(capped["digest"]) == 64
    wrong, reference = capped["results"]
    assert (wrong["verdict"], wrong["status"], wrong["wrong"]) == ("mismatch", "failed", ["softcap-ignored"])
    assert wrong["evidence"] == {"provider": "planted.py", "kernels": ["softcap_ignored"]}
    assert wrong["margin"] == pytest.approx(wrong["error"] / wrong["tolerance"])
    assert wrong["error"] == pytest.approx(abs(wrong["worst"]["got"] - wrong["worst"]["expected"]))
    assert (wrong["worst"]["output"], wrong["against"]) == ("output", "oracle")
    assert (reference["backend"], reference["reference"], reference["verdict"]) == ("ort-cpu", True, "pass")
    assert reference["evidence"]["provider"] == "CPUExecutionProvider"


def test_without_a_file_it_takes_the_place_of_the_table(tmp_path: Path) -> None:
    ran = attncheck("run", "--case", "q_len=2", "--backend", "ort-cpu", "--report", "json", folder=tmp_path)
    document = checked(ran.stdout)
    assert ran.code == 0
    assert document["cases"][0]["axes"] == "q_len=2"


def test_a_run_that_is_interrupted_tells_what_it_had_and_that_it_was(tmp_path: Path) -> None:
    words = ["run", "--case", "q_len=2", "--case", "q_len=3", "--backend", "ort-cpu", "--backend", HANGS]
    process = subprocess.Popen(
        [sys.executable, "-m", "attncheck", *words, "--report", "json=report.json", "--journal", "run.ndjson"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    journal = tmp_path / "run.ndjson"
    deadline = time.monotonic() + 60
    while not (journal.exists() and journal.read_bytes().count(b'"BackendReady"') == 2):
        assert time.monotonic() < deadline, "the backends did not start"
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    document = checked((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert document["interrupted"]
    assert (document["selected"], document["cases"]) == (2, [])


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ("xml=a", "'xml=a' names no format: write FORMAT=FILE, with one of json"),
        ("json=no/such/folder.json", "there is no folder no/such"),
        ("json=.", "it is a folder"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path, report: str, said: str) -> None:
    ran = attncheck("run", "--case", "q_len=2", "--report", report, folder=tmp_path)
    assert (ran.code, ran.stdout) == (2, "")
    assert said in ran.stderr


def test_a_report_that_was_there_stands_until_the_new_one_is_whole(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("the old one", encoding="utf-8")
    (tmp_path / "report.json").chmod(0o640)
    attncheck("run", "--case", "q_len=2", "--backend", "ort-cpu", "--report", "json=report.json", folder=tmp_path)
    checked((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (tmp_path / "report.json").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_numbers_that_json_cannot_say_are_strings() -> None:
    result = Result("x", "b", "", False, Verdict.NONFINITE, Status.FAILED, seconds=float("inf"))
    events: list[Event] = [
        RunStarted(1, ("b",), None),
        CaseFinished(GivenModel("x", "x.onnx", "a model"), "0" * 64, (result,)),
        RunFinished(Counts(failed=1), 0.5),
    ]
    document = checked(json_report.text(documents.report(events)))
    assert document["cases"][0]["results"][0]["seconds"] == "Infinity"
    assert (document["cases"][0]["file"], document["cases"][0]["line"]) == ("x.onnx", 0)
