"""The generated parts of docs/ are what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from attncheck.vocabulary import ExitCode

ROOT = Path(__file__).resolve().parents[2]


def test_no_generated_part_is_stale() -> None:
    outcome = subprocess.run(
        [sys.executable, ROOT / "tools" / "docs.py", "--check"], capture_output=True, text=True, timeout=60, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_the_exit_code_page_has_a_row_for_every_code() -> None:
    page = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE))
    assert rows == {str(code.value): code.meaning for code in ExitCode}


def test_every_relative_link_of_the_docs_leads_to_a_file() -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    links = [
        (page, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        if "://" not in target
    ]
    assert [(page.name, target) for page, target in links if not (page.parent / target).exists()] == []
