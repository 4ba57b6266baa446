"""The search over versions: the place of a change, in as few questions as promised."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncheck.backends.releases import UnknownReleases, chosen, within
from attncheck.bisect import Bisection, Change, bisect
from attncheck.cli import bisecting


def search(answers: Sequence[str | None]) -> tuple[Bisection, list[int]]:
    asked: list[int] = []

    def ask(version: str) -> str | None:
        asked.append(int(version))
        return answers[int(version)]

    return bisect([str(at) for at in range(len(answers))], ask), asked


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n + 1), st.integers(1, n))))
def test_one_change_is_found_in_log2_n_and_2_questions(drawn: tuple[int, int]) -> None:
    number, at = drawn
    found, asked = search(["pass" if it < at else "mismatch" for it in range(number)])
    (change,) = found.changes
    assert (change.before, change.after) == (str(at - 1), str(at))
    assert (change.was, change.becomes) == ("pass", "mismatch")
    assert found.monotone
    assert len(asked) == len(set(asked)) <= math.ceil(math.log2(number)) + 2


@given(st.lists(st.sampled_from(["pass", "mismatch", "crash", None]), min_size=1, max_size=40))
def test_every_change_that_is_told_is_one_and_lies_between_versions_that_were_run(answers: list[str | None]) -> None:
    found, asked = search(answers)
    for change in found.changes:
        before, after = int(change.before), int(change.after)
        assert before < after
        assert (answers[before], answers[after]) == (change.was, change.becomes)
        assert change.was != change.becomes
        assert answers[before + 1 : after] == [None] * (after - before - 1)
        assert list(change.untold) == [str(it) for it in range(before + 1, after)]
        assert {before, after} <= set(asked)
    assert len(asked) == len(set(asked))
    assert found.asked == tuple((str(it), answers[it]) for it in sorted(asked))
    told = [it for it in answers if it is not None]
    if told and told[0] != told[-1]:
        assert found.changes


def test_a_third_answer_shows_that_it_is_not_monotone() -> None:
    found, _ = search(["error"] * 5 + ["pass"] * 4 + ["mismatch"] * 7)
    assert not found.monotone
    assert [(it.before, it.after) for it in found.changes] == [("4", "5"), ("8", "9")]


def test_a_fault_that_came_and_went_between_ends_that_agree_is_found_and_said() -> None:
    found, _ = search(["pass"] * 6 + ["mismatch"] * 5 + ["pass"] * 6)
    assert not found.monotone
    assert [(it.before, it.after) for it in found.changes] == [("5", "6"), ("10", "11")]


def test_no_change_is_no_change() -> None:
    found, asked = search(["pass"] * 64)
    assert found.changes == ()
    assert len(asked) <= 6 + 2 + 1


def test_a_range_takes_its_ends_with_all_that_begin_with_them_in_the_order_of_versions() -> None:
    versions = ["1.32.0", "1.9.0", "1.33.0", "1.20.1", "1.32.1", "1.19.2", "1.20.0"]
    assert within(versions, "1.20", "1.32") == ("1.20.0", "1.20.1", "1.32.0", "1.32.1")
    assert within(versions, "1.20.1", "1.32.0") == ("1.20.1", "1.32.0")


def test_a_list_is_taken_as_it_is_and_sorted_and_what_is_no_version_is_refused() -> None:
    assert chosen("1.23.2,1.9.0,1.23.2", "onnxruntime", "python") == ("1.9.0", "1.23.2")
    with pytest.raises(UnknownReleases, match="'newest' is not a version"):
        chosen("1.20.1,newest", "onnxruntime", "python")


@pytest.mark.parametrize("text", ["1.32..1.20", "1.20.1..1.20.0"])
def test_a_range_from_the_later_to_the_earlier_is_told_to_be_reversed(text: str) -> None:
    low, _, high = text.partition("..")
    with pytest.raises(UnknownReleases, match=f"is reversed: {low} comes after {high}; write {high}..{low}"):
        chosen(text, "onnxruntime", "python")


def test_a_version_that_could_not_be_told_is_not_counted_as_run(capsys: pytest.CaptureFixture[str]) -> None:
    change = Change("1", "3", "pass", "mismatch")
    bisecting.say(Bisection((("1", "pass"), ("2", None), ("3", "mismatch")), (change,)), 9)
    assert capsys.readouterr().out.splitlines()[-1] == "2 of 9 versions were run; 1 could not be"
    bisecting.say(Bisection((("1", "pass"),), ()), 1)
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 1 version was run"
