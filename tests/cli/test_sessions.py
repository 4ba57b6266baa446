"""A session on the command line: shown step by step, each step written as a model of its own, the wrong one named."""

from __future__ import annotations

from pathlib import Path

import pytest

from attncheck.vocabulary import ExitCode

from .frozen import ROOT, attncheck

SESSION = "op=gqa rotary=half capacity=16 steps=5.prompt-1-4a2.speculative-1"
ID = "case::op=gqa,rotary=half,capacity=16,steps=5.prompt-1-4a2.speculative-1"
WRONG = f"{ROOT / 'tests' / 'callables' / 'sessions.py'}:wrong_in_the_third_call"


def test_a_session_is_shown_step_by_step(tmp_path: Path) -> None:
    shown = attncheck("show", "--case", SESSION, folder=tmp_path).stdout
    assert "  1 (prompt): q_len 5, past_len 0\n" in shown
    assert "  3 (speculative): q_len 4, past_len 6; past_key is the first 16 slots of present_key" in shown
    # Two of the four tokens were dropped.
    assert "  4: q_len 1, past_len 8" in shown


def test_a_step_that_is_written_to_files_runs_by_itself(tmp_path: Path) -> None:
    wrote = attncheck(
        "show", "--case", SESSION, "--step", "4", "--onnx", "step.onnx", "--npz", "step.npz", folder=tmp_path
    )
    assert wrote.code == ExitCode.OK, wrote.stderr
    ran = attncheck("run", "step.onnx", "--inputs", "step.npz", "--backend", "ort-cpu", folder=tmp_path)
    assert ran.code == ExitCode.OK, ran.text
    assert "1 passed" in ran.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--case", SESSION, "--onnx", "x.onnx"), f"{ID} has 4 steps, each with a model: say which, --step 1 to 4"),
        (("--case", SESSION, "--step", "5"), f"there is no step 5: {ID} has 4 steps"),
        (("--case", "op=gqa", "--step", "2"), "there is no step 2: case::op=gqa is no session"),
    ],
)
def test_a_step_that_is_not_said_or_not_there_is_a_mistake_of_usage(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    ran = attncheck("show", *words, folder=tmp_path)
    assert (ran.code, ran.stdout) == (ExitCode.USAGE, "")
    assert said in ran.stderr
    assert not list(tmp_path.iterdir())


def test_the_table_names_the_first_step_that_goes_wrong_and_how_to_run_the_session_again(tmp_path: Path) -> None:
    # The function is off where 6 tokens are past: in the third step.
    case = "op=gqa steps=5.prompt-1-4a2.speculative-1"
    ran = attncheck("run", "--case", case, "--backend", WRONG, "--reference", "none", folder=tmp_path)
    assert ran.code == ExitCode.FAILED
    assert "    step 3 of 4 (speculative) is the first to go wrong\n" in ran.stdout
    assert f"attncheck run case::{case.replace(' ', ',')} --backend" in ran.stdout


def test_an_expectation_is_of_a_session_as_of_any_case(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "scenarios:\n  - {name: a, steps: [{q_len: 5}, {q_len: 1}, {q_len: 4, label: speculative}]}\n", encoding="utf-8"
    )
    (tmp_path / "expectations.yaml").write_text(
        "expectations:\n  - case: mine.yaml::a\n    backend: '*'\n    verdict: mismatch\n"
        "    max_abs: {from: 0.9, to: 1.1}\n"
        "    reason: the third call is off by one\n    link: https://example.org/1\n",
        encoding="utf-8",
    )
    ran = attncheck("run", "mine.yaml", "--backend", WRONG, "--reference", "none", folder=tmp_path)
    assert ran.code == ExitCode.OK, ran.text
    assert "1 xfailed" in ran.stdout
