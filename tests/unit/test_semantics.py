"""docs/semantics.md and the scenarios that show what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from attncheck.scenario import load, override
from attncheck.scenario.command_line import from_command_line

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "docs" / "semantics.yaml"
PAGE = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")


def last_cells() -> list[str]:
    """The scenario column of every row."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "---" not in line]
    return [cell for row in rows if (cell := row.removesuffix("|").split("|")[-1].strip()) != "scenario"]


def test_every_scenario_is_a_row_of_the_page_and_every_named_one_exists() -> None:
    written = {case.id.split("::")[1].split(":")[0] for case in load([CASES], base=CASES.parent)}
    named = {name for cell in last_cells() for name in re.findall(r"^`([a-z-]+)`$", cell)}
    assert named == written


def test_every_row_names_what_shows_it_or_says_why_nothing_can() -> None:
    forms = re.compile(r"`[a-z-]+`|`--case '[^']+'`|none: .+")
    assert [cell for cell in last_cells() if not forms.fullmatch(cell)] == []


def test_a_case_without_a_file_can_be_made() -> None:
    found = [from_command_line(text) for text in re.findall(r"--case '([^']+)'", PAGE)]
    assert found
    assert all(override(case, "seed=1").seed == 1 for case in found)


@pytest.fixture(scope="module")
def seen_on_cpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What the reference does in the cases that each last cell names: `passed`, `refused`, `xfailed` or another status.

    A graph that must be refused and is, is `refused`, and so is a case that the backend declares not to cover.
    """
    report = tmp_path_factory.mktemp("semantics") / "report.json"
    asked = ["run", str(CASES), "--backend", "ort-cpu", "--reference", "none", "--report", f"json={report}"]
    for text in re.findall(r"--case '([^']+)'", PAGE):
        asked += ["--case", text]
    done = subprocess.run(
        [sys.executable, "-m", "attncheck", *asked, "--expect", str(ROOT / "expectations.yaml")],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert report.is_file(), done.stdout + done.stderr
    found: dict[str, set[str]] = defaultdict(set)
    for case in json.loads(report.read_text(encoding="utf-8"))["cases"]:
        name = case["id"].removeprefix("case::") if case["id"].startswith("case::") else case["id"].split(":")[2]
        found[name] |= {_kind(case, result) for result in case["results"]}
    return found


def _kind(case: dict[str, Any], result: dict[str, Any]) -> str:
    """A session whose last step must be refused passes where it is."""
    refused = result["status"] == "passed" and (
        result["message"].startswith("refused, as it must be") or re.search(r"steps=\S*r(\s|$)", case["axes"])
    )
    return "refused" if refused or result["verdict"] == "unsupported" else str(result["status"])


def rows() -> list[tuple[str, str, str]]:
    """Section, what is said to be seen, and the case, of every row that names one."""
    found, section = [], ""
    for line in PAGE.splitlines():
        section = line.removeprefix("## ") if line.startswith("## ") else section
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and (named := re.fullmatch(r"`(?:--case ')?([^'`]+)'?`", cells[-1])):
            found.append((section, cells[-2], named[1].replace(" ", ",")))
    return found


ON_CUDA_ALONE = "com.microsoft PagedAttention"
REFUSED_ELSEWHERE = ("states-that-share-a-query", "empty-entry-of-a-prompt")
"""Their rows say that CPU refuses what the language does not write, which `test_linear.py` and a rule's words show."""


def contradicts(section: str, said: str, name: str, kinds: set[str]) -> bool:
    """Whether CPU does otherwise than a row says: nothing, or "as the oracle", is right; the rest has to be told."""
    if section == ON_CUDA_ALONE:
        return kinds != {"refused"}
    of_cpu = said.startswith("the same") or "CPU" in said.replace("CPU: as the oracle", "").replace("on CPU", "")
    refuses = re.search(r"CPU[^;:]*\b(refuses?|refuse it)\b", said) is not None and name not in REFUSED_ELSEWHERE
    return (refuses != ("refused" in kinds)) or (not of_cpu and kinds != {"passed"})


@pytest.mark.slow
def test_the_reference_does_what_the_page_says_of_it(seen_on_cpu: dict[str, set[str]]) -> None:
    told = [(name, said, sorted(seen_on_cpu[name])) for section, said, name in rows() if contradicts(
        section, said, name, seen_on_cpu[name]
    )]  # fmt: skip
    assert told == []
    assert all(seen_on_cpu[name] for _, _, name in rows())


def test_a_row_that_says_otherwise_would_be_found() -> None:
    assert contradicts("x", "as the oracle", "a", {"xfailed"})
    assert contradicts("x", "", "a", {"passed", "refused"})
    assert contradicts("x", "CPU refuses it", "a", {"passed"})
    assert contradicts("x", "CPU: NaN", "a", {"refused"})
    assert not contradicts("x", "CPU refuses it at opset 24, takes it at 25", "a", {"passed", "refused"})


@pytest.mark.slow
def test_no_known_fault_of_the_reference_is_mended_and_none_is_new(seen_on_cpu: dict[str, set[str]]) -> None:
    """They are in expectations.yaml; of a case without a file nothing can be expected there."""
    written = {name: kinds for name, kinds in seen_on_cpu.items() if "=" not in name}
    assert {name: kinds for name, kinds in written.items() if kinds & {"failed", "xpassed"}} == {}
    assert any("xfailed" in kinds for kinds in written.values())
