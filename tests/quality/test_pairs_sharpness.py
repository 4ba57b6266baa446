"""The pairwise suite lets no wrong kernel survive, and hardly one that is wrong beside one feature only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from functools import cache

import pytest

from attncheck.compare.sharpness import Sharpness
from attncheck.scenario.load import load
from attncheck.scenario.model import Scenario
from attncheck.shipped import scenarios_dir
from tests.quality.test_shipped_sharpness import sharp

pytestmark = pytest.mark.slow

Told = dict[Hashable, set[str]]


@cache
def pairs() -> tuple[tuple[Scenario, Sharpness], ...]:
    """Every case, judged as a backend that computes in float32."""
    return tuple((it, sharp(it)[0]) for it in load([scenarios_dir() / "pairs.yaml"], scenarios_dir()))


def grouped(by: Callable[[Scenario], Iterable[Hashable]]) -> tuple[Told, Told]:
    """The wrong kernels that are relevant, and those that are rejected, in some case of each group."""
    relevant: Told = defaultdict(set)
    rejected: Told = defaultdict(set)
    for it, told in pairs():
        for group in by(it):
            relevant[group] |= set(told.relevant)
            rejected[group] |= set(told.rejected)
    return relevant, rejected


def test_no_wrong_kernel_survives_the_cases_of_an_operator_and_type() -> None:
    relevant, rejected = grouped(lambda it: [(it.op, it.dtype)])

    survivors = {group: left for group, names in relevant.items() if (left := names - rejected[group])}
    assert survivors == {}


def test_no_case_is_vacuous() -> None:
    assert [it.id for it, told in pairs() if told.vacuous] == []


def test_a_kernel_that_is_wrong_beside_one_feature_only_is_nearly_always_noticed() -> None:
    """Each feature's value has cases that reject each wrong kernel that is relevant to some of them.

    What is left has its reason: a mask that hides a whole row says the same of every row and head; with one KV head
    every head reads the same keys; and one huge logit hides all that is done to the other keys.
    """
    relevant, rejected = grouped(lambda it: [(it.id.split(":")[2], axis, value) for axis, value in it.written])

    asked = sum(map(len, relevant.values()))
    missed = sum(len(names - rejected[group]) for group, names in relevant.items())
    assert missed < 0.02 * asked
