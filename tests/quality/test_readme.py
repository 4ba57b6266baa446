"""What the README tells a reader to type does what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """The attncheck commands of the section on a first scenario that need nothing but its file."""
    return [
        line.partition("  #")[0].strip()
        for line in re.findall(r"^    (attncheck .+)$", README, re.MULTILINE)
        if "mine.yaml" in line or "--case" in line
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    path = tmp_path_factory.mktemp("reader")
    (path / "mine.yaml").write_text(text, encoding="utf-8")
    return path


def attncheck(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "attncheck", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_the_first_scenario_passes_in_all_of_its_six_cases(folder: Path) -> None:
    outcome = attncheck(folder, "run", "mine.yaml")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert outcome.stdout.splitlines()[-1].startswith("6 passed")


@pytest.mark.parametrize("command", commands())
def test_each_command_of_the_first_scenario_works(command: str, folder: Path) -> None:
    outcome = attncheck(folder, *shlex.split(command)[1:])
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_the_section_has_commands() -> None:
    assert len(commands()) == 6
