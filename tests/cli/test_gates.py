"""`attncheck run` in CI: parts of a selection, and an earlier run as the measure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attncheck.cli.main import invoke
from attncheck.reports import json_report
from attncheck.reports.document import report
from attncheck.vocabulary import ExitCode
from tests.cli import events
from tests.cli.frozen import attncheck, settled

ALL = ("edges.yaml", "more.yaml")
CASES = 5


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert invoke(["run", *ALL, "--list", *arguments]) == ExitCode.OK
    return capsys.readouterr().out.split()


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def test_the_parts_of_a_selection_are_the_selection(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [listed(capsys, "--shard", f"{number}/3") for number in (1, 2, 3)]
    together = [case for part in parts for case in part]
    assert sorted(together) == sorted(listed(capsys))
    assert len(together) == CASES


def test_times_of_a_report_balance_the_parts(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = listed(capsys)
    times = zip(ids, (9.0, 1.0, 1.0, 1.0, 1.0), strict=True)
    run = [events.finished(events.result(case, seconds=seconds)) for case, seconds in times]
    (here / "times.json").write_text(json_report.text(report(events.run_of(run))), encoding="utf-8")
    parts = [listed(capsys, "--shard", f"{number}/2", "--shard-times", "times.json") for number in (1, 2)]
    assert sorted(parts) == sorted([ids[:1], ids[1:]])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--shard", "3/2"), "'3/2' names no part: write K/N with K from 1 to N, as in 2/8"),
        (("--shard-times", "edges.yaml"), "--shard-times balances the parts of --shard: give one, as in --shard 2/8"),
        (
            ("--shard", "1/2", "--shard-times", "edges.yaml"),
            "--shard-times: edges.yaml:1:1: no JSON",
        ),
    ],
)
def test_a_part_that_cannot_be_made_is_a_mistake_of_usage(
    arguments: tuple[str, ...], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["run", *ALL, *arguments]) == ExitCode.USAGE
    assert said in capsys.readouterr().err


def test_an_empty_part_ends_well_with_its_report_and_an_empty_selection_does_not(folder: Path) -> None:
    one = ("run", "edges.yaml::plain", "--reference", "none")
    # One case in two parts: one of them has none.
    codes = {}
    for number in (1, 2):
        ran = attncheck(*one, "--shard", f"{number}/2", "--report", f"json={number}.json", folder=folder)
        codes[settled(ran.stdout).splitlines()[-1]] = ran.code
        assert f"shard {number}/2: " in ran.stderr
    assert codes == {"1 passed in TIME": ExitCode.OK, "nothing ran in TIME": ExitCode.OK}
    counted = [len(json.loads((folder / f"{number}.json").read_text(encoding="utf-8"))["cases"]) for number in (1, 2)]
    assert sorted(counted) == [0, 1]
    assert attncheck(*one, "-k", "nothing", "--shard", "1/2", folder=folder).code == ExitCode.NOTHING
