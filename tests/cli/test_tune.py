"""`attncheck tune` as a user calls it: a file of rules that every other command takes, and mistakes said."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from attncheck.cli import main
from attncheck.kernels.thresholds import load
from attncheck.vocabulary import ExitCode

from .frozen import attncheck


@pytest.mark.slow
def test_rules_are_measured_written_and_taken(folder: Path) -> None:
    ran = attncheck("tune", "--most-keys", "32", "--runs", "2", "--out", "mine.toml", folder=folder)
    assert ran.code == ExitCode.OK, ran.stderr
    assert f"{len(load(folder / 'mine.toml'))} rules written to mine.toml" in ran.stdout
    assert "decode float32 32" in ran.stdout
    assert "prefill float32 32" in ran.stdout
    assert "float16" not in ran.stdout, "no kernel here computes that alone"
    (folder / "mine.toml").write_text(
        '[[rule]]\nkernel = "online"\nleast_keys = 3\nmeasured = "by hand"\n', encoding="utf-8"
    )
    used = attncheck("run", "edges.yaml::plain", "--thresholds", "mine.toml", "--reference", "none", folder=folder)
    assert used.code == ExitCode.OK
    assert "online*" in used.stdout


@pytest.mark.parametrize("command", main.COMMANDS)
def test_every_command_that_chooses_a_kernel_takes_rules(command: str) -> None:
    found = main.cli.get_command(click.Context(main.cli), command)
    assert found is not None
    options = {option.name for option in found.params}
    if "kernel" in options:
        assert {"threshold", "thresholds"} <= options


@pytest.mark.parametrize("place", ["words", "file"])
def test_a_bench_chooses_by_the_rules_given(folder: Path, place: str) -> None:
    """Both kernels cover the case, so that the rule alone decides; the shipped ones say naive."""
    (folder / "mine.toml").write_text(
        '[[rule]]\nkernel = "flash"\nleast_keys = 3\nmeasured = "by hand"\n', encoding="utf-8"
    )
    if place == "file":
        (folder / "attncheck.toml").write_text('thresholds = "mine.toml"\n', encoding="utf-8")
    words = ("bench", "edges.yaml::plain", "--kernel", "auto", "--runs", "1")
    ran = attncheck(*words, *(("--thresholds", "mine.toml") if place == "words" else ()), folder=folder)
    assert ran.code == ExitCode.OK, ran.stderr
    assert "wgsl auto: flash" in ran.stdout


@pytest.mark.parametrize("option", ["--threshold", "--thresholds"])
def test_rules_for_a_bench_that_does_not_choose_are_a_mistake(folder: Path, option: str) -> None:
    (folder / "8").write_text("", encoding="utf-8")
    ran = attncheck("bench", "edges.yaml", option, "8", folder=folder)
    assert ran.code == ExitCode.USAGE
    assert f"{option} says what auto chooses, which is not timed: add --kernel auto" in ran.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--backend", "ort-cpu"), ExitCode.USAGE, "ort-cpu has no kernels to choose among: name wgsl or wgsl-dawn"),
        (("--backend", "wgsl", "--backend", "wgsl-dawn"), ExitCode.USAGE, "one backend on one adapter"),
        (("--out", "nowhere/x.toml"), ExitCode.USAGE, "there is no folder nowhere"),
        (("--most-keys", "7"), ExitCode.USAGE, "7 is not in the range"),
    ],
)
def test_mistakes_are_said(folder: Path, words: tuple[str, ...], code: int, said: str) -> None:
    ran = attncheck("tune", *words, folder=folder)
    assert ran.code == code
    assert said in ran.stderr


def test_a_file_that_holds_no_rules_is_refused_with_its_place(folder: Path) -> None:
    (folder / "bad.toml").write_text('[[rule]]\nkernel = "fast"\nmeasured = "x"\n', encoding="utf-8")
    ran = attncheck("run", "edges.yaml::plain", "--thresholds", "bad.toml", folder=folder)
    assert ran.code == ExitCode.USAGE
    assert "--thresholds: bad.toml: rule 1, kernel" in ran.stderr
