"""`attncheck run` in CI: parts of a selection, and an earlier run as the measure."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from attncheck.cli.main import invoke
from attncheck.reports import json_report
from attncheck.reports.document import report
from attncheck.shipped import shaders_dir
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


def test_a_run_fails_only_on_what_is_new_or_worse_than_in_its_baseline(folder: Path) -> None:
    shaders = folder / "shaders"
    shutil.copytree(shaders_dir(), shaders)
    online = shaders / "online.wgsl"
    online.write_text(online.read_text(encoding="utf-8").replace("params.scale", "(1.5 * params.scale)"), "utf-8")
    run = ("run", "edges.yaml", "--kernel", "online", "--reference", "none")
    broken = (*run, "--shaders", "shaders")
    assert attncheck(*broken, "-k", "window", "--report", "json=then.json", folder=folder).code == ExitCode.FAILED

    known = attncheck(*broken, "-k", "window", "--baseline", "then.json", folder=folder)
    assert (known.code, settled(known.stdout).splitlines()[-1]) == (ExitCode.OK, "2 xfailed in TIME"), known.text

    new = attncheck(*broken, "--baseline", "then.json", "--report", "json=now.json", folder=folder, width=200)
    assert (new.code, settled(new.stdout).splitlines()[-1]) == (ExitCode.FAILED, "1 failed, 2 xfailed in TIME")
    assert "Against then.json: 1 new, 2 results fail as then\n  new     edges.yaml::plain on wgsl: " in new.stdout
    told = json.loads((folder / "now.json").read_text(encoding="utf-8"))
    assert [(it["kind"], it["case"]) for it in told["baseline"]["changes"]] == [("new", "edges.yaml::plain")]
    assert {case["id"]: case["status"] for case in told["cases"]} == {
        "edges.yaml::window-edges:window=3": "xfailed",
        "edges.yaml::window-edges:window=21": "xfailed",
        "edges.yaml::plain": "failed",
    }

    mended = attncheck(*run, "-k", "window", "--baseline", "now.json", folder=folder, width=200)
    assert mended.code == ExitCode.OK
    assert "Against now.json: 2 better, 1 gone\n" in mended.stdout


@pytest.mark.parametrize(("text", "said"), [("{", "it.json:1:2: no JSON"), (None, "it.json holds no case")])
def test_a_baseline_that_says_nothing_is_a_mistake_of_usage(
    text: str | None, said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = json_report.text(report(events.run_of([]))) if text is None else text
    (here / "it.json").write_text(written, encoding="utf-8")
    assert invoke(["run", "edges.yaml", "--baseline", "it.json"]) == ExitCode.USAGE
    assert f"--baseline: {said}" in capsys.readouterr().err
