"""The HTML report is one file that fetches nothing, runs nothing but its own script, and lets no name be markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from attncheck.engine.events import CaseFinished, Event, RunStarted
from attncheck.reports import document
from attncheck.reports.document import Report
from attncheck.reports.html import page
from attncheck.vocabulary import Verdict
from tests.cli import events

REPORT = document.report(events.everything())
PAGE = page.text(REPORT)
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "\"' onmouseover=document.title='owned' x=\"",
    "<!-- <script> ]]> {{ 7 * 7 }} {% raw %} &lt; &amp;",
    "\u202etxt.exe\u2066 \u05d0\u05d1\u05d2",
    "line\u2028separator\u2029and\ttab",
)


def hostile() -> Report:
    """A run in which everything that a user writes is an attack."""
    cases: list[CaseFinished] = []
    for number, words in enumerate(HOSTILE):
        name = f"{words}.yaml::{words}"
        scenario = events.scenario(name, about=words, tags=(words,))
        failing = events.result(
            name, Verdict.CRASH, message=words, stderr=words, diagnosis=words, backend=HOSTILE[0], kernel=words
        )
        cases.append(CaseFinished(scenario, f"{number}", (failing,)))
    started, *rest = events.run_of(cases)
    assert isinstance(started, RunStarted)
    settings = {words: words for words in HOSTILE}
    return document.report([replace(started, backends=(HOSTILE[0], "ort-cpu"), settings=settings), *rest])


def data_of(text: str) -> dict[str, Any]:
    (found,) = DATA.findall(text)
    data: dict[str, Any] = json.loads(found)
    return data


def test_nothing_is_fetched_and_nothing_runs_but_what_the_policy_names_by_its_hash() -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', PAGE)
    assert policy is not None
    assert policy.group(1).startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", PAGE, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy.group(1)
    assert not re.search(r"\bsrc=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)", DATA.sub("", PAGE))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|style=|new Function", PAGE)


def test_the_data_is_the_document_without_what_is_empty() -> None:
    data = data_of(PAGE)
    assert [it["id"] for it in data["cases"]] == [it.id for it in REPORT.cases]
    (drawn,) = (it for case in data["cases"] for it in case["results"] if "picture" in it)
    assert drawn["picture"]["maps"][0]["cells"] == [[0.1, 0.2, 0.0, 1.5], [None, "NaN", 0.3, 281.8]]
    assert drawn["differences"][1]["failing"] == 12
    passed = data["cases"][0]["results"][0]
    assert passed["failing"] == 0, "a zero says something"
    assert not {"message", "flags", "picture", "reference"} & set(passed), "empty keys say nothing"
    assert data["words"]["oob-write"] == Verdict.OOB_WRITE.meaning


def test_what_stands_on_the_page_at_once_is_counts_and_environment() -> None:
    for words in ("15 of 22 cases failed", "<b>14</b> failed", "no adapter was found: install mesa-vulkan-drivers"):
        assert words in PAGE.replace("&#39;", "'")
    assert "<bdi>onnxruntime-webgpu 1.32.0</bdi>" in PAGE
    for told in ("1 vacuous", "1 flaky", "1 not-bitwise", "2 disputed", "1 reference-refused"):
        assert f"{told}</button>" in PAGE, "flags are counted, and lead to their results"
    assert "<bdi>Against main.json: 1 new, 1 better, 1 result fails as then</bdi>" in PAGE


def test_a_hostile_name_is_text_wherever_it_stands() -> None:
    text = page.text(hostile())
    assert text.count("<script") == PAGE.count("<script") == 2
    rest = DATA.sub("", text)
    for words in HOSTILE[:4]:
        assert words not in rest
    assert "{{ 7 * 7 }}" in rest, "a template in a name is not filled"
    (found,) = DATA.findall(text)
    assert not set("<>&\u2028\u2029") & set(found)
    assert [it["about"] for it in data_of(text)["cases"]] == list(HOSTILE)


@pytest.mark.parametrize(
    ("run", "words"),
    [([], "nothing ran"), (events.run_of([events.finished(events.result("a.yaml::b"))]), "1 case, none failed")],
)
def test_the_title_says_how_the_run_went(run: list[Event], words: str) -> None:
    text = page.text(document.report(run))
    assert f"<title>{words} · attncheck</title>" in text


def test_a_backend_that_could_not_start_stands_in_the_title_and_with_its_reason_below_it() -> None:
    ran = [events.finished(events.result("a.yaml::b"))]
    text = page.text(document.report(events.run_of(ran, unavailable=True)))
    assert "<title>1 case, none failed, 1 backend could not start · attncheck</title>" in text
    absent = re.search(r'<ul class="note alarm" id="absent">(.*?)</ul>', text, re.DOTALL)
    assert absent is not None
    said = re.sub(r"<.*?>", "", absent.group(1)).strip()
    assert said == (
        "backend ort-cpu could not start: ONNX Runtime is not installed: pip install onnxruntime; "
        "none of its results are here"
    )
    ran.append(events.finished(events.reference("a.yaml::c")))
    gone_on = document.report(events.run_of(ran, unavailable=True))
    assert 'id="absent"' not in page.text(gone_on), "its results stand in the journal that was gone on from"


def test_an_interrupted_run_says_so() -> None:
    run = events.run_of([events.finished(events.result("a.yaml::b"))], interrupted=True)
    assert "interrupted: 1 were selected" in page.text(document.report(run))
