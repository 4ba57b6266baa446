"""`attncheck explain`: every word has its paragraphs, and they read well on a terminal."""

from __future__ import annotations

import pytest

from attncheck.cli.main import invoke
from attncheck.reports import words
from attncheck.shipped import verdicts_dir
from attncheck.vocabulary import ExitCode, Flag, Status, Verdict


def explained(name: str, width: int | None = 80) -> list[str]:
    return [it.text for it in words.explained(words.words()[name], verdicts_dir(), width)]


@pytest.mark.parametrize("word", words.words())
def test_every_word_is_explained_within_the_width_and_without_markdown(word: str) -> None:
    lines = explained(word)
    assert lines[0].split(": ")[0].endswith(f" {word}")
    for line in lines:
        assert len(line) <= 80 or line.startswith("    attncheck ")
        assert not any(mark in line for mark in ("<!--", "**", "](", "##"))


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_tells_what_it_means_and_what_to_run_next(verdict: Verdict) -> None:
    lines = explained(verdict)
    assert "What it means" in lines
    assert "What to run next" in lines
    assert any(line.startswith("    attncheck run CASE") for line in lines) or verdict is Verdict.MALFORMED
    assert not any("All verdicts" in line for line in lines)


@pytest.mark.parametrize("flag", Flag)
def test_a_flag_has_paragraphs_of_its_own(flag: Flag) -> None:
    lines = explained(flag)
    assert len(lines) > 4
    assert any(line.startswith("    attncheck ") for line in lines)
    assert not any(f" {other}: {other.meaning}" in " ".join(lines) for other in Flag if other is not flag)


def test_the_words_are_all_there_is() -> None:
    every = {*map(str, Verdict), *map(str, Status), *map(str, Flag), *(str(it.value) for it in ExitCode)}
    assert set(words.words()) == every
    text = "\n".join(it.text for it in words.every(None))
    assert all(f"  {it.name.ljust(17)}  {it.meaning}" in text for it in words.words().values())


def test_a_word_that_is_not_known_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["explain", "Mismatsh"]) == ExitCode.USAGE
    assert "flag or exit code 'Mismatsh'; did you mean 'mismatch'?" in capsys.readouterr().err
    assert invoke(["explain", "zzz"]) == ExitCode.USAGE
    assert "`attncheck explain` lists them all" in capsys.readouterr().err
    assert invoke(["explain", "OOB-write"]) == ExitCode.OK
    assert capsys.readouterr().out.startswith("verdict oob-write: a kernel wrote outside of its buffer\n")
