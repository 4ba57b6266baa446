"""A run held against an earlier one: what fails it, and what is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from attncheck.backends.base import Hello
from attncheck.cli.baselines import _baseline
from attncheck.engine.baseline import WORSE, Baseline, Comparison
from attncheck.engine.events import BackendReady, CaseFinished, Change, Result
from attncheck.reports import compared
from attncheck.reports.document import report
from attncheck.reports.expected import expectation
from attncheck.vocabulary import Flag, Status, Verdict
from tests.cli import events

ID = "window.yaml::edges:window=3"


def wrong(margin: float, case: str = ID, verdict: Verdict = Verdict.MISMATCH, **changes: Any) -> Result:
    difference = events.difference(margin)
    return events.result(case, verdict, worst=difference, differences=(difference,), **changes)


def crash(case: str = ID) -> Result:
    return events.result(case, Verdict.CRASH, message="ended by SIGSEGV")


def good(case: str = ID, **changes: Any) -> Result:
    return events.result(case, **changes)


def baseline(*cases: CaseFinished) -> Baseline:
    return _baseline("then.json", report(events.run_of(list(cases))))


def held(now: Result, then: Result | None) -> Result:
    before = baseline(events.finished(then) if then is not None else events.finished(good("another.yaml::case")))
    return before.held(events.finished(now)).results[0]


@pytest.mark.parametrize(
    ("now", "then", "departure"),
    [
        (wrong(10.0), wrong(10.0), None),
        (wrong(10.0 * WORSE), wrong(10.0), None),
        (wrong(10.1 * WORSE), wrong(10.0), "its margin, 20.2, is more than 2 times that"),
        (wrong(5.0), wrong(10.0), None),
        (crash(), crash(), None),
        (crash(), wrong(10.0), "the verdict is crash"),
        (wrong(10.0), crash(), "the verdict is mismatch"),
        (wrong(math.inf, verdict=Verdict.NONFINITE), wrong(math.inf, verdict=Verdict.NONFINITE), None),
        (wrong(math.inf), wrong(10.0), "its margin, inf, is more than 2 times that"),
        (wrong(math.nan), wrong(10.0), "its margin, nan, is more than 2 times that"),
        (wrong(10.0), wrong(math.inf), None),
        (wrong(9.0, flags=(Flag.FLAKY,)), wrong(9.0), "its verdict changes between repeats"),
        (wrong(9.0, flags=(Flag.FLAKY,)), wrong(9.0, flags=(Flag.FLAKY,)), None),
    ],
)
def test_a_failure_is_known_where_it_failed_so_before_and_not_clearly_less(
    now: Result, then: Result, departure: str | None
) -> None:
    found = held(now, then)
    assert found.status is (Status.XFAILED if departure is None else Status.FAILED)
    assert found.expected is not None
    assert (found.expected.place, found.expected.departure) == ("then.json", departure or "")


@pytest.mark.parametrize("then", [None, good(), events.result(ID, Verdict.UNSUPPORTED)])
def test_a_failure_where_none_was_is_new(then: Result | None) -> None:
    found = held(wrong(10.0), then)
    assert (found.status, found.expected) == (Status.FAILED, None)


def test_a_failure_that_was_expected_then_is_known_now() -> None:
    assert held(wrong(10.0), replace(wrong(10.0), status=Status.XFAILED)).status is Status.XFAILED


@pytest.mark.parametrize("status", [Status.XPASSED, Status.XFAILED])
def test_what_expectations_have_settled_stays_so(status: Status) -> None:
    now = replace(good() if status is Status.XPASSED else wrong(10.0), status=status, expected=events.KNOWN)
    assert held(now, wrong(1.5)) == now


def test_a_case_under_another_name_is_found_by_its_content_unless_two_have_it() -> None:
    renamed = events.finished(wrong(10.0, "renamed.yaml::it"))  # events.finished gives every case one digest
    assert baseline(events.finished(wrong(10.0))).held(renamed).results[0].status is Status.XFAILED
    two = baseline(events.finished(wrong(10.0)), events.finished(wrong(10.0, "other.yaml::it")))
    assert two.held(renamed).results[0].status is Status.FAILED


def test_only_flags_that_were_not_there_are_new() -> None:
    before = baseline(events.finished(good(flags=(Flag.VACUOUS,))))
    assert before.new_flags(events.finished(good(flags=(Flag.VACUOUS, Flag.DISPUTED)))) == {Flag.DISPUTED}
    assert before.new_flags(events.finished(good("no.yaml::where", flags=(Flag.VACUOUS,)))) == set()
    assert baseline(events.finished(good())).new_flags(events.finished(good(flags=(Flag.FLAKY,)))) == {Flag.FLAKY}


def case(name: str) -> str:
    return f"a.yaml::{name}"


def stand(*, complete: bool = True, elsewhere: tuple[str, ...] = ()) -> Comparison:
    then = [good(case("new")), wrong(5.0, case("worse")), wrong(9.0, case("same")), wrong(9.0, case("mended"))]
    then += [wrong(99.0, case("less")), good(case("lost")), good(case("gone")), good(case("fine"))]
    now = [wrong(5.0, case("new")), wrong(50.0, case("worse")), wrong(9.0, case("same")), good(case("mended"))]
    now += [wrong(9.0, case("less")), events.result(case("lost"), Verdict.UNSUPPORTED), good(case("fine"))]
    before = baseline(*(events.finished(it) for it in then))
    found = Comparison(before, elsewhere)
    found.note(BackendReady("wgsl", Hello({"wgpu": "0.33.0"}, {"adapter": "another"})))
    for it in now:
        found.note(before.held(events.finished(it)))
    return found


def test_what_changed_is_told_kind_by_kind() -> None:
    told = stand().compared("1.2.3", complete=True)
    assert told.known == 1
    assert told.changes == (
        Change("new", case("new"), "wgsl", "pass with margin 0.038", "mismatch with margin 5.00"),
        Change("worse", case("worse"), "wgsl", "mismatch with margin 5.00", "mismatch with margin 50.0"),
        Change("better", case("mended"), "wgsl", "mismatch with margin 9.00", "pass with margin 0.038"),
        Change("better", case("less"), "wgsl", "mismatch with margin 99.0", "mismatch with margin 9.00"),
        Change("gone", case("lost"), "wgsl", "pass with margin 0.038", "unsupported"),
        Change("gone", case("gone"), "wgsl", "pass with margin 0.038", ""),
    )


def test_other_versions_and_adapters_than_in_the_baseline_are_said() -> None:
    told = stand().compared("1.2.3", complete=True)
    from attncheck import __version__

    assert told.differs == (
        f"attncheck was {__version__}, is 1.2.3",
        "wgsl: wgpu was 0.32.0, is 0.33.0",
        "wgsl: adapter was llvmpipe (LLVM 19.1.7, 256 bits), is another",
        "ort-cpu is in the baseline and did not run here",
    )


@pytest.mark.parametrize(("complete", "elsewhere"), [(False, ()), (True, (case("gone"),))])
def test_what_was_not_run_here_is_not_gone(complete: bool, elsewhere: tuple[str, ...]) -> None:
    told = stand(elsewhere=elsewhere).compared("1.2.3", complete=complete)
    assert [it.case for it in told.changes if it.kind == "gone"] == [case("lost")]


def test_an_edited_case_is_held_against_the_one_of_its_id_and_that_is_said() -> None:
    before = baseline(replace(events.finished(wrong(10.0)), digest="of old"))
    found = Comparison(before)
    now = before.held(events.finished(wrong(10.0)))
    found.note(now)
    assert now.results[0].status is Status.XFAILED
    told = found.compared("1.2.3", complete=True)
    assert "1 case has other content than in the baseline, and the id of then" in told.differs


def test_the_terminal_is_told_what_changed() -> None:
    told = stand().compared("1.2.3", complete=True)
    texts = [line.text for line in compared.lines(told, 100)]
    assert texts[:4] == [
        "",
        "Against then.json: 1 new, 1 worse, 2 better, 2 gone, 1 result fails as then",
        "  new     a.yaml::new on wgsl: mismatch with margin 5.00, was pass with margin 0.038",
        "  worse   a.yaml::worse on wgsl: mismatch with margin 50.0, was mismatch with margin 5.00",
    ]
    assert texts[7] == "  gone    a.yaml::gone on wgsl: was pass with margin 0.038"


def against(then: Sequence[Result], now: Sequence[Result]) -> str:
    """How the terminal heads the comparison of two runs, in which contents are told apart."""
    before = baseline(*(replace(events.finished(it), digest=it.case) for it in then))
    found = Comparison(before)
    if now:
        found.note(before.held(replace(events.finished(*now), digest=now[0].case)))
    return compared.lines(found.compared("1.2.3", complete=True), None)[1].text.removeprefix("Against then.json: ")


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        ([good()], [good()], "nothing has changed"),
        ([good()], [good(backend="mine")], "nothing could be compared: it has no result of mine"),
        ([good()], [wrong(9.0, backend="mine")], "nothing could be compared: it has no result of mine; 1 new"),
        ([good("b::x")], [good()], "nothing could be compared: it has none of these cases"),
        (
            [good("b::x"), good(backend="other")],
            [good(backend="wgsl")],
            "nothing could be compared: it has none of these cases on wgsl",
        ),
        ([good()], [], "nothing could be compared: no case was judged here"),
        (
            [events.reference(ID)],
            [good(backend="mine"), events.reference(ID)],
            "only the reference, ort-cpu, could be compared: it has no result of mine",
        ),
    ],
)
def test_where_nothing_could_be_compared_that_is_said_and_why(
    then: list[Result], now: list[Result], said: str
) -> None:
    assert against(then, now) == said


def test_a_row_says_that_the_baseline_has_it_so_and_writes_the_number_as_the_table_does() -> None:
    known = held(wrong(3.31e12), wrong(3.31e12))
    assert expectation(known, verbose=False) == ["the baseline, then.json, has it so: mismatch with margin 3.3e12"]
    worse = held(wrong(50.0), wrong(5.0))
    assert expectation(worse, verbose=False) == [
        "the baseline, then.json, has mismatch with margin 5.00; now its margin, 50.0, is more than 2 times that"
    ]


def test_of_many_changes_the_first_are_told() -> None:
    told = stand().compared("1.2.3", complete=True)
    many = replace(told, changes=tuple(replace(told.changes[0], case=f"a.yaml::{n}") for n in range(20)), differs=())
    texts = [line.text for line in compared.lines(many, 100)]
    assert len(texts) == 2 + compared.TOLD + 1
    assert texts[-1].strip() == f"and {20 - compared.TOLD} more"
