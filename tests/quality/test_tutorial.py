"""A reader who does what the tutorial and the how-tos say meets what they show."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import get_args

import pytest

from attncheck.scenario.model import Kernel
from tests.quality.pages import Command, File, do, fits, read

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"


HOW_TOS = sorted((ROOT / "docs").glob("howto-*.md"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the commands are written for a POSIX shell")
def test_every_command_of_the_tutorial_does_what_it_shows(tmp_path: Path) -> None:
    for step in read(TUTORIAL):
        do(step, tmp_path, {"path/to/attncheck": str(ROOT)})


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the commands are written for a POSIX shell")
@pytest.mark.parametrize("page", HOW_TOS, ids=[page.stem for page in HOW_TOS])
def test_every_command_of_a_how_to_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    for step in [*(it for it in read(TUTORIAL) if isinstance(it, File)), *read(page)]:
        do(step, tmp_path, {})


def test_the_tutorial_goes_from_an_installation_to_ci() -> None:
    steps = list(read(TUTORIAL))
    words = " ".join(step.text for step in steps if isinstance(step, Command))
    assert [step.name for step in steps if isinstance(step, File)] == ["kernel.py", "window.yaml"]
    for needed in ("pip install", "--backend kernel.py:mine", "explain", "minimize", "repro.py", "--shaders", "junit="):
        assert needed in words


def test_the_how_to_on_wgsl_has_every_kernel_and_files_that_there_are() -> None:
    text = (ROOT / "docs" / "howto-wgsl.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")][1:]
    assert [row[1].strip(" `") for row in rows] == [name for name in get_args(Kernel) if name != "auto"]
    files = [file for row in rows for file in re.findall(r"`(\w+\.wgsl)`", row[2])]
    assert [file for file in files if not (ROOT / "shaders" / file).is_file()] == []


@pytest.mark.parametrize(
    ("shown", "output", "same"),
    [
        (["  a  1.5e-7  pass"], ["  a      2.25e-8  pass"], True),
        (["  a  1.5e-7  pass"], ["  a  1.5e-7  mismatch"], False),
        (["3 passed in 0.9s"], ["3 passed in 12s"], True),
        (["3 passed in 0.9s"], ["4 passed in 0.9s"], False),
        (["one", "...", "four"], ["one", "two", "", "three", "four"], True),
        (["one", "..."], ["two", "one"], False),
        (["window 1 -> none"], ["window 2 -> none"], False),
        (["case    backend"], ["case  backend"], False),
    ],
)
def test_numbers_that_rounding_changes_and_left_out_lines_do_not_count(
    shown: list[str], output: list[str], same: bool
) -> None:
    assert fits(tuple(shown), output) is same
