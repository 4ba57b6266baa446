"""What a verdict answers to a reducer, and where it is no answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attncheck.bundle import again
from attncheck.cli.predicate import meant
from attncheck.vocabulary import Answer, Verdict


@pytest.mark.parametrize(
    ("known", "wanted", "answer"),
    [
        ("mismatch", frozenset[Verdict](), Answer.UNKNOWN),
        ("fallback", frozenset[Verdict](), Answer.YES),
        ("", frozenset[Verdict](), Answer.YES),
        ("mismatch", frozenset({Verdict.FALLBACK}), Answer.YES),
        ("mismatch", frozenset({Verdict.MISMATCH}), Answer.UNKNOWN),
    ],
)
def test_a_provider_that_does_not_run_here_answers_nothing_of_a_bundle_of_another_failure(
    known: str, wanted: frozenset[Verdict], answer: Answer
) -> None:
    assert meant(Verdict.FALLBACK, wanted, known) is answer
    assert meant(Verdict.FALLBACK, wanted, known, passes=True) is (Answer.NO if answer is Answer.YES else answer)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("environment.json", {"bundle": 1, "run": {"backend": "ort-cpu", "options": {}}, "verdict": "crash"}),
        ("minimal.json", {"minimal": 1, "backend": "ort-cpu", "failure": {"verdict": "crash"}}),
    ],
)
def test_a_bundle_says_of_which_verdict_it_is(name: str, data: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / name).write_text(json.dumps(data), encoding="utf-8")
    found = again.read(tmp_path)
    assert found is not None
    assert found.verdict == "crash"
