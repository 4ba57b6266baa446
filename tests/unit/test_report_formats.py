"""The formats of ``--report``, over a run with everything in it, and over names and messages that want to break out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from markdown_it import MarkdownIt

from attncheck.backends.base import Hello
from attncheck.engine.events import BackendFailed, BackendReady, CaseFinished, Event, RunFinished, RunStarted
from attncheck.reports import brief, document, github, junit, markdown, ndjson
from attncheck.reports.document import Report
from attncheck.reports.formats import FORMATS, writer
from attncheck.vocabulary import Status, Verdict
from tests.cli import events
from tests.cli.frozen import ROOT, assert_golden

REPORT = document.report(events.everything())
ITEMS = [(case, it) for case in REPORT.cases for it in case.results]


@pytest.mark.parametrize("name", ["github", "markdown", "junit", "ndjson", "json"])
def test_a_run_with_everything_in_it_is_told_as_frozen(name: str) -> None:
    assert_golden(f"report-{name}.txt", writer(name)(replace(REPORT, attncheck="VERSION")))


@pytest.mark.parametrize("name", FORMATS)
def test_a_run_of_nothing_is_told_too(name: str) -> None:
    assert writer(name)(document.report([RunStarted(0, (), None), RunFinished(REPORT.counts, 0.0)])) is not None


# ndjson


def lines(report: Report) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ndjson.text(report).split("\n")[:-1]]


def test_each_line_is_as_its_schema_says() -> None:
    schema = json.loads((ROOT / "docs" / "report-line.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    for line in lines(REPORT):
        validator.validate(line)


def test_the_lines_are_the_document_in_parts() -> None:
    head, *cases, end = lines(REPORT)
    whole = json.loads(writer("json")(REPORT))
    assert (head.pop("line"), end.pop("line")) == ("head", "end")
    assert {**head, **end, "cases": [it["case"] for it in cases]} == whole


# junit


@cache
def schema() -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(ROOT / "tests" / "cli" / "junit.xsd"))


def suites(report: Report) -> Any:
    root = etree.fromstring(junit.text(report).encode())
    schema().assertValid(root)
    return root


def test_each_case_on_each_backend_is_an_item_of_the_backends_suite() -> None:
    root = suites(REPORT)
    there = [(suite.get("name"), item.get("name")) for suite in root for item in suite.iterfind("testcase")]
    assert sorted(there) == sorted([*((it.backend, case.id) for case, it in ITEMS), ("wgpu-native", "starts")])
    assert len({(item.get("classname"), item.get("name")) for item in root.iter("testcase")}) == len(there)


def test_the_items_counts_are_those_of_the_suites_and_of_the_whole() -> None:
    root = suites(REPORT)
    for element in (root, *root):
        for key, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
            assert int(element.get(key)) == len(list(element.iter(tag))), (element.get("name"), key)
    assert sum(int(suite.get("skipped")) for suite in root) == len(list(root.iter("skipped")))


ENDINGS = {
    **dict.fromkeys((Status.SKIPPED, Status.XFAILED), "skipped"),
    **dict.fromkeys((Status.FAILED, Status.XPASSED), "failure"),
}
NO_NUMBERS = {"crash", "timeout", "out-of-memory", "device-lost", "error", "malformed"}


@pytest.mark.parametrize(("case", "result"), ITEMS, ids=lambda it: getattr(it, "id", getattr(it, "backend", "")))
def test_an_item_ends_as_its_status_says(case: Any, result: Any) -> None:
    (item,) = (
        it
        for it in suites(REPORT).iter("testcase")
        if it.get("name") == case.id and it.getparent().get("name") == result.backend
    )
    ending = ENDINGS.get(result.status)
    if result.status is Status.FAILED and result.verdict in NO_NUMBERS:
        ending = "error"
    assert [it.tag for it in item if not it.tag.startswith("system-")] == ([ending] if ending else [])
    if ending:
        assert item[0].get("type") in {result.verdict, result.status}
        assert item[0].text.startswith(f"{case.file}:{case.line}" if case.line else result.explanation[0])
    out = dict(line.split(": ", 1) for line in item.findtext("system-out").split("\n"))
    assert (out["verdict"], out["status"]) == (result.verdict, result.status)
    assert item.findtext("system-err") == ("\n".join(result.stderr) or None)


def test_a_run_that_is_not_whole_is_no_green_run() -> None:
    run = events.run_of([events.finished(events.result("a.yaml::b"))], interrupted=True)
    root = suites(document.report(run))
    assert root.get("errors") == "1"
    (error,) = root.iter("error")
    assert error.get("type") == "interrupted"


def test_a_test_of_the_schema_itself() -> None:
    root = suites(REPORT)
    root[0].set("tests", "-1")
    assert not schema().validate(root)


# github

COMMAND = re.compile(r"::error (?:file=(?P<file>[^,:]*),line=(?P<line>\d+),)?title=(?P<title>[^,:]*)::(?P<message>.*)")


def annotated(report: Report) -> list[dict[str, str]]:
    """What the runner makes of the text: a property's codes are those of a message, and two more."""
    told = []
    for line in github.text(report).split("\n")[:-1]:
        found = COMMAND.fullmatch(line)
        assert found, line
        values = {key: value or "" for key, value in found.groupdict().items()}
        for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            for key in ("file", "title", *(["message"] if code not in {"%3A", "%2C"} else [])):
                values[key] = values[key].replace(code, character)
        told.append(values)
    return told


def failing(number: int) -> Report:
    cases = [events.finished(events.result(f"a.yaml::{at}", Verdict.ERROR, message="no")) for at in range(number)]
    return document.report(events.run_of(cases))


def test_a_failure_is_annotated_where_its_scenario_is_written() -> None:
    (one,) = annotated(failing(1))
    assert (one["file"], one["line"], one["title"]) == ("a.yaml", "7", "a.yaml::0 on wgsl naive")
    assert one["message"] == "error: no"


@pytest.mark.parametrize(("failures", "told", "last"), [(0, 0, None), (10, 10, "error: no"), (11, 10, "and 2 errors")])
def test_there_are_ten_at_most_and_the_last_says_how_many_more(failures: int, told: int, last: str | None) -> None:
    found = annotated(failing(failures))
    assert len(found) == told
    assert last is None or found[-1]["message"].startswith(last)


def test_what_is_wrong_with_the_run_itself_comes_first() -> None:
    cases = [events.finished(events.result("a.yaml::b"))]
    run = document.report(events.run_of(cases, interrupted=True, unavailable=True))
    assert [it["title"] for it in annotated(run)] == ["backend ort-cpu could not start", "the run was interrupted"]


def test_a_case_without_a_file_is_told_of_no_line() -> None:
    (case,) = failing(1).cases
    of_the_command_line = replace(failing(1), cases=(replace(case, file="--case", line=1),))
    (one,) = annotated(of_the_command_line)
    assert one["file"] == ""
    assert "--case:1" not in junit.text(of_the_command_line) + markdown.text(of_the_command_line)


def test_a_name_of_any_length_gives_a_title_that_github_takes() -> None:
    (case,) = failing(1).cases
    (one,) = annotated(replace(failing(1), cases=(replace(case, id="a.yaml::" + "x" * 999),)))
    assert len(one["title"]) == 255


# markdown

INERT = {"code", "pre"}


class Rendered(HTMLParser):
    """HTML as a page would have it: its tags, the words in code and those outside of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.inside: list[str] = []
        self.outside = ""
        self._open: list[str] = []
        self.feed(MarkdownIt("commonmark").enable("table").render(text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs in ([], [("class", "language-text")]), (tag, attrs)
        self.tags.add(tag)
        self._open.append(tag)
        if tag == "code":
            self.inside.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if INERT.intersection(self._open):
            self.inside[-1] += data
        else:
            self.outside += data


OURS = {"h2", "p", "table", "thead", "tbody", "tr", "th", "td", "strong", "em", "code", "pre", "details", "summary"}


def test_the_markdown_is_what_it_looks_like() -> None:
    page = Rendered(markdown.text(REPORT))
    assert page.tags <= OURS
    assert page.outside.startswith(f"attncheck: {brief.counts(REPORT)}")
    for failure in brief.failures(REPORT):
        assert page.inside.count(failure.case.id) >= 2, "a row, and details"
        assert any(failure.case.reproduce in it for it in page.inside)


@pytest.mark.parametrize("limit", [0, 50, 200, 1000, 2500, 5000, 10_000, 2**16])
def test_what_is_too_large_is_cut_by_whole_sections_and_says_so(limit: int) -> None:
    cut, whole = markdown.fitted(REPORT, limit), markdown.fitted(REPORT, 2**20)
    assert len(cut.encode()) <= limit
    if cut != whole:
        assert not cut or re.search(r"_\d+ sections? more would be too large for this place: ", cut)
        assert all(cut.count(f"<{tag}>") == cut.count(f"</{tag}>") for tag in ("details", "summary", "code"))


def test_a_table_of_many_failures_leaves_room_for_details() -> None:
    text = markdown.text(failing(3000))
    assert len(text.encode()) <= markdown.COMMENT_LIMIT
    assert "...and 2,900 failures more." in text
    assert text.count("<details>") > 100


# names and messages that want to break out

NASTY = (
    *("</code>", "<script>alert(1)</script>", "<!--", "]]>", "&amp;", "`", "```\n", "|", "\\|", "\\", "**", "_x_"),
    *("@octocat", "#1", "https://example.org", "www.example.org", "[a](b)", "![a](b)", "\n", "\r\n", "\n\n# h", "\t"),
    *("::error::x", "%0A", "%", ",line=1", "::", "\x1b[31m", "\0", "\x0b", "\ufffe", "\u2028", "\u202e", "\ud800"),
    *("é", "𝄞", '"', "'", "$x$", "- ", "    ", "</details>", "</testcase>", "<?x?>", "==="),
)
WORDS = st.lists(st.sampled_from(NASTY) | st.characters(codec=None), max_size=6).map("".join)


def hostile(name: str, words: str) -> Report:
    case = f"a.yaml::{name}"
    bad = events.result(case, Verdict.CRASH, message=words, stderr=words, diagnosis=words, backend=f"b{name}")
    known = events.result(case, Verdict.MISMATCH, status=Status.XFAILED, expected=replace(events.KNOWN, reason=words))
    origin = events.scenario(case, about=words, tags=(words,))
    run: list[Event] = [
        RunStarted(1, (f"b{name}", "wgsl", words), None, {words: words}),
        BackendReady(f"b{name}", Hello({words: words}, {"adapter": words})),
        BackendReady("wgsl", Hello({}, {})),
        BackendFailed(words, words),
        CaseFinished(origin, "0" * 64, (bad, known)),
        RunFinished(replace(REPORT.counts, failed=1), 1.0),
    ]
    return document.report(run)


@pytest.mark.parametrize("piece", NASTY, ids=ascii)
def test_no_character_breaks_out_of_a_format(piece: str) -> None:
    check_that_nothing_breaks_out(piece, piece)


@settings(max_examples=30, deadline=None)
@given(WORDS, WORDS)
def test_no_name_and_no_message_breaks_out_of_a_format(name: str, words: str) -> None:
    check_that_nothing_breaks_out(name, words)


def check_that_nothing_breaks_out(name: str, words: str) -> None:
    report = hostile(name, words)
    id_ = f"a.yaml::{name}"

    again = document.parsed(writer("json")(report).encode().decode(), "x")
    assert again.cases[0].id == id_
    assert lines(report)[1]["case"]["id"] == id_

    (item, *_) = suites(report).iterfind(".//testcase")
    if not junit.UNSAYABLE.search(name):
        assert item.get("name") == id_

    told = annotated(report)
    assert len(told) == 2
    assert told[-1]["title"] == f"{id_} on b{name} naive".encode(errors="backslashreplace").decode()

    page = Rendered(markdown.text(report))
    assert page.tags <= OURS
    assert not {"@octocat", "alert", "example.org"} & set(re.findall(r"@octocat|alert|example\.org", page.outside))
    assert "h2" in page.tags
    assert page.outside.count("attncheck: ") == 1
