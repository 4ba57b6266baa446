"""Earlier runs, read back from reports and journals."""

from __future__ import annotations

from pathlib import Path

import pytest

from attncheck.engine.journal import Journal
from attncheck.reports import json_report
from attncheck.reports.document import Unreadable, report
from attncheck.reports.reading import earlier
from tests.cli import events


def test_a_report_and_a_journal_of_one_run_tell_the_same(tmp_path: Path) -> None:
    made = report(events.every_verdict())
    (tmp_path / "report.json").write_text(json_report.text(made), encoding="utf-8")
    with Journal(tmp_path / "run.journal") as journal:
        for event in events.every_verdict():
            journal.write(event)
    # By their text: a NaN is not equal to itself.
    told = {json_report.text(earlier(tmp_path / name)) for name in ("report.json", "run.journal")}
    assert told == {json_report.text(made)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "is no report of attncheck"),
        ('{"journal": 1}\n', "is not a journal of attncheck in format"),
    ],
)
def test_what_is_neither_is_named(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Unreadable, match=rf"it\.json {said}"):
        earlier(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"none\.json: No such file"):
        earlier(tmp_path / "none.json")
