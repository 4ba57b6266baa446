"""The pages on verdicts and on the command line hold what they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from attncheck.cli.main import COMMANDS
from attncheck.vocabulary import Verdict

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("verdict", Verdict, ids=str)
def test_every_verdict_has_a_page_with_what_it_means_why_and_what_to_run(verdict: Verdict) -> None:
    page = (DOCS / "verdicts" / f"{verdict}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {verdict}\n")
    assert verdict.meaning in page
    titles = [line for line in page.splitlines() if line.startswith("## ")]
    why = "## What to look at" if verdict is Verdict.PASS else "## Likely causes"
    assert titles == ["## What it means", why, "## What to run next"]
    assert "    attncheck " in page.partition("## What to run next")[2]


def test_no_page_is_about_a_verdict_that_does_not_exist() -> None:
    pages = {path.stem for path in (DOCS / "verdicts").glob("*.md")} - {"README", "flags"}
    assert pages == {str(verdict) for verdict in Verdict}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_help_in_the_reference(command: str) -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert f"\n    Usage: attncheck {command}" in page
