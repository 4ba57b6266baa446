"""The table and what stands below it: functions of events."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from attncheck.engine.events import CaseFinished, Counts, Event, RunFinished
from attncheck.reports import numbers, rows, summary
from attncheck.reports.layout import Cells, Layout, name_of
from attncheck.reports.lines import STATUS_ROLES, STYLES, Line, shorten
from attncheck.reports.table import Detail, Table
from attncheck.vocabulary import Flag, Status, Verdict
from tests.cli import events
from tests.cli.frozen import assert_golden


def report(run: list[Event], width: int | None = 80, detail: Detail = Detail.NORMAL) -> list[Line]:
    ids = [event.origin.id for event in run if isinstance(event, CaseFinished)]
    layout = Layout.fit(ids, ("wgsl", "ort-cpu"), width)
    shrink = "attncheck minimize {} --backend {}".format
    table = Table(layout, detail, lambda case, _: f"attncheck run {case}", shrink)
    return [line for event in run for line in table.lines(event)]


def text(lines: list[Line]) -> str:
    return "".join(line.text + "\n" for line in lines)


@pytest.mark.parametrize("detail", Detail, ids=lambda detail: detail.name.lower())
def test_a_run_with_every_verdict_reads_as_frozen(detail: Detail) -> None:
    assert_golden(f"table-80-{detail.name.lower()}.txt", text(report(events.every_verdict(), 80, detail)))


def test_a_run_with_every_verdict_reads_as_frozen_without_a_width() -> None:
    assert_golden("table-unlimited.txt", text(report(events.every_verdict(), None)))


def test_an_interrupted_run_says_so_and_keeps_what_was_judged() -> None:
    lines = report(events.run_of([events.finished(events.result("a.yaml::b"))], interrupted=True))
    assert lines[-1].text == "1 passed, interrupted in 9.4s"
    assert any("b " in line.text and line.text.endswith("pass") for line in lines)


def test_a_backend_that_did_not_start_is_named_below_the_table() -> None:
    lines = report(events.run_of([events.finished(events.result("a.yaml::b"))], unavailable=True))
    assert lines[-2].text == "backend ort-cpu could not start: none of its results are here"


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_row_is_wider_than_the_terminal(width: int) -> None:
    commands = [line for line in report(events.every_verdict(), width) if line.text.startswith("  attncheck ")]
    others = [line for line in report(events.every_verdict(), width) if line not in commands]
    assert [line.text for line in others if len(line.text) > width] == []


@pytest.mark.parametrize("width", [40, 80, 120, None])
def test_numbers_are_never_shortened(width: int | None) -> None:
    lines = [line.text for line in report(events.every_verdict(), width)]
    rows_of_mismatch = [line for line in lines if line.endswith(" mismatch") and " 282 " in line]
    assert len(rows_of_mismatch) == 2
    assert all(row.split()[-4:] == ["3.1e-4", "1.1e-6", "282", "mismatch"] for row in rows_of_mismatch)


def test_every_row_begins_its_numbers_in_the_same_column() -> None:
    lines = [line.text for line in report(events.every_verdict(), 80)]
    ends = {line.index("1.1e-6") for line in lines if "1.1e-6" in line}
    assert len(ends) == 1


def test_without_a_width_ids_stay_whole() -> None:
    run = events.every_verdict()
    whole = text(report(run, None))
    assert all(name_of(event.origin.id) in whole for event in run if isinstance(event, CaseFinished))


def test_ids_that_differ_only_in_the_middle_stay_different_when_shortened() -> None:
    ids = [
        f"a.yaml::a-scenario-with-a-long-name:past_len={past},data={data}"
        for past in (100, 200, 1000)
        for data in ("normal", "rising-scores")
    ]
    names = Layout.fit(ids, ("wgsl",), 80).names
    assert len(set(names.values())) == len(ids)
    assert max(map(len, names.values())) <= Layout.fit(ids, ("wgsl",), 80).name


def test_passing_candidates_fold_into_the_one_with_the_worst_margin() -> None:
    near, far = events.difference(0.9), events.difference(0.1)
    results = [
        events.result("a::b", backend="one", worst=far),
        events.result("a::b", backend="two", worst=near),
        events.reference("a::b", worst=events.difference(0.99)),
    ]
    assert [result.backend for result in rows.visible(results)] == ["two"]
    assert [result.backend for result in rows.visible(results, every=True)] == ["one", "two", "ort-cpu"]


def test_every_failing_result_has_its_own_row() -> None:
    results = [
        events.result("a::b", backend="one"),
        events.result("a::b", Verdict.CRASH, backend="two"),
        events.result("a::b", Verdict.TIMEOUT, backend="three"),
        events.reference("a::b", Verdict.MISMATCH, worst=events.MISMATCH),
    ]
    assert [result.backend for result in rows.visible(results)] == ["one", "two", "three", "ort-cpu"]


def test_a_reference_that_is_all_there_is_has_a_row() -> None:
    assert len(rows.visible([events.reference("a::b")])) == 1


def test_who_is_alone_is_said_below_the_row_and_the_numbers_behind_it_with_verbose() -> None:
    bad = events.reference(
        "a::b", Verdict.MISMATCH, worst=events.MISMATCH, differences=(events.MISMATCH,), attribution=events.SUSPECT
    )
    run: list[Event] = [events.finished(events.result("a::b"), bad)]
    assert f"    {events.SUSPECT.said}\n" in text(report(run))
    assert "largest differences" not in text(report(run))
    assert "largest differences: reference to oracle 3.1e-4" in text(report(run, 80, Detail.VERBOSE))


def test_wrong_numbers_that_are_disputed_are_said_so_in_their_own_row() -> None:
    bad = events.result("a::b", Verdict.MISMATCH, worst=events.MISMATCH, flags=(Flag.DISPUTED,))
    assert text(report([events.finished(bad)], 120)).splitlines()[1].endswith("mismatch  disputed")


def test_a_reference_that_refused_is_said_in_the_row_where_there_is_room_and_below_it_elsewhere() -> None:
    run: list[Event] = [events.finished(events.result("a::b", flags=(Flag.REFERENCE_REFUSED,)))]
    assert text(report(run, 120)).splitlines()[1].endswith("pass  reference refused")
    long = "a::" + "b" * 40
    run = [events.finished(events.result(long, flags=(Flag.REFERENCE_REFUSED,)))]
    assert text(report(run, 80)).splitlines()[2] == "    reference refused"


def test_the_kernel_that_differs_from_the_oracle_is_named_before_the_disagreement_of_two() -> None:
    apart = events.difference(300.0, subject="naive", against="online")
    result = events.result("a::b", Verdict.MISMATCH, worst=apart, differences=(apart, events.MISMATCH))
    lines = text(report([events.finished(result)])).splitlines()
    assert lines[1].split()[-2:] == ["282", "mismatch"]
    assert lines[2].endswith(", online against oracle")
    assert lines[4] == "    also output, naive against online: 12 of 4,096 elements fail"


def test_two_kernels_that_disagree_are_told_by_their_names() -> None:
    apart = events.difference(2.0, subject="naive", against="online", got=0.5, expected=0.25)
    result = events.result("a::b", Verdict.MISMATCH, worst=apart, differences=(events.difference(), apart))
    assert "    naive gives 0.5, online gives 0.25; 12 of 4,096 elements fail\n" in text(
        report([events.finished(result)])
    )


def test_the_first_failing_cases_have_the_command_that_runs_them_alone() -> None:
    lines = [line.text for line in report(events.every_verdict())]
    failing = [
        event.origin.id
        for event in events.every_verdict()
        if isinstance(event, CaseFinished) and rows.failures(event.results)
    ]
    assert len(failing) == 13
    spelled_out = [line for line in lines if line.startswith("  attncheck run")]
    assert spelled_out == [f"  attncheck run {case}" for case in failing[:8]]
    assert "  and 5 more, each by its id" in lines


def test_a_message_is_not_said_again_in_colour() -> None:
    stderr = "loading\n\x1b[1;31mkernel failed: no f16\x1b[m\n"
    shown = text(report([events.finished(events.result("a::b", Verdict.ERROR, message="no f16", stderr=stderr))]))
    assert "| loading" in shown
    assert shown.count("no f16") == 1
    assert "\x1b" not in shown


def test_only_the_end_of_a_crashed_process_s_stderr_is_shown() -> None:
    noise = "\n".join(f"line {number}" for number in range(100))
    shown = text(report([events.finished(events.result("a::b", Verdict.CRASH, message="died", stderr=noise))]))
    assert "| line 99" in shown
    assert "| line 91" not in shown


def test_quiet_prints_nothing_of_a_case_that_passes() -> None:
    run = events.run_of([events.finished(events.result("a.yaml::b"))])
    assert text(report(run, 80, Detail.QUIET)) == "1 passed in 9.4s\n"


def test_the_last_line_counts_cases_in_one_grammar() -> None:
    counts = Counts(passed=128, failed=2, xfailed=1)
    assert summary.summary(RunFinished(counts, 9.44)).text == "128 passed, 2 failed, 1 xfailed in 9.4s"
    assert summary.summary(RunFinished(Counts(), 0.2)).text == "nothing ran in 0.2s"
    assert summary.summary(RunFinished(Counts(passed=1), 125.0)).text == "1 passed in 2m 05s"


def test_every_status_has_a_style_and_no_style_sets_a_background() -> None:
    assert set(STATUS_ROLES) == set(Status)
    assert not any(" on " in f" {style} " for style in STYLES.values())


def test_flags_are_explained_where_they_stand() -> None:
    flagged = events.result("a::b", flags=(Flag.VACUOUS,))
    assert Flag.VACUOUS.meaning in text(report([events.finished(flagged)], None))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.0, "0"),
        (4.2e-8, "4.2e-8"),
        (1.0e-12, "1.0e-12"),
        (0.009994, "1.0e-2"),
        (0.0123, "0.0123"),
        (0.99999, "1.00"),
        (1.0, "1.00"),
        (281.8, "282"),
        (9990.0, "9990"),
        (12345.0, "1.2e4"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_a_number_is_short(value: float, written: str) -> None:
    assert numbers.number(value) == written
    assert len(written) <= 7


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.0, "0"), (0.0001, "<0.001"), (0.0189, "0.019"), (0.9996, "1.00"), (1.5, "1.50"), (math.inf, "inf")],
)
def test_a_margin_is_read_at_a_glance(value: float, written: str) -> None:
    assert numbers.margin(value) == written


def test_neighbouring_float32_values_read_differently() -> None:
    assert numbers.element(0.1234567910432816) != numbers.element(0.1234567984938622)


def test_shortening_keeps_both_ends() -> None:
    assert shorten("window-edges:op=mha,window=22", 16) == "windo..window=22"
    assert shorten("short", 16) == "short"


def test_a_failing_case_counts_as_failed_in_the_summary_of_the_constructed_run() -> None:
    finished = next(event for event in events.every_verdict() if isinstance(event, RunFinished))
    assert finished.counts == replace(finished.counts, failed=12, passed=3, xfailed=1, xpassed=1, skipped=2)


def test_in_a_pipe_a_long_id_stands_whole_and_moves_its_own_row_only() -> None:
    short, long = "a.yaml::short", f"a.yaml::{'long-' * 40}"
    layout = Layout.fit((short, long), ("wgsl",), None)
    rows = [layout.row(Cells(case, "wgsl", "0", "1e-6", "0", "pass")).text for case in (short, long)]
    assert name_of(long) in rows[1]
    assert len(rows[0]) < len(name_of(long)) < len(rows[1])
    assert rows[0].index("wgsl") == layout.heading("a.yaml").text.index("backend")
