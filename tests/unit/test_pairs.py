"""The pairwise suite: every pair of features that the language lets meet, and every size around a block."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from ruamel.yaml import YAML

from attncheck.scenario import Scenario, load
from attncheck.scenario.axes import AXES, spell
from attncheck.scenario.memory import DEFAULT_LIMIT
from attncheck.scenario.possible import impossibilities
from attncheck.scenario.resolve import complete
from attncheck.shipped import scenarios_dir

FILE = scenarios_dir() / "pairs.yaml"
CASES = load([FILE], base=scenarios_dir(), prefix="shipped/")
ENTRIES: list[dict[str, Any]] = YAML(typ="safe", pure=True).load(FILE)["scenarios"]
PAIRWISE = [entry for entry in ENTRIES if entry["matrix"].get("mode") == "pairwise"]

NOT_FEATURES = {
    *("op", "batch", "heads", "q_len", "past_len", "rotary_cache", "steps", "kv_cache", "kv_scales"),
    *("seed", "kernel", "data", "q_values", "k_values", "v_values", "bias_values", "sink_values"),
}
"""Sizes, data, sessions, the quantised cache, which few backends have, and what is set for a whole scenario."""


def of(name: str) -> list[Scenario]:
    return [case for case in CASES if case.id.startswith(f"shipped/pairs.yaml::{name}:")]


@pytest.mark.parametrize("op", ["gqa", "mha", "decoder-mha", "ms-attention", "attention"])
def test_every_feature_of_an_operator_is_swept(op: str) -> None:
    """A feature that somebody adds to the language is added to the pairs, too: a line, or a matrix of its own."""
    swept = {axis for entry in PAIRWISE if op in operators(entry) for axis in (*entry, *entry["matrix"])}
    features = {axis.name for axis in AXES.values() if not axis.ops or op in axis.ops} - NOT_FEATURES
    # Every operator has the width of what turns, those too where nothing does.
    elsewhere = set() if "rotary" in features else {"rotary_dim"}
    assert features - swept == elsewhere


def operators(entry: dict[str, Any]) -> tuple[str, ...]:
    """Whose matrix an entry is, of those that sweep more than hostile data."""
    if entry["name"].endswith("-hostile"):
        return ()
    return tuple(entry["matrix"].get("op", [entry.get("op")]))


@pytest.mark.parametrize("entry", PAIRWISE, ids=lambda entry: str(entry["name"]))
def test_each_two_values_meet_that_can(entry: dict[str, Any]) -> None:
    """Two that no case holds together break a rule in the place of each case's own two."""
    cases = [dict(case.written) for case in of(entry["name"])]
    axes = {axis: [spell(value) for value in values] for axis, values in entry["matrix"].items() if axis in AXES}
    met = {pair for case in cases for pair in combinations([(axis, case[axis]) for axis in axes], 2)}
    values = {axis: dict(zip(axes[axis], entry["matrix"][axis], strict=True)) for axis in axes}
    for first, second in combinations(axes, 2):
        for one in axes[first]:
            for other in axes[second]:
                if ((first, one), (second, other)) not in met:
                    assert not possible_beside(entry, cases, values, {first: one, second: other})


def possible_beside(
    entry: dict[str, Any], cases: list[dict[str, str]], values: dict[str, dict[str, Any]], pair: dict[str, str]
) -> bool:
    """Whether a case would still be possible, and not excluded, with the pair in place of its own two values."""
    for case in cases:
        changed = case | pair
        excluded = entry["matrix"].get("exclude", ())
        if any(all(changed.get(axis) == spell(it) for axis, it in one.items()) for one in excluded):
            continue
        chosen = {axis: values[axis][changed[axis]] for axis in values}
        fixed = {axis: value for axis, value in entry.items() if axis in AXES}
        whole = {"heads": 4} | fixed | {axis: tuple(it) if isinstance(it, list) else it for axis, it in chosen.items()}
        if not any(impossibilities(complete(whole), frozenset(), DEFAULT_LIMIT)):
            return True
    return False


@pytest.mark.parametrize("block", [4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_rows_and_keys_end_at_each_block_and_one_before_and_behind(block: int, more: int) -> None:
    assert block + more in {max(case.q_len) for case in of("row-sizes")}
    assert block + more in {max(case.kv_len) for case in of("key-sizes")}


def test_every_width_of_a_head_meets_every_feature_of_gqa() -> None:
    assert {case.head_dim for case in of("gqa")} == {4, 8, 16, 32, 40, 64, 72, 80, 96, 128, 256}


def test_the_cases_are_small() -> None:
    assert max(max(case.kv_len) for case in CASES) <= 129
    assert max(case.batch for case in CASES) <= 3
