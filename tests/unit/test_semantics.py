"""docs/semantics.md and the scenarios that show what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.slow
def test_the_reference_does_what_the_page_says_of_it() -> None:
    """Its known faults are in expectations.yaml: one that is mended, or a new one, fails."""
    asked = ["run", str(CASES), "--backend", "ort-cpu", "--reference", "none"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "attncheck", *asked, "--expect", str(ROOT / "expectations.yaml")],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " xfailed" in done.stdout.splitlines()[-1]
