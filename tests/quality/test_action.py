"""The GitHub action and the workflows of docs/ci.md: read as GitHub does, and their steps run in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from attncheck import __version__
from attncheck.cli.main import configured

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = (ROOT / "tools" / "action.sh").read_text(encoding="utf-8")
ACTION: dict[str, Any] = YAML(typ="safe").load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
ACTION_TEXT = (ROOT / "action.yml").read_text(encoding="utf-8")

# What GitHub's description of the metadata of composite actions allows.
TOP = {"name", "author", "description", "inputs", "outputs", "runs", "branding"}
INPUT = {"description", "required", "default", "deprecationMessage"}
STEP = {"name", "id", "if", "uses", "with", "run", "shell", "env", "working-directory", "continue-on-error"}
COLOURS = {"white", "black", "yellow", "blue", "green", "orange", "red", "purple", "gray-dark"}

posix = pytest.mark.skipif(sys.platform == "win32", reason="the steps are written for bash")


def workflows(name: str = "ci.md") -> list[dict[str, Any]]:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    return [YAML(typ="safe").load(it) for it in re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)]


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    (job,) = workflow["jobs"].values()
    found: list[dict[str, Any]] = job["steps"]
    return found


def test_the_action_has_only_what_github_knows() -> None:
    assert set(ACTION) <= TOP
    assert ACTION["runs"]["using"] == "composite"
    assert ACTION["branding"]["color"] in COLOURS
    for name, it in ACTION["inputs"].items():
        assert set(it) <= INPUT, name
        assert it["description"], name
        assert isinstance(it["default"], str), name
    assert all(set(step) <= STEP for step in STEPS)


def test_every_step_uses_an_action_at_a_version_or_runs_in_a_named_shell() -> None:
    for step in STEPS:
        assert ("uses" in step) != ("run" in step), step["name"]
        assert "run" not in step or step["shell"] == "bash", step["name"]
        assert "uses" not in step or re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]), step["name"]


def test_every_input_is_used_and_every_one_that_is_used_is_declared() -> None:
    assert set(re.findall(r"\binputs\.([\w-]+)", ACTION_TEXT)) == set(ACTION["inputs"])


def test_what_is_given_reaches_the_script_in_variables_and_never_in_its_text() -> None:
    told = {name for step in STEPS for name in step.get("env", {})}
    assert told == set(re.findall(r"\bWITH_\w+", SCRIPT)) - {"WITH_"}
    assert not [step["run"] for step in STEPS if "${{" in step.get("run", "")]


def test_every_output_is_written_by_its_step() -> None:
    ids = {step["id"] for step in STEPS if "id" in step}
    for name, output in ACTION["outputs"].items():
        (step, key) = re.fullmatch(r"\$\{\{ steps\.([\w-]+)\.outputs\.([\w-]+) \}\}", output["value"]).groups()  # type: ignore[union-attr]
        assert step in ids
        assert key == name
        assert f"output {name} " in SCRIPT


def test_the_reports_are_kept_whatever_the_run_came_to() -> None:
    assert "always()" in STEPS[-1]["if"]
    assert STEPS[-1]["with"]["path"] == "${{ inputs.report-folder }}"


@pytest.mark.parametrize("page", ["ci.md", "howto-versions.md"])
def test_the_workflow_of_the_action_gives_it_inputs_that_it_has_and_options_that_there_are(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "released.json").touch()
    (step,) = (it for it in steps(workflows(page)[0]) if "attncheck@" in it.get("uses", ""))
    assert set(step["with"]) <= set(ACTION["inputs"])
    given = configured("run", step["with"]["args"].split()).params
    assert given["fail_on"] or given["baseline"]


def test_the_second_workflow_keeps_its_reports_and_needs_nothing_of_the_action() -> None:
    _, plain = workflows()
    assert not [it for it in steps(plain) if "attncheck@" in it.get("uses", "")]
    assert steps(plain)[-1]["if"] == "always()"


SCENARIOS = """\
scenarios:
  - {name: capped, op: gqa, heads: 4, kv_heads: 2, head_dim: 8, q_len: 4, softcap: 20, data: large-logits}
"""


class Runner:
    """A machine of CI: an empty folder, and a Python with nothing installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        (self.folder / "scenarios").mkdir(parents=True)
        (self.folder / "scenarios" / "own.yaml").write_text(SCENARIOS, encoding="utf-8")
        subprocess.run([sys.executable, "-m", "venv", folder / "python"], check=True, timeout=120)
        kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
        self.output = folder / "output"
        self.environment = kept | {
            "PATH": f"{folder / 'python' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(self.output),
        }

    def run(self, text: str, **given: str) -> subprocess.CompletedProcess[str]:
        """As a step of GitHub's with `shell: bash`."""
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text],
            cwd=self.folder,
            env=self.environment | given,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    @property
    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.output.read_text(encoding="utf-8").splitlines())


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """The machine after the action's first steps."""
    made = Runner(tmp_path_factory.mktemp("ci"))
    outcomes = [made.run(step["run"], WITH_VERSION="") for step in STEPS[1:3]]
    assert [it.returncode for it in outcomes] == [0, 0], "".join(it.stdout + it.stderr for it in outcomes)
    assert "there is an adapter" in outcomes[-1].stderr
    return made


def statuses(file: Path) -> list[str]:
    cases = ET.parse(file).getroot().iter("testcase")
    return [it.tag for case in cases for it in case if it.tag in {"failure", "error"}]


@posix
@pytest.mark.slow
def test_the_steps_of_the_action_keep_the_exit_code_and_the_reports_of_a_run_that_fails(runner: Runner) -> None:
    run = next(step["run"] for step in STEPS if step.get("id") == "run")
    wrong = f"{ROOT}/tests/callables/planted.py:softcap_ignored"
    given = {"WITH_SCENARIOS": "scenarios/", "WITH_BACKENDS": f"wgsl\n{wrong}", "WITH_REFERENCE": "none"}
    outcome = runner.run(run, **given, WITH_ARGS="-k 'capped and not nothing'", WITH_REPORT_FOLDER="kept here")
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    assert outcome.stdout.splitlines()[-1].startswith("1 failed in ")
    assert runner.outputs == {"report-folder": "kept here", "exit-code": "1"}
    kept = runner.folder / "kept here"
    assert {it.name for it in kept.iterdir()} == {"report.html", "junit.xml", "report.json", "journal.ndjson"}
    assert statuses(kept / "junit.xml") == ["failure"]
    assert "softcap ignored" in (kept / "report.html").read_text(encoding="utf-8")


@posix
@pytest.mark.slow
def test_the_action_refuses_a_quote_without_its_twin_and_tells_a_mistake_by_its_exit_code(runner: Runner) -> None:
    run = next(step["run"] for step in STEPS if step.get("id") == "run")
    outcome = runner.run(run, WITH_SCENARIOS="scenarios/", WITH_ARGS="-k 'capped")
    assert outcome.returncode == 2
    assert "the input 'args' has a quote without its twin: -k 'capped" in outcome.stderr
    outcome = runner.run(run, WITH_SCENARIOS="scenarios/", WITH_ARGS="--kernel fast; touch injected")
    assert outcome.returncode == 2
    assert runner.outputs["exit-code"] == "2"
    assert not (runner.folder / "injected").exists()


@posix
@pytest.mark.slow
def test_the_steps_of_the_second_workflow_run(runner: Runner) -> None:
    _, plain = workflows()
    for step in steps(plain):
        if "run" in step and "sudo" not in step["run"]:
            outcome = runner.run(step["run"].replace(f"attncheck=={__version__}", str(ROOT)))
            assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert statuses(runner.folder / "reports" / "junit.xml") == []
    assert (runner.folder / "reports" / "report.html").is_file()
