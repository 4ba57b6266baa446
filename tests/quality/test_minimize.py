"""Planted faults: each is brought to its true minimum, within 60 s and 400 evaluations, and the certificate holds."""

from __future__ import annotations

import pytest

from attncheck.minimize.search import Minimum
from tests.shrinking import ALL, FAULTS, PLANTED, limit_of, shrunk, start_of, verified

pytestmark = pytest.mark.slow

def within(found: Minimum) -> bool:
    """Whether it was as quick as the issue asks."""
    return found.certified and found.evaluations <= 400 and found.seconds < 60


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_brought_to_its_true_minimum_and_the_certificate_holds(name: str) -> None:
    limit = limit_of(name)
    found = shrunk(name, start_of(name), time_limit=limit)
    assert found.case.text == f"op=gqa,{FAULTS[name][1]}"
    assert within(found)
    assert found.neighbours or name == "always_crashes"
    assert not any(it.same for it in found.neighbours)
    if "flaky" not in name:
        assert verified(name, found, time_limit=limit)


def test_a_fault_that_needs_a_second_step_is_brought_to_two_steps() -> None:
    """A token is dropped and the next takes its slot: in one step nothing is rewound."""
    start = "op=gqa heads=4 kv_heads=2 head_dim=8 capacity=24 steps=5-1x3-4a2.spec-3-1x2"
    found = shrunk("forgets_to_rewind", start, file=PLANTED.parent / "sessions.py")
    assert within(found)
    assert found.case.text.startswith("op=gqa,capacity=1,heads=1,head_dim=1,steps=1a0-1,")


def test_what_fails_otherwise_on_the_way_is_told_and_not_followed() -> None:
    found = shrunk("crashes_on_the_way", ALL)
    assert [(it.verdict, case.scenario.q_len[0] in (2, 3, 4)) for it, case in found.others] == [("crash", True)]


def test_a_budget_that_is_spent_leaves_the_best_so_far_without_a_certificate() -> None:
    found = shrunk("six_rows", ALL, evaluations=12)
    assert not found.certified
    assert found.neighbours == ()
    assert found.case.scenario.q_len[0] >= 6
