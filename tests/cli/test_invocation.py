"""The commands that a run prints, written back from how it was called."""

from __future__ import annotations

from pathlib import Path

import pytest

from attncheck.cli import asked, session
from attncheck.cli.main import configured
from attncheck.vocabulary import Verdict
from tests.cli import events

BOTH = ("--backend", "ort-cpu", "--backend", "onnx-ref")


def reproduced(words: tuple[str, ...], *failing: str) -> str:
    ctx = configured("run", words)
    wanted = asked.wanted(ctx, ctx.params)
    wrong = [events.result("a::b", Verdict.MISMATCH, backend=name) for name in failing]
    return session.commands_of(wanted, session.backends(wanted)).run("a::b", wrong).removeprefix("attncheck run a::b")


@pytest.mark.parametrize(
    ("words", "failing", "said"),
    [
        ((), ("wgsl",), ""),
        (BOTH, ("onnx-ref",), " --backend onnx-ref"),
        (BOTH, ("ort-cpu", "onnx-ref"), " --backend ort-cpu --backend onnx-ref"),
        (("--backend", "ort-cpu", "--time-limit", "2"), ("ort-cpu",), " --backend ort-cpu --time-limit 2"),
        (("--time-limit", "0.5", "--backend-memory", "4096M"), ("wgsl",), " --time-limit 0.5 --backend-memory 4G"),
        (("--memory-limit", "1000", "--repeat", "3"), ("wgsl",), " --memory-limit 1000 --repeat 3"),
        (("--adapter", "a", "--adapter", "b"), ("wgsl[b]",), " --adapter a --adapter b"),
    ],
)
def test_a_command_names_what_fails_and_reads_as_somebody_would_type_it(
    words: tuple[str, ...], failing: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reproduced(words, *failing) == said


def test_of_backends_that_a_configuration_names_the_failing_one_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "attncheck.toml").write_text('backend = ["ort-cpu", "onnx-ref"]\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert reproduced((), "ort-cpu", "onnx-ref") == ""
    assert reproduced((), "onnx-ref") == " --backend onnx-ref"
