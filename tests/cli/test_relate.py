"""`attncheck relate`: a relation is a case of its own, with an id that selects it, a row, and an exit code."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from attncheck.vocabulary import ExitCode

from .frozen import ROOT, attncheck

BROKEN = f"{ROOT / 'tests' / 'callables' / 'relations.py'}:in_long_buffers"
FILE = "scenarios:\n  - {name: a, q_len: 4, heads: 2}\n  - {name: told, heads: 2, steps: [{q_len: 4}, {q_len: 1}]}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(FILE, encoding="utf-8")
    return tmp_path


def test_what_breaks_is_named_with_the_command_that_checks_it_again(folder: Path) -> None:
    ran = attncheck("relate", "mine.yaml", "--backend", BROKEN, "--relation", "padded-buffer", "-v", folder=folder)
    assert ran.code == ExitCode.FAILED
    said = " ".join(ran.stdout.split())
    assert "broken: a padded buffer equals an exact one, whether it holds keys, pages or angles. This shows" in said
    assert f"attncheck relate mine.yaml::a/padded-buffer --backend {BROKEN}" in ran.stdout
    again = attncheck("relate", "mine.yaml::a/padded-buffer", "--backend", BROKEN, folder=folder)
    assert again.code == ExitCode.FAILED
    assert "1 failed" in again.stdout


@pytest.mark.slow
@pytest.mark.parametrize("selection", [("mine.yaml",), ("--case", "q_len=4 heads=2 past_len=1+3 batch=2")])
def test_every_command_that_is_printed_works(folder: Path, selection: tuple[str, ...]) -> None:
    ran = attncheck("relate", *selection, "--backend", BROKEN, "--relation", "padded-buffer", folder=folder)
    commands = [shlex.split(line) for line in ran.stdout.splitlines() if line.startswith("  attncheck ")]
    assert len(commands) == 1, "no other than the one that runs it alone: minimize takes no relation"
    assert "To shrink" not in ran.stdout
    assert [attncheck(*words[1:], folder=folder).code for words in commands] == [ExitCode.FAILED]


@pytest.mark.slow
def test_a_list_holds_the_relations_of_each_case(folder: Path) -> None:
    listed = attncheck("relate", "mine.yaml", "--list", folder=folder).stdout.split()
    assert "mine.yaml::a/in-chunks" in listed
    assert all(line.startswith("mine.yaml::a/") for line in listed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--relation", "padded"), ExitCode.USAGE, "there is no relation 'padded'; did you mean `packed`?"),
        (("--relation", "four-axes"), ExitCode.NOTHING, "no relation says anything of these cases"),
        (("--relation", "four-axes"), ExitCode.NOTHING, "a/four-axes: its twin would have layout=bnsh: `layout`"),
        (("-k", "told"), ExitCode.NOTHING, "told: it is a session; write its tokens as one call (`q_len`), and"),
        (("-k", "told"), ExitCode.NOTHING, "`attncheck run` judges them by the oracle"),
        (("--reference", "ort-cpu"), ExitCode.USAGE, "a relation has no reference"),
    ],
)
def test_a_call_that_cannot_be_says_so(folder: Path, words: tuple[str, ...], code: ExitCode, said: str) -> None:
    ran = attncheck("relate", "mine.yaml", *words, folder=folder)
    assert ran.code == code
    assert said in ran.stderr


@pytest.mark.slow
def test_a_model_is_told_how_to_become_a_scenario(folder: Path) -> None:
    attncheck("show", "mine.yaml::a", "--onnx", "m.onnx", "--npz", "m.inputs.npz", folder=folder)
    ran = attncheck("relate", "m.onnx", folder=folder)
    assert ran.code == ExitCode.NOTHING
    assert "a model has no axes of which a twin is made; `attncheck extract` makes a scenario of it" in ran.stderr


def test_the_id_of_a_relation_is_sent_to_the_command_that_takes_it(folder: Path) -> None:
    for command in ("run", "show"):
        told = attncheck(command, "edges.yaml::plain/packed", folder=folder)
        assert told.code == ExitCode.USAGE, told.text
        assert "is a relation of edges.yaml::plain, which `attncheck relate` checks" in told.stderr
