"""How a selection is parted among machines."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncheck.engine.shards import Shard, shards

IDS = st.lists(st.text(min_size=1, max_size=12), unique=True, max_size=60)


@given(IDS, st.integers(1, 9), st.dictionaries(st.text(max_size=2), st.floats(0, 1e3)))
def test_every_case_is_in_exactly_one_part_whatever_the_order(
    ids: list[str], of: int, seconds: dict[str, float]
) -> None:
    found = shards(ids, of, seconds)
    assert sorted(found) == sorted(ids)
    assert set(found.values()) <= set(range(1, of + 1))
    assert shards(ids[::-1], of, seconds) == found


@given(IDS, st.integers(1, 9))
def test_without_times_cases_that_come_and_go_move_no_other(ids: list[str], of: int) -> None:
    some = ids[::2]
    whole = shards(ids, of, {})
    assert shards(some, of, {}) == {one: whole[one] for one in some}


def test_a_part_is_the_same_on_every_machine() -> None:
    digest = hashlib.sha256(b"window.yaml::edges:window=3").hexdigest()
    expected = int(digest[:16], 16) % 8 + 1
    assert shards(["window.yaml::edges:window=3"], 8, {}) == {"window.yaml::edges:window=3": expected}


def test_times_balance_what_the_parts_have_to_do() -> None:
    seconds = {"a": 10.0, "b": 5.0, "c": 4.0, "d": 1.0, "e": 1.0, "f": 1.0}
    found = shards([*seconds], 2, seconds)
    loads = [sum(seconds[one] for one in found if found[one] == number) for number in (1, 2)]
    assert loads == [11.0, 11.0]


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=60), st.integers(1, 9))
def test_no_part_exceeds_a_fair_share_by_more_than_one_case(times: list[float], of: int) -> None:
    seconds = {f"case-{number}": time for number, time in enumerate(times)}
    loads: Counter[int] = Counter()
    for one, number in shards([*seconds], of, seconds).items():
        loads[number] += seconds[one]  # type: ignore[assignment]
    assert max(loads.values()) <= sum(times) / of + max(times) + 1e-9


def test_a_case_without_a_time_counts_as_the_usual_one() -> None:
    found = shards(["slow", "a", "b", "new-1", "new-2"], 2, {"slow": 8.0, "a": 2.0, "b": 2.0})
    assert [one for one in found if found[one] == found["slow"]] == ["slow"]


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "/4", "1/", "a/b", "-1/2", "1/0", "1.5/2", ""])
def test_what_names_no_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="^" + text):
        Shard.read(text)


def test_a_part_reads_as_it_is_written() -> None:
    assert Shard.read("2/8") == Shard(2, 8)
    assert str(Shard(2, 8)) == "2/8"
