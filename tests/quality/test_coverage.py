"""docs/coverage.md: no kind of public failure is without a case on a path that it can take."""

from __future__ import annotations

from pathlib import Path

import pytest

from attncheck.scenario.command_line import from_command_line
from attncheck.scenario.load import load
from attncheck.scenario.select import matches
from tools import failures
from tools.failures import KINDS, SEEN, Kind

ROOT = Path(__file__).resolve().parents[2]
CASES = failures.cases()
SEMANTICS = load([ROOT / "docs" / "semantics.yaml"], base=ROOT / "docs")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_of_failure_has_a_case_on_every_path_that_it_can_take(kind: Kind) -> None:
    assert [path for path, found in failures.covering(kind, CASES).items() if not found] == []


def test_a_path_without_a_case_would_be_found() -> None:
    """Every stage of every kind rests on cases: without those it is missed."""
    for kind in KINDS:
        left = tuple(it for it in CASES if not kind.shows(it))
        assert not any(failures.covering(kind, left).values())


@pytest.mark.parametrize(("seen", "ids"), SEEN, ids=[seen for seen, _ in SEEN])
def test_what_was_seen_live_is_shown_by_a_case(seen: str, ids: tuple[str, ...]) -> None:
    for one in ids:
        if one.startswith("--case "):
            from_command_line(one.removeprefix("--case ").strip("'"))
        else:
            assert any(matches(one, case.id) for case in (*CASES, *SEMANTICS)), one
