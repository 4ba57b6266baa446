"""What the README tells a reader to type does what it says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from attncheck.cli.main import COMMANDS
from tests.quality.pages import Command, File, do, read

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"


def save(page: Path, folder: Path) -> None:
    for step in read(page):
        if isinstance(step, File):
            do(step, folder, {})


def test_the_first_scenario_passes_in_all_of_its_six_cases(tmp_path: Path) -> None:
    save(README, tmp_path)
    do(Command("python -m attncheck run mine.yaml", 0, ("...", "6 passed in 1.0s")), tmp_path, {})


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the commands are written for a POSIX shell")
def test_every_command_of_the_readme_does_what_it_shows(tmp_path: Path) -> None:
    save(TUTORIAL, tmp_path)
    steps = list(read(README))
    assert sum(isinstance(step, Command) for step in steps) == 9
    for step in steps:
        do(step, tmp_path, {})


def test_every_command_that_there_is_stands_in_the_table() -> None:
    text = README.read_text(encoding="utf-8")
    rows = text[text.index("| command | what it does") :].partition("\n\n")[0].splitlines()[2:]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])) == sorted(COMMANDS)
