"""Several reports made one: shards, other machines, other versions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncheck.engine.events import Counts
from attncheck.reports import document, json_report, ndjson, reading
from attncheck.reports.document import Report
from attncheck.reports.entries import CaseEntry
from attncheck.reports.merging import Conflict, Part, merged, parts, refuse_doubles
from attncheck.vocabulary import Status, Verdict
from tests.cli import events

WHOLE = document.report(events.everything())


def shard(report: Report, cases: tuple[CaseEntry, ...]) -> Report:
    return replace(
        report,
        cases=cases,
        selected=len(cases),
        counts=document.counted(cases),
        seconds=report.seconds * len(cases) / len(report.cases),
    )


def of(*results: tuple[str, Verdict], version: str = "1", **changes: object) -> Report:
    """The report of one run: each case on wgsl of a version, and on the reference."""
    cases = [events.finished(events.result(case, verdict), events.reference(case)) for case, verdict in results]
    report = document.report(events.run_of(cases))
    wgsl, *others = report.backends
    return replace(report, backends=(replace(wgsl, versions={"wgpu": version}), *others), **changes)  # type: ignore[arg-type]


def both(one: Report, other: Report) -> Report:
    return merged([Part("gpu-a", one), Part("gpu-b", other)])


@settings(max_examples=20)
@given(st.lists(st.integers(0, 2), min_size=len(WHOLE.cases), max_size=len(WHOLE.cases)))
def test_the_shards_of_a_run_are_the_run(numbers: list[int]) -> None:
    shards = [
        shard(WHOLE, tuple(it for it, number in zip(WHOLE.cases, numbers, strict=True) if number == at))
        for at in range(3)
    ]
    again = merged([Part(str(at), it) for at, it in enumerate(shards)])
    there = {case.id: case for case in again.cases}
    assert again.seconds == pytest.approx(WHOLE.seconds)
    again = replace(again, cases=tuple(there[case.id] for case in WHOLE.cases), seconds=WHOLE.seconds)
    baseline = again.baseline
    assert baseline is not None
    again = replace(again, baseline=replace(baseline, known=1))  # each shard of this test has the whole's
    assert json_report.text(again) == json_report.text(WHOLE)


def test_a_report_merged_with_itself_is_itself() -> None:
    assert replace(both(WHOLE, WHOLE), seconds=WHOLE.seconds, baseline=WHOLE.baseline) == replace(
        WHOLE, cases=both(WHOLE, WHOLE).cases
    )
    assert [case.id for case in both(WHOLE, WHOLE).cases] == [case.id for case in WHOLE.cases]


def test_a_run_that_is_told_twice_is_refused() -> None:
    one, other, nothing = of(("a::x", Verdict.PASS)), of(("a::x", Verdict.PASS), seconds=7.5), of()
    refuse_doubles([Path("a.json"), Path("b.json")], [one, other])
    refuse_doubles([Path("a.json"), Path("b.json")], [nothing, nothing])
    with pytest.raises(Conflict, match=r"^a/\.\./r\.json is named twice: "):
        refuse_doubles([Path("r.json"), Path("a/../r.json")], [nothing, nothing])
    with pytest.raises(Conflict, match=r"^a\.json and c\.ndjson tell of one run, which would count double"):
        refuse_doubles([Path("a.json"), Path("b.json"), Path("c.ndjson")], [one, other, one])


def test_one_backend_in_two_environments_is_told_apart_and_a_common_reference_is_not() -> None:
    found = both(of(("a::x", Verdict.PASS)), of(("a::x", Verdict.MISMATCH), version="2"))
    assert [it.name for it in found.backends] == ["wgsl (gpu-a)", "wgsl (gpu-b)", "ort-cpu"]
    (case,) = found.cases
    assert [(it.backend, it.verdict) for it in case.results] == [
        ("wgsl (gpu-a)", Verdict.PASS),
        ("wgsl (gpu-b)", Verdict.MISMATCH),
        ("ort-cpu", Verdict.PASS),
    ]
    assert (case.status, found.counts) == (Status.FAILED, Counts(failed=1))


def test_a_case_that_one_of_them_cannot_run_passes_where_the_other_does() -> None:
    found = both(of(("a::x", Verdict.UNSUPPORTED)), of(("a::x", Verdict.PASS), version="2"))
    assert (found.cases[0].status, found.counts) == (Status.PASSED, Counts(passed=1))


def test_of_three_reports_two_of_one_environment_share_a_name() -> None:
    one, other = of(("a::x", Verdict.PASS)), of(("a::y", Verdict.PASS))
    third = of(("a::x", Verdict.PASS), version="2")
    found = merged([Part("a", one), Part("b", third), Part("c", other)])
    assert [it.name for it in found.backends] == ["wgsl (a, c)", "wgsl (b)", "ort-cpu"]
    assert [[it.backend for it in case.results] for case in found.cases] == [
        ["wgsl (a, c)", "wgsl (b)", "ort-cpu"],
        ["wgsl (a, c)", "ort-cpu"],
    ]


def test_one_environment_that_contradicts_itself_is_told_apart_too() -> None:
    found = both(of(("a::x", Verdict.PASS)), of(("a::x", Verdict.CRASH)))
    assert [it.name for it in found.backends] == ["wgsl (gpu-a)", "wgsl (gpu-b)", "ort-cpu"]


def test_of_two_results_that_agree_the_larger_margin_stays() -> None:
    near = of(("a::x", Verdict.PASS))
    (case,) = near.cases
    far = replace(near, cases=(replace(case, results=tuple(replace(it, margin=0.9) for it in case.results)),))
    assert [it.margin for it in both(near, far).cases[0].results] == [0.9, 0.9]
    assert both(far, near).cases[0].results == both(near, far).cases[0].results


def test_a_backend_that_did_not_start_in_one_of_them_is_not_hidden_by_the_other() -> None:
    gone = document.report(events.run_of([events.finished(events.result("a::y"))], unavailable=True))
    found = both(of(("a::x", Verdict.PASS)), gone)
    assert [(it.name, it.started) for it in found.backends if it.reference] == [
        ("ort-cpu (gpu-a)", True),
        ("ort-cpu (gpu-b)", False),
    ]


def test_the_command_to_run_next_is_that_of_where_it_fails() -> None:
    good, bad = of(("a::x", Verdict.PASS)), of(("a::x", Verdict.CRASH), version="2")
    told = [replace(it, cases=(replace(it.cases[0], reproduce=name),)) for name, it in (("good", good), ("bad", bad))]
    assert both(*told).cases[0].reproduce == "bad"


def test_what_is_missing_in_one_is_missing_in_all() -> None:
    cut = of(("a::y", Verdict.PASS), interrupted=True, selected=5)
    found = both(of(("a::x", Verdict.PASS)), cut)
    assert (found.interrupted, found.selected, len(found.cases)) == (True, 6, 2)


def test_one_id_of_two_contents_is_refused() -> None:
    report = of(("a::x", Verdict.PASS))
    edited = replace(report, cases=(replace(report.cases[0], digest="of another model"),))
    with pytest.raises(Conflict, match="a::x is another case in gpu-b than in gpu-a"):
        both(report, edited)


def test_settings_that_differ_say_whose_they_are() -> None:
    one = of(("a::x", Verdict.PASS), settings={"kernel": "auto", "repeat": "1"})
    other = of(("a::y", Verdict.PASS), settings={"kernel": "naive", "repeat": "1", "shaders": "mine"})
    assert both(one, other).settings == {"kernel": "auto (gpu-a); naive (gpu-b)", "repeat": "1", "shaders": "mine"}


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/one.json", "b/two.json"], ["one", "two"]),
        (["gpu-a/report.json", "gpu-b/report.json"], ["gpu-a", "gpu-b"]),
        (["a/1.json", "a/2.json", "b/1.json"], ["a/1", "a/2", "b/1"]),
        (["a/b/1.json", "c/b/1.json"], ["a/b/1.json", "c/b/1.json"]),
        (["a.json", "a.json"], ["1: a.json", "2: a.json"]),
    ],
)
def test_reports_are_called_by_the_shortest_words_that_tell_them_apart(paths: list[str], names: list[str]) -> None:
    assert [it.name for it in parts([Path(path) for path in paths], [WHOLE] * len(paths))] == names


def test_lines_are_read_back_as_the_document_that_they_were(tmp_path: Path) -> None:
    path = tmp_path / "run.ndjson"
    path.write_text(ndjson.text(WHOLE), encoding="utf-8")
    assert json_report.text(reading.earlier(path)) == json_report.text(WHOLE)
    head, *lines = ndjson.text(WHOLE).splitlines(keepends=True)
    path.write_text("".join([head, *lines[:3], lines[3][:50]]), encoding="utf-8")
    cut = reading.earlier(path)
    assert cut.interrupted
    assert cut.cases == reading.earlier(path).cases
    assert [it.id for it in cut.cases] == [it.id for it in WHOLE.cases[:3]]
    path.write_text(head + '{"line":"case","case":{"id":1}}\n', encoding="utf-8")
    with pytest.raises(document.Unreadable, match=r"run.ndjson:2: no line of a report"):
        reading.earlier(path)
