"""The tool behind docs/tolerance.md: what it draws, measures, keeps and sums up."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from attncheck.oracle.answer import Answer
from attncheck.scenario import from_command_line
from attncheck.scenario.axes import AXES
from attncheck.scenario.values import Boolean, Broadcast, Choice
from benchmarks.tolerance import records, summary
from benchmarks.tolerance.__main__ import main
from benchmarks.tolerance.drawing import LEFT_OUT, draw, drawn
from benchmarks.tolerance.factor import factor


@pytest.mark.slow
def test_every_axis_of_the_language_is_drawn_with_every_value_it_lists() -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for index in range(3000):
        for axis, value in draw(0, index).written:
            found[axis].add(value)
    assert {axis for axis in AXES if not drawn(axis)} == set(AXES) - set(found)
    assert set(LEFT_OUT) <= set(AXES)
    for axis, entry in AXES.items():
        if isinstance(entry.values, Choice | Broadcast) and drawn(axis):
            rare = {"op", "dtype", "holes", "scores", "data", "rotary", "positions"}
            listed = set(entry.values.words) - {"none", str(entry.default)}
            # Only some operators take the many shapes of a mask, so that a draw of this size meets a part of them.
            assert listed <= found[axis] if axis in rare else len(listed & found[axis]) > len(listed) // 4
        if isinstance(entry.values, Boolean):
            assert found[axis] == {"false" if entry.default else "true"}


def test_a_drawn_case_is_the_one_that_its_words_say() -> None:
    for index in range(50):
        drawn = draw(3, index)
        assert from_command_line(" ".join(f"{axis}={value}" for axis, value in drawn.written)) == drawn
        assert draw(3, index) == drawn
    assert draw(4, 0) != draw(3, 0)


@pytest.mark.slow
def test_some_drawn_cases_are_long_and_most_are_small() -> None:
    keys = [max(draw(0, index).kv_len) for index in range(600)]
    assert sum(it > 500 for it in keys) >= 6
    assert np.median(keys) < 100


def answer(values: float, compute: float, storage: float) -> Answer:
    """One stated element."""
    one = (np.array([it]) for it in (values, compute, storage))
    value, bound, stored = one
    return Answer("output", value, np.array([True]), bound, stored)


@pytest.mark.parametrize(
    ("dtype", "compute", "expected", "got", "factor_of"),
    [
        ("float32", "f32", 1.0, 1.0 + 10 * 2.0**-23, (20 - 2) / 3),
        ("float32", "f32", 1.0, 1.0 - 2.0**-24, 0.0),
        ("float16", "f32", 1.0, 1.0 + 2.0**-8, (2.0**-8 - 2.0**-10) / (3 * 2.0**-24)),
        ("float16", "native", 1.0, 1.0 + 2.0**-8, (8 - 2) / 3),
        ("float16", "f32", 2.0**-14, 0.0, 0.0),
        ("float32", "f32", 1.0, np.nan, 0.0),
    ],
)
def test_the_factor_is_what_exceeds_storage_over_the_first_order_bound(
    dtype: str, compute: Any, expected: float, got: float, factor_of: float
) -> None:
    said = answer(expected, 3.0, 1.0)
    outputs = {"output": np.array([got], dtype).astype(np.float64)}
    assert factor([said], outputs, dtype, compute) == pytest.approx(factor_of, rel=1e-6)


def test_a_copy_has_no_factor() -> None:
    outputs = {"output": np.array([2.0])}
    assert factor([answer(1.0, 0.0, 0.0)], outputs, "float32", "f32") == 0.0


def run(*arguments: str) -> str:
    """What the command prints. Raises what it raises."""
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
def test_a_measurement_goes_on_where_it_stopped_and_its_summary_counts_each_case_once(tmp_path: Path) -> None:
    run("measure", "--out", str(tmp_path), "--cases", "3", "--backend", "ort-cpu")
    (first,) = tmp_path.glob("*.jsonl")
    whole = first.read_text(encoding="utf-8")
    # The last case as a killed process leaves it.
    *kept, last = whole.splitlines(keepends=True)
    first.write_text("".join((*kept, last[:30])), encoding="utf-8")
    assert [record["index"] for record in records.read(tmp_path)[1]] == [0, 1]
    said = run("measure", "--out", str(tmp_path), "--cases", "4", "--backend", "ort-cpu")
    assert "2 cases measured, 0 of 4 left" in said
    setup, found = records.read(tmp_path)
    assert [record["index"] for record in found] == [0, 1, 2, 3]
    assert "onnxruntime" in setup["versions"]["ort-cpu"]
    assert json.loads(whole.splitlines()[1]) == found[0]
    report = run("summary", str(tmp_path), str(tmp_path))
    assert "4 drawn cases, seed 0" in report
    assert report == run("summary", str(tmp_path))
    assert any(f"`{record['case']}`" in report for record in found)


def test_nothing_is_measured_after_the_time_is_up(tmp_path: Path) -> None:
    said = run("measure", "--out", str(tmp_path), "--cases", "5", "--seconds", "0", "--backend", "ort-cpu")
    assert "0 cases measured, 5 of 5 left" in said


def record(index: int, **more: Any) -> dict[str, Any]:
    """A made-up measurement."""
    case = {"index": index, "case": f"op=gqa seed={index}", "op": "gqa", "dtype": "float32", "data": "normal"}
    return {**case, "results": [], "wrong": {}, **more}


def result(status: str, margin: float, largest: float, **more: Any) -> dict[str, Any]:
    """A made-up result."""
    verdict = {"passed": "pass", "xpassed": "pass"}.get(status, "mismatch")
    found = {"backend": "b", "verdict": verdict, "status": status, "margin": margin, "factor": {"": largest}}
    return {**found, "compute": "f32", **more}


def test_the_summary_says_what_was_flagged_and_which_wrong_kernels_passed_beyond_rounding() -> None:
    wrong = {"rejected": ["w1"], "by_poison": ["w2"], "survivors": {"w3": 1.5, "w4": 7.0}}
    found = [
        record(0, results=[result("passed", 0.1, 2.0)], wrong={"f32": wrong}),
        record(1, results=[result("failed", 30.0, 600.0, diagnosis="all wrong")]),
        record(2, results=[result("xfailed", 5.0, 100.0, expected="file:1")], fault="Traceback\nValueError: odd"),
    ]
    setup = {"seed": 7, "backends": ["b"], "versions": {"b": "one"}}
    lines = summary.report([(setup, found)]).splitlines()
    assert "| `b` | float32 | 3 | 0 | 1 | 1 | 0.1 | 0.1 | 0.1 | 2 | 2 | 2 |" in lines
    assert "- `b` mismatch, margin 30: `op=gqa seed=1` all wrong" in lines
    assert "- known: 1 of `b` by file:1" in lines
    assert "- attncheck failed at `op=gqa seed=2`: ValueError: odd" in lines
    # w3 is right within what a correct backend errs by, which the largest factor 2 says; w4 is not, and passed.
    assert "| `all` | 4 | 1 | 1 | 1 | 66.67% | 7 to 7 |" in lines
    assert "| `w3` | 1 | 1 | 0 | 0 |  |  |" in lines


def test_folders_of_different_draws_are_not_summed_up() -> None:
    one = {"seed": 1, "backends": ["b"], "versions": {"b": "one"}}
    with pytest.raises(records.OtherMeasurement, match="different draws"):
        summary.report([(one, []), ({**one, "seed": 2}, [])])
    with pytest.raises(records.OtherMeasurement, match="different versions"):
        summary.report([(one, []), ({**one, "versions": {"b": "two"}}, [])])
