"""`attncheck init`: files that a repository begins with, all of which work, and none of which overwrites anything."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from ruamel.yaml import YAML

from attncheck import __version__
from attncheck.cli import beginning, configuration, main
from attncheck.cli.main import invoke
from attncheck.scenario import load
from attncheck.vocabulary import ExitCode
from tests.cli.frozen import assert_golden, attncheck, settled


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


@pytest.fixture
def begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert invoke(["init", str(tmp_path / "new")]) == ExitCode.OK
    capsys.readouterr()
    return tmp_path / "new"


def files(folder: Path) -> dict[str, bytes]:
    return {str(it.relative_to(folder)): it.read_bytes() for it in sorted(folder.rglob("*")) if it.is_file()}


def test_init_reads_as_frozen_and_what_it_writes_runs_green(tmp_path: Path) -> None:
    ran = attncheck("init", "kernels", folder=tmp_path)
    assert ran.code == ExitCode.OK
    assert_golden("init.txt", ran.text)
    assert set(files(tmp_path / "kernels")) == set(beginning.contents())
    run = attncheck("run", "scenarios/", folder=tmp_path / "kernels")
    assert (run.code, settled(run.stdout).splitlines()[-1]) == (ExitCode.OK, "5 passed in TIME"), run.text


@pytest.mark.parametrize("there", beginning.contents())
def test_nothing_is_written_where_one_of_the_files_is_there(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels" / there).parent.mkdir(parents=True)
    (tmp_path / "kernels" / there).write_text("mine", encoding="utf-8")
    assert invoke(["init", "kernels"]) == ExitCode.USAGE
    assert capsys.readouterr().err == f"attncheck: kernels/{there} is there already; nothing was written\n"
    assert files(tmp_path) == {f"kernels/{there}": b"mine"}


def test_options_in_pyproject_are_not_hidden(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.attncheck]\nquiet = true\n", encoding="utf-8")
    assert invoke(["init", str(tmp_path)]) == ExitCode.USAGE
    assert "has [tool.attncheck], which attncheck.toml beside it would hide" in capsys.readouterr().err
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    assert invoke(["init", str(tmp_path)]) == ExitCode.OK


def test_the_scenario_file_names_a_schema_beside_it_that_it_fits(begun: Path) -> None:
    first = begun / beginning.FIRST
    named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", first.read_text(encoding="utf-8"))
    assert named is not None
    schema = json.loads((first.parent / named[1]).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(read(first))
    assert schema == json.loads((Path(__file__).parents[2] / "docs" / "scenario.schema.json").read_text("utf-8"))


def test_every_case_has_a_reason_to_be(begun: Path) -> None:
    cases = load([begun / beginning.FIRST], begun)
    assert all(it.about for it in cases)
    assert {it.data for it in cases} > {"normal"}


def test_every_option_of_the_configuration_is_one_when_it_is_taken_in(begun: Path) -> None:
    path = begun / configuration.NAME
    assert configuration.find(begun) is not None
    text = re.sub(r"^# (?=\S+ = )", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")
    found = configuration.find(begun)
    assert found is not None
    assert len(found.table) == 5
    context = click.Context(main.cli)
    every = {name: it for name in main.COMMANDS if (it := main.cli.get_command(context, name)) is not None}
    defaults = configuration.defaults(found, every)["run"]
    options = {str(it.name): it for it in every["run"].params}
    assert defaults["backend"] == ["kernel.py:attention"]
    # What is said of a default is the default.
    assert [defaults[name] for name in ("reference", "time_limit")] == [
        options[name].default for name in ("reference", "time_limit")
    ]


def test_the_workflow_installs_this_version_and_calls_run_as_it_can_be_called(begun: Path) -> None:
    steps = read(begun / beginning.WORKFLOW)["jobs"]["attncheck"]["steps"]
    scripts = "\n".join(it.get("run", "") for it in steps)
    assert f'python -m pip install "attncheck=={__version__}"' in scripts
    call = next(shlex.split(line) for line in scripts.splitlines() if line.startswith("attncheck "))
    command = main.cli.get_command(click.Context(main.cli), call[1])
    assert command is not None
    given = command.make_context("run", call[2:]).params
    assert given["what"] == ("scenarios/",)
    kept = next(it["with"]["path"] for it in steps if "upload-artifact" in it.get("uses", ""))
    assert all(it.partition("=")[2].startswith(f"{kept}/") for it in given["report"])
    assert (begun / beginning.FIRST).is_file()


GIT = {"url": "https://host.example/us/attncheck", "vcs_info": {"vcs": "git", "commit_id": "0123abc"}}


@pytest.mark.parametrize(
    ("noted", "requirement", "reachable"),
    [
        (None, f"attncheck=={__version__}", False),
        ("", f"attncheck=={__version__}", True),
        ({"url": "file:///srv/us/attncheck", "dir_info": {"editable": True}}, f"attncheck=={__version__}", False),
        (GIT, "attncheck @ git+https://host.example/us/attncheck@0123abc", True),
        ({**GIT, "url": "ssh://git@host.example/us/attncheck"}, f"attncheck=={__version__}", False),
        (
            {**GIT, "subdirectory": "tools/a"},
            "attncheck @ git+https://host.example/us/attncheck@0123abc#subdirectory=tools/a",
            True,
        ),
        (
            {"url": "https://host.example/attncheck-9-py3-none-any.whl", "archive_info": {}},
            "attncheck @ https://host.example/attncheck-9-py3-none-any.whl",
            True,
        ),
    ],
)
def test_a_workflow_installs_what_pip_can_reach_or_init_says_that_it_does_not(
    noted: dict[str, Any] | str | None,
    requirement: str,
    reachable: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(beginning, "_direct_url", lambda: json.dumps(noted) if isinstance(noted, dict) else noted)
    assert invoke(["init", str(tmp_path / "new")]) == ExitCode.OK
    installs = read(tmp_path / "new" / beginning.WORKFLOW)["jobs"]["attncheck"]["steps"][3]["run"]
    assert shlex.split(installs)[-1] == requirement
    assert ("is on no index" in capsys.readouterr().out) is not reachable


def test_a_run_that_is_told_nothing_runs_the_scenarios_that_init_wrote(
    begun: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (begun / "below").mkdir()
    monkeypatch.chdir(begun / "below")
    assert invoke(["run", "--list"]) == ExitCode.OK
    listed = capsys.readouterr().out.splitlines()
    assert {it.partition("::")[0] for it in listed} == {beginning.FIRST}
    assert invoke(["run", "--list", "shipped/window.yaml::*"]) == ExitCode.OK
    assert all(it.startswith("shipped/window.yaml::") for it in capsys.readouterr().out.splitlines())
    assert invoke(["run", "--list", "--case", "op=gqa q_len=4"]) == ExitCode.OK
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert invoke(["relate", "--list", "--relation", "four-axes"]) in {ExitCode.OK, ExitCode.NOTHING}
    assert "shipped/" not in capsys.readouterr().out
