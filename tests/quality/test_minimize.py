"""Planted faults: each is brought to its true minimum, within 60 s and 400 evaluations, and the certificate holds."""

from __future__ import annotations

import pytest

from attncheck.minimize.search import Minimum
from tests.shrinking import ALL, FAULTS, limit_of, shrunk, verified

pytestmark = pytest.mark.slow


def within(found: Minimum) -> bool:
    """Whether it was as quick as the issue asks."""
    return found.certified and found.evaluations <= 400 and found.seconds < 60


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_brought_to_its_true_minimum_and_the_certificate_holds(name: str) -> None:
    limit = limit_of(name)
    fault = FAULTS[name]
    found = shrunk(name, fault.start, file=fault.file, time_limit=limit)
    assert found.case.text == fault.smallest
    assert within(found)
    assert found.neighbours or name == "always_crashes"
    assert not any(it.same for it in found.neighbours)
    assert verified(name, found, file=fault.file, time_limit=limit)


def test_what_fails_otherwise_on_the_way_is_told_and_not_followed() -> None:
    found = shrunk("crashes_on_the_way", ALL)
    assert [(it.verdict, case.scenario.q_len[0] in (2, 3, 4)) for it, case in found.others] == [("crash", True)]


def test_a_budget_that_is_spent_leaves_the_best_so_far_without_a_certificate() -> None:
    found = shrunk("six_rows", ALL, evaluations=12)
    assert not found.certified
    assert found.neighbours == ()
    assert found.case.scenario.q_len[0] >= 6
