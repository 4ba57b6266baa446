"""Expectations: what is known to fail is told from what is new, and what would bring a backend down is not run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from attncheck.backends.base import Hello
from attncheck.backends.ort_cpu import OrtCpu
from attncheck.engine import run as engine
from attncheck.engine.events import BackendReady, CaseFinished, Counts, Event, Result, RunFinished
from attncheck.engine.expectations import Expectations, Usage
from attncheck.engine.journal import Journal, read
from attncheck.scenario.expectation import QUARANTINED, Band, Expectation
from attncheck.scenario.model import Scenario, Source, Tolerance
from attncheck.vocabulary import Flag, Status, Verdict
from tests.cli.events import difference
from tests.drawing import scenario
from tests.unit.test_engine import Faulty, events, finished, results

H200 = Hello({"onnxruntime": "1.32.0", "onnxruntime_ep_webgpu": "0.4.0"}, {"adapter": "NVIDIA H200"})
CASE = "shipped/softcap.yaml::decode:op=gqa,softcap=2"


def expectation(**given: Any) -> Expectation:
    """A known softcap fault of ort-webgpu, with `given` in place of its own."""
    fields: dict[str, Any] = {
        "source": Source("expectations.yaml", 2),
        "cases": (CASE,),
        "backend": "ort-webgpu",
        "verdict": Verdict.MISMATCH,
        "reason": "softcap is never read",
        "link": "https://example.org/1",
    } | given
    if fields["verdict"] is Verdict.MISMATCH:
        fields.setdefault("max_abs", Band(0.05, 1.0))
    return Expectation(**fields)


def seen(verdict: Verdict, *errors: float, **given: Any) -> Result:
    """A result of CASE on ort-webgpu whose outputs out of tolerance have these largest errors."""
    found = tuple(difference(2.0, max_abs=error) for error in errors)
    status = Status.PASSED if verdict is Verdict.PASS else Status.FAILED
    return replace(Result(CASE, "ort-webgpu", "", False, verdict, status, differences=found), **given)


def held(result: Result, *entries: Expectation, hello: Hello = H200) -> Result:
    return Expectations(entries).held(result, hello)


def means(entry: Expectation, hello: Hello = H200) -> bool:
    """Whether `entry` has a say in a mismatch of CASE on ort-webgpu."""
    return held(seen(Verdict.MISMATCH, 0.46), entry, hello=hello).expected is not None


def test_the_known_error_within_its_band_is_xfailed_and_says_why() -> None:
    result = held(seen(Verdict.MISMATCH, 0.46), expectation())
    assert result.status is Status.XFAILED
    assert result.verdict is Verdict.MISMATCH
    assert result.expected is not None
    assert (result.expected.place, result.expected.reason) == ("expectations.yaml:2", "softcap is never read")
    assert result.expected.said == "mismatch with max_abs from 0.05 to 1"
    assert result.expected.departure == ""


@pytest.mark.parametrize("error", [0.05, 0.5, 1.0])
def test_both_ends_belong_to_the_band(error: float) -> None:
    assert held(seen(Verdict.MISMATCH, error), expectation()).status is Status.XFAILED


@pytest.mark.parametrize(("error", "side"), [(0.0499, "below"), (1.001, "above"), (float("inf"), "above")])
def test_an_error_outside_of_the_band_fails_and_says_on_which_side(error: float, side: str) -> None:
    result = held(seen(Verdict.MISMATCH, error), expectation())
    assert result.status is Status.FAILED
    assert result.expected is not None
    assert result.expected.departure.endswith(f"lies {side} that")


def test_the_largest_error_of_all_outputs_out_of_tolerance_counts() -> None:
    assert held(seen(Verdict.MISMATCH, 0.5, 3.0), expectation()).status is Status.FAILED
    within_tolerance = difference(0.5, max_abs=3.0)
    result = seen(Verdict.MISMATCH, 0.5)
    result = replace(result, differences=(*result.differences, within_tolerance))
    assert held(result, expectation()).status is Status.XFAILED


def test_a_pass_is_xpassed() -> None:
    result = held(seen(Verdict.PASS), expectation())
    assert result.status is Status.XPASSED
    assert result.expected is not None
    assert result.expected.link == "https://example.org/1"


@pytest.mark.parametrize("verdict", [Verdict.NONFINITE, Verdict.CRASH, Verdict.ERROR, Verdict.FALLBACK])
def test_another_kind_of_failure_fails_and_is_named(verdict: Verdict) -> None:
    result = held(seen(verdict), expectation())
    assert result.status is Status.FAILED
    assert result.expected is not None
    assert result.expected.departure == f"the verdict is {verdict}"


def test_the_words_may_stand_in_the_diagnosis_or_in_the_message() -> None:
    entry = expectation(says="Softcap IGNORED")
    diagnosed = seen(Verdict.MISMATCH, 0.5, diagnosis="equals the result with softcap ignored, within 2.4e-7")
    assert held(diagnosed, entry).status is Status.XFAILED
    assert held(replace(diagnosed, diagnosis="the second half of each head"), entry).status is Status.FAILED
    crash = expectation(verdict=Verdict.CRASH, says="SIGSEGV")
    assert held(seen(Verdict.CRASH, message="ended by SIGSEGV"), crash).status is Status.XFAILED
    assert held(seen(Verdict.CRASH, message="ended by SIGABRT"), crash).status is Status.FAILED


def test_a_verdict_that_changes_between_repeats_stays_failed() -> None:
    flaky = seen(Verdict.MISMATCH, 0.5, flags=(Flag.FLAKY,))
    assert held(flaky, expectation()).status is Status.FAILED


def test_an_unsupported_case_and_one_that_nobody_expects_anything_of_stay_as_they_are() -> None:
    unsupported = seen(Verdict.UNSUPPORTED, status=Status.SKIPPED)
    assert held(unsupported, expectation()) is unsupported
    other = replace(seen(Verdict.MISMATCH, 0.5), backend="wgsl")
    assert held(other, expectation()) is other


def test_of_several_entries_any_may_fit_and_else_the_first_is_told() -> None:
    small, large = expectation(max_abs=Band(0.0, 0.1)), expectation(max_abs=Band(0.4, 0.5))
    assert held(seen(Verdict.MISMATCH, 0.46), small, large).status is Status.XFAILED
    neither = held(seen(Verdict.MISMATCH, 0.3), small, large)
    assert neither.status is Status.FAILED
    assert neither.expected is not None
    assert neither.expected.said == "mismatch with max_abs from 0 to 0.1"
    assert neither.expected.departure == "its largest error, 0.3, lies above that"


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        (CASE, True),
        ("shipped/softcap.yaml", True),
        ("shipped/softcap.yaml::decode", True),
        ("*softcap.yaml::*", True),
        ("*softcap=?", True),
        ("softcap.yaml", False),
        ("shipped/softcap.yaml::dec", False),
        ("*softcap=??", False),
        ("*[s]oftcap.yaml::*", False),
    ],
)
def test_a_case_pattern_means_what_run_takes_it_to_mean(pattern: str, fits: bool) -> None:
    assert means(expectation(cases=("other.yaml", pattern))) is fits


@pytest.mark.parametrize(
    ("pattern", "fits"), [("ort-webgpu", True), ("ort-*", True), ("*", True), ("ort", False), ("ORT-WEBGPU", False)]
)
def test_a_backend_pattern_means_whole_names(pattern: str, fits: bool) -> None:
    assert means(expectation(backend=pattern)) is fits


@pytest.mark.parametrize(
    ("versions", "fits"),
    [
        ({"onnxruntime": ">=1.32,<1.33"}, True),
        ({"onnxruntime": ">=1.32", "onnxruntime-ep-webgpu": "==0.4.*"}, True),
        ({"onnxruntime": ">=1.33"}, False),
        ({"onnxruntime": ">=1.32", "onnxruntime-ep-webgpu": "<0.4"}, False),
        ({"wgpu": ">=0"}, False),
    ],
)
def test_every_version_must_lie_in_its_range(versions: dict[str, str], fits: bool) -> None:
    ranges = {package: SpecifierSet(text) for package, text in versions.items()}
    assert means(expectation(versions=ranges)) is fits


@pytest.mark.parametrize(("version", "fits"), [("1.33.0.dev20260101", True), ("1.32.0", False), ("from source", False)])
def test_a_nightly_build_counts_by_its_version_and_what_is_none_never_fits(version: str, fits: bool) -> None:
    hello = replace(H200, versions={"onnxruntime": version})
    assert means(expectation(versions={"onnxruntime": SpecifierSet(">1.32")}), hello) is fits


@pytest.mark.parametrize(
    ("pattern", "device", "fits"),
    [
        ("NVIDIA*", {"adapter": "NVIDIA H200"}, True),
        ("nvidia h200", {"adapter": "NVIDIA H200"}, True),
        ("H200", {"adapter": "NVIDIA H200"}, False),
        ("NVIDIA", {"adapter": "NVIDIA H200"}, False),
        ("*", {}, False),
        (None, {}, True),
    ],
)
def test_an_adapter_is_meant_by_its_name_and_one_without_a_name_by_no_pattern(
    pattern: str | None, device: dict[str, str], fits: bool
) -> None:
    assert means(expectation(adapter=pattern), replace(H200, device=device)) is fits


@pytest.mark.parametrize("verdict", [it for it in Verdict if it not in {"pass", "unsupported", "quarantined"}])
def test_only_what_costs_a_worker_is_quarantined(verdict: Verdict) -> None:
    expectations = Expectations((expectation(verdict=verdict),))
    reason = expectations.quarantine(CASE, "ort-webgpu", H200)
    dangerous = verdict in {"crash", "timeout", "out-of-memory", "device-lost"}
    assert (reason is not None) is dangerous
    assert dangerous is (verdict in QUARANTINED)
    assert replace(expectations, run_quarantined=True).quarantine(CASE, "ort-webgpu", H200) is None


def test_quarantine_holds_for_its_case_backend_version_and_adapter_alone() -> None:
    ranges = {"onnxruntime-ep-webgpu": SpecifierSet("==0.4.0")}
    quarantine = Expectations((expectation(verdict=Verdict.CRASH, versions=ranges, adapter="NVIDIA*"),)).quarantine
    assert quarantine(CASE, "ort-webgpu", H200) is not None
    assert quarantine("shipped/softcap.yaml::prefill", "ort-webgpu", H200) is None
    assert quarantine(CASE, "ort-cpu", H200) is None
    assert quarantine(CASE, "ort-webgpu", replace(H200, versions={"onnxruntime-ep-webgpu": "0.5.0"})) is None
    assert quarantine(CASE, "ort-webgpu", replace(H200, device={"adapter": "llvmpipe"})) is None


def faulty_entry(how: str, verdict: Verdict, **given: Any) -> Expectation:
    band = {"max_abs": Band(0.01, 100.0)} if verdict is Verdict.MISMATCH else {}
    return expectation(cases=(f"x.yaml::{how}",), backend="faulty", verdict=verdict, **band, **given)


def faulty_case(how: str, **given: Any) -> Scenario:
    return scenario(id=f"x.yaml::{how}", about=how, **given)


def run(cases: Sequence[Scenario], *entries: Expectation, run_quarantined: bool = False, **options: Any) -> list[Event]:
    expectations = Expectations(entries, run_quarantined)
    given = engine.Options(**{"time_limit": 2.0, "expectations": expectations, **options})
    return events(*cases, options=given)


HARMLESS = {
    "wrong": Verdict.MISMATCH,
    "nan": Verdict.NONFINITE,
    "shape": Verdict.MALFORMED,
    "elsewhere": Verdict.FALLBACK,
    "raise": Verdict.ERROR,
}
DEADLY = {"segfault": Verdict.CRASH, "exit": Verdict.CRASH, "hang": Verdict.TIMEOUT}


def test_every_fault_of_a_real_process_can_be_expected_and_then_the_run_is_well() -> None:
    faults = HARMLESS | DEADLY
    entries = [faulty_entry(how, verdict) for how, verdict in faults.items()]
    found = run([faulty_case(how) for how in faults], *entries, run_quarantined=True)
    assert {it.status for it in results(found, "faulty")} == {Status.XFAILED}
    assert {it.verdict for it in results(found, "ort-cpu")} == {Verdict.PASS}
    assert finished(found).counts == Counts(xfailed=len(faults))


def test_what_is_quarantined_is_skipped_unrun_with_reason_and_link_while_other_backends_run_it() -> None:
    entries = [faulty_entry(how, verdict) for how, verdict in DEADLY.items()]
    found = run([faulty_case(how) for how in DEADLY], *entries, time_limit=30.0)
    for it in results(found, "faulty"):
        assert (it.verdict, it.status, it.seconds) == (Verdict.QUARANTINED, Status.SKIPPED, 0.0)
        assert "softcap is never read (https://example.org/1)" in it.message
    assert {it.verdict for it in results(found, "ort-cpu")} == {Verdict.PASS}
    # Had one of them been run, the hanging one would have taken its time limit.
    assert finished(found).seconds < 25.0
    assert finished(found).counts == Counts(skipped=len(DEADLY))


def test_a_quarantined_case_that_no_longer_crashes_is_xpassed_when_it_is_run() -> None:
    case = faulty_case("wrong", tolerance={"*": Tolerance(100.0)})
    found = run([case], faulty_entry("wrong", Verdict.CRASH), run_quarantined=True)
    assert [it.status for it in results(found, "faulty")] == [Status.XPASSED]
    assert finished(found).counts == Counts(xpassed=1)


def test_a_case_that_the_backend_declares_unsupported_is_that_and_not_quarantined() -> None:
    found = run([faulty_case("unsupported")], faulty_entry("unsupported", Verdict.CRASH))
    assert [it.verdict for it in results(found, "faulty")] == [Verdict.UNSUPPORTED]


def test_the_reference_may_be_expected_to_be_wrong_on_its_own_row() -> None:
    case = scenario(id="x.yaml::wrong", about="wrong")
    options = engine.Options(expectations=Expectations((faulty_entry("wrong", Verdict.MISMATCH),)))
    found = list(engine.run([case], [OrtCpu()], Faulty(), options))
    assert [it.status for it in results(found, "faulty")] == [Status.XFAILED]
    assert [it.status for it in results(found, "ort-cpu")] == [Status.PASSED]
    assert finished(found).counts == Counts(xfailed=1)


def test_fail_fast_stops_at_an_xpass_too_and_not_at_an_xfail() -> None:
    lenient = {"tolerance": {"*": Tolerance(100.0)}}
    cases = [faulty_case("raise"), faulty_case("wrong", **lenient), *(faulty_case(f"nan{n}") for n in range(9))]
    entries = [faulty_entry("raise", Verdict.ERROR), faulty_entry("wrong", Verdict.MISMATCH)]
    found = run(cases, *entries, fail_fast=True)
    assert finished(found).counts == Counts(xfailed=1, xpassed=1)


def resumed(found: Sequence[Event], *entries: Expectation, run_quarantined: bool = False) -> list[Event]:
    """The same cases again, going on from `found` under other expectations."""
    earlier = {it.origin.id: it for it in found if isinstance(it, CaseFinished)}
    cases = [it.origin for it in earlier.values() if isinstance(it.origin, Scenario)]
    return run(cases, *entries, run_quarantined=run_quarantined, finished=earlier)


def test_an_earlier_run_is_held_against_the_expectations_of_this_one() -> None:
    entry = faulty_entry("wrong", Verdict.MISMATCH)
    first = run([faulty_case("wrong")])
    assert finished(first).counts == Counts(failed=1)
    second = resumed(first, entry)
    assert finished(second).counts == Counts(xfailed=1)
    assert [it.seconds for it in results(second, "faulty")] == [it.seconds for it in results(first, "faulty")]
    third = resumed(second)
    assert finished(third).counts == Counts(failed=1)
    assert [it.expected for it in results(third, "faulty")] == [None]


def test_an_earlier_run_under_the_same_expectations_is_told_again_as_it_was() -> None:
    entries = [faulty_entry("wrong", Verdict.MISMATCH), faulty_entry("exit", Verdict.CRASH)]
    first = run([faulty_case("wrong"), faulty_case("exit")], *entries)
    assert finished(first).counts == Counts(xfailed=1, skipped=1)
    told_again = [it for it in resumed(first, *entries) if isinstance(it, CaseFinished)]
    # The very events: a journal must not write them a second time.
    assert all(any(it is before for before in first) for it in told_again)


def test_what_was_quarantined_is_run_once_it_no_longer_is() -> None:
    entry = faulty_entry("exit", Verdict.CRASH)
    first = run([faulty_case("exit")], entry)
    assert [it.verdict for it in results(resumed(first), "faulty")] == [Verdict.CRASH]
    second = resumed(first, entry, run_quarantined=True)
    assert [(it.verdict, it.status) for it in results(second, "faulty")] == [(Verdict.CRASH, Status.XFAILED)]


def test_a_journal_keeps_what_was_expected(tmp_path: Path) -> None:
    found = [held(seen(verdict, 0.5), expectation()) for verdict in (Verdict.MISMATCH, Verdict.PASS, Verdict.CRASH)]
    with Journal(tmp_path / "journal") as journal:
        for it in found:
            journal.write(CaseFinished(scenario(id=it.case), "digest", (it,)))
    assert [event.results[0] for event in read(tmp_path / "journal") if isinstance(event, CaseFinished)] == found


def unused(found: Sequence[Event], *entries: Expectation) -> tuple[str, ...]:
    usage = Usage(entries)
    for event in found:
        usage.note(event)
    return usage.unused()


def told(result: Result, hello: Hello = H200) -> list[Event]:
    """A run with this one result."""
    return [
        BackendReady(result.backend, hello),
        CaseFinished(scenario(id=result.case), "digest", (result,)),
        RunFinished(Counts(failed=1), 1.0),
    ]


def test_an_entry_that_meant_a_result_is_used_whatever_came_of_it() -> None:
    for verdict in (Verdict.PASS, Verdict.MISMATCH, Verdict.CRASH, Verdict.QUARANTINED):
        assert unused(told(seen(verdict)), expectation()) == ()


def test_an_entry_for_other_versions_is_told_with_the_version_that_is_there() -> None:
    entry = expectation(versions={"onnxruntime-ep-webgpu": SpecifierSet("<0.4")})
    assert unused(told(seen(Verdict.PASS)), entry) == (
        "expectations.yaml:2: unused, mismatch on ort-webgpu: onnxruntime-ep-webgpu is 0.4.0, not <0.4",
    )
    absent = expectation(versions={"wgpu": SpecifierSet(">0")})
    assert unused(told(seen(Verdict.PASS)), absent) == (
        "expectations.yaml:2: unused, mismatch on ort-webgpu: it does not run on wgpu",
    )


def test_an_entry_for_the_versions_of_one_backend_of_several_is_used() -> None:
    old = told(replace(seen(Verdict.PASS), backend="ort-webgpu@0.3"), replace(H200, versions={"onnxruntime": "1.31"}))
    entry = expectation(backend="ort-webgpu*", versions={"onnxruntime": SpecifierSet("==1.32.*")})
    assert len(unused(old, entry)) == 1
    assert unused([*old, *told(seen(Verdict.MISMATCH, 0.5))], entry) == ()


def test_an_entry_whose_cases_are_all_unsupported_is_told() -> None:
    found = told(seen(Verdict.UNSUPPORTED, status=Status.SKIPPED))
    assert [it.partition(": the ")[2] for it in unused(found, expectation())] == [
        "backend declares all that it means unsupported"
    ]


def test_the_run_says_nothing_of_cases_backends_and_adapters_that_had_no_part_in_it() -> None:
    found = told(seen(Verdict.PASS))
    assert unused(found, expectation(cases=("window.yaml",))) == ()
    assert unused(found, expectation(backend="wgsl")) == ()
    assert unused(found, expectation(adapter="AMD*", versions={"wgpu": SpecifierSet(">0")})) == ()
    assert unused([], expectation()) == ()
