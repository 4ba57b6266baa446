"""The HTML report in a real browser: it opens from disk, is worked by mouse, keyboard and screen reader, and prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from attncheck.compare import digits
from attncheck.engine.events import CaseFinished, RunStarted
from attncheck.reports import document
from attncheck.reports.document import Report
from attncheck.reports.html import page as html
from attncheck.vocabulary import Verdict
from tests.browser import Scheme, chromium, opened, violations
from tests.cli import events
from tests.unit.test_html_report import HOSTILE, hostile

pytestmark = pytest.mark.slow

EVERY = document.report(events.everything())
DRAWN = "scenarios/sessions.yaml::read-otherwise"
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
Write = Callable[[Report], Path]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def written(tmp_path: Path) -> Write:
    def write(report: Report) -> Path:
        file = tmp_path / "report.html"
        file.write_text(html.text(report), encoding="utf-8")
        return file

    return write


def many(count: int = 1100) -> Report:
    """A run of `count` cases in ten files, of which every tenth has failed, all in one file but two."""
    cases = []
    for number in range(count):
        failed = number % 10 == 3 or number in (0, 7)
        name = f"file-{number % 10}.yaml::case-{number:04}"
        margin = 1.0 + number if failed else (number + 1) / (2 * count)
        worst = events.difference(margin)
        made = events.result(
            name, Verdict.MISMATCH if failed else Verdict.PASS, worst=worst, differences=(worst,), seconds=number / 1e3
        )
        tagged = events.scenario(name, tags=("even",) if number % 2 == 0 else ("odd",))
        cases.append(CaseFinished(tagged, "d", (made, events.reference(name))))
    return document.report(events.run_of(cases))


def at(case: str) -> str:
    return f"#case={quote(case, safe='')}"


def links(page: Page) -> list[str]:
    return page.locator("#matrix tbody th a").all_inner_texts()


def test_every_verdict_stands_in_the_matrix_in_words(browser: Browser, written: Write) -> None:
    with opened(browser, written(EVERY)) as page:
        said = "\n".join(page.locator("#matrix td").all_inner_texts())
        for verdict in Verdict:
            assert verdict in said
        for status in ("xfailed", "xpassed"):
            assert f", {status}" in said, "a status that does not follow from the verdict is said"
        assert page.locator("#matrix tbody tr:not(.group)").count() == len(EVERY.cases)
        expect(page.locator("#count")).to_have_text("22 cases")
        page.get_by_text("Environment").click()
        expect(page.get_by_role("region", name="Backends", exact=True)).to_contain_text("no adapter was found")


def test_a_case_shows_numbers_maps_scores_evidence_and_commands(browser: Browser, written: Write) -> None:
    with opened(browser, written(EVERY), at(DRAWN)) as page:
        expect(page.get_by_role("heading", level=1)).to_have_text(DRAWN)
        expect(page.get_by_role("heading", level=1)).to_be_focused()
        numbers = page.get_by_role("table", name="Numbers around the worst element")
        assert numbers.locator("thead").inner_text().split("\t")[1:4] == ["reference", "oracle", "candidate"]
        worst = numbers.locator("tr.worst").inner_text().split("\t")
        assert worst == ["dim 63, the worst", "0", "-0.123146811", "-0.123456791", "3.1e-4", "1.1e-6", "282"]
        maps = page.get_by_role("img")
        assert maps.count() == 3
        said = maps.first.get_attribute("aria-label")
        assert said is not None
        assert said.endswith("3 cells of 7 out of tolerance, within queries 0 to 127, heads 1 to 3.")
        # Levels by margin: 0.1, 0.2, 0.0 and 1.5 in the first row; nothing, NaN, 0.3 and 281.8 in the second.
        cells = maps.first.locator("rect.level, rect.nothing")
        kinds = cells.evaluate_all("all => all.map((it) => [...it.classList].at(-1))")
        assert kinds == ["p1", "p2", "p0", "f1", "nothing", "f5", "p2", "f2"]
        assert maps.nth(1).locator("path.window-line").count() == 2
        seen = page.get_by_text("It sees keys 87 to 149 of 150; most weight: keys 100 to 149 with 0.75")
        expect(seen).to_be_visible()
        body = page.locator("#case").inner_text()
        for words in (
            "lengths-as-offsets",
            "WebGpuExecutionProvider",
            "of the shader failed",
            "step 2 of 2 (speculative)",
            "attncheck run scenarios/sessions.yaml::read-otherwise --backend ort-webgpu:1 --adapter 'a b'",
            "attncheck minimize scenarios/sessions.yaml::read-otherwise --backend ort-webgpu:1",
        ):
            assert words in body


def test_page_and_terminal_write_a_number_alike(browser: Browser, written: Write) -> None:
    values = [digit * 10.0**power for power in range(-12, 13) for digit in (1.0, 1.37, 4.996, 9.18156, 9.9949, 9.9951)]
    with opened(browser, written(EVERY)) as page:
        assert page.evaluate("values => values.map(inDigits)", values) == [digits.number(it) for it in values]
        assert page.evaluate("values => values.map(asMargin)", values) == [digits.margin(it) for it in values]
        assert page.evaluate("[0, 'NaN', null].map(asMargin)") == ["0", "NaN", "\N{EN DASH}"]


def test_the_numbers_of_a_map_can_be_read_as_a_table(browser: Browser, written: Write) -> None:
    with opened(browser, written(EVERY), at(DRAWN)) as page:
        page.locator("figure summary").first.focus()
        page.keyboard.press("Enter")
        table = page.get_by_role("table", name="The numbers of the map")
        expect(table).to_be_visible()
        assert [row.inner_text().split("\t") for row in table.locator("tr").all()] == [
            ["query \\ head", "0", "1", "2", "3"],
            ["queries 0 to 63", "0.1", "0.2", "0", "1.5"],
            ["queries 64 to 127", "not compared", "NaN", "0.3", "282"],
        ]


def test_lines_are_drawn_between_tiles_of_the_size_that_is_chosen(browser: Browser, written: Write) -> None:
    with opened(browser, written(EVERY), at(DRAWN)) as page:
        lines = page.get_by_role("img").first.locator("line.tile-line")
        choice = page.get_by_label("Lines between tiles of")
        # 128 queries: between tiles of 64 there is one line, of 32 three; heads have no tiles.
        for size, count in (("64", 1), ("32", 3), ("0", 0)):
            choice.select_option(size)
            expect(lines).to_have_count(count)


def test_the_addresses_of_cases_work_with_the_history_of_the_browser(browser: Browser, written: Write) -> None:
    with opened(browser, written(EVERY)) as page:
        page.get_by_role("link", name="exact", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("scenarios/prefill.yaml::exact")
        page.get_by_role("link", name="Next failure").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("window-edges-with-a-long-name")
        page.go_back()
        expect(page.get_by_role("heading", level=1)).to_have_text("scenarios/prefill.yaml::exact")
        page.get_by_role("link", name="All cases").click()
        expect(page.locator("#matrix")).to_be_visible()
        page.evaluate("location.hash = '#case=not%20there'")
        expect(page.locator("#said")).to_have_text("There is no case not there in this report")
        expect(page.locator("#missing")).to_be_visible()
        expect(page.locator("#missing")).to_have_text(
            "There is no case not there in this report; below are those that there are."
        )
        expect(page.locator("#matrix")).to_be_visible()
        page.get_by_role("link", name="exact", exact=True).click()
        page.get_by_role("link", name="All cases").click()
        expect(page.locator("#missing")).to_be_hidden()


def test_a_command_is_copied(browser: Browser, written: Write) -> None:
    with opened(browser, written(EVERY), at(DRAWN)) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy the command: Run this case alone").click()
        expect(page.locator("#said")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == EVERY.cases[-2].reproduce


def test_a_thousand_cases_are_folded_by_file_filtered_and_sorted(browser: Browser, written: Write) -> None:
    with opened(browser, written(many())) as page:
        expect(page.locator("#count")).to_have_text("1,100 cases")
        heads = page.locator("#matrix tr.group button")
        assert heads.all_inner_texts() == [f"file-{number}.yaml" for number in range(10)]
        unfolded = [head.inner_text() for head in heads.all() if head.get_attribute("aria-expanded") == "true"]
        assert unfolded == ["file-0.yaml", "file-3.yaml", "file-7.yaml"], "files in which something failed"
        assert page.locator("#matrix tbody tr:not(.group)").count() == 3 * 110, "of a folded file there are no rows"

        page.get_by_label("Text").fill("case-00 file-3")
        expect(page.locator("#count")).to_have_text("10 of 1,100 cases")
        assert links(page) == [f"case-00{tens}3" for tens in range(10)]
        page.get_by_label("Tag").select_option("even")
        expect(page.locator("#count")).to_have_text("0 of 1,100 cases")
        page.get_by_role("button", name="Reset").click()
        expect(page.locator("#count")).to_have_text("1,100 cases")
        page.get_by_label("Verdict").select_option("mismatch")
        expect(page.locator("#count")).to_have_text("112 of 1,100 cases")
        page.locator("#f-backend").select_option("ort-cpu")
        expect(page.locator("#count")).to_have_text("0 of 1,100 cases")
        page.get_by_role("button", name="Reset").click()

        page.get_by_role("button", name="failed", exact=False).and_(page.locator("[data-status=failed]")).click()
        expect(page.locator("#count")).to_have_text("112 of 1,100 cases")
        page.get_by_label("Sort").select_option("margin")
        assert links(page)[:2] == ["file-3.yaml::case-1093", "file-3.yaml::case-1083"]
        page.get_by_role("button", name="Reset").click()
        page.get_by_label("Sort").select_option("time")
        assert links(page)[0] == "file-9.yaml::case-1099"
        more = page.get_by_role("button", name="Show 250 of 850 further cases")
        more.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Show 250 of 600 further cases")).to_be_attached()


def test_a_column_sorts_by_its_backend_and_says_so(browser: Browser, written: Write) -> None:
    with opened(browser, written(many(40))) as page:
        page.locator("#matrix thead").get_by_role("button", name="wgsl").click()
        assert page.locator("#matrix thead th[aria-sort=descending]").inner_text() == "wgsl"
        expect(page.get_by_label("Sort")).to_have_value("backend\nwgsl")
        assert links(page)[:3] == [f"file-3.yaml::case-00{number}" for number in (33, 23, 13)]
        page.locator("#matrix thead").get_by_role("button", name="wgsl").click()
        assert page.locator("#matrix thead th[aria-sort]").count() == 0
        assert links(page)[0] == "case-0000"


def test_failures_of_one_kind_are_told_once_and_can_be_shown_alone(browser: Browser, written: Write) -> None:
    with opened(browser, written(EVERY)) as page:
        first = page.locator("#clusters li").first
        expect(first).to_contain_text("wgsl nonfinite")
        page.get_by_role("button", name="Show 2 cases: wgsl crash").click()
        expect(page.locator("#count")).to_contain_text("2 of 22 cases, those with: wgsl, crash")
        assert links(page) == ["dead", "decoder.onnx"]


def test_flags_stand_in_the_cells_and_select_their_results(browser: Browser, written: Write) -> None:
    with opened(browser, written(EVERY)) as page:
        flagged = page.locator("#matrix tr", has=page.get_by_role("link", name="loose", exact=True))
        expect(flagged.locator("td").first).to_contain_text("vacuous, flaky, not-bitwise, disputed")
        page.get_by_role("button", name="2 disputed").click()
        expect(page.get_by_label("Flag")).to_have_value("disputed")
        assert links(page) == ["loose", "read-otherwise"]
        page.locator("#f-backend").select_option("ort-webgpu")
        assert links(page) == ["read-otherwise"]
        page.get_by_role("button", name="Reset").click()
        expect(page.locator("#count")).to_have_text("22 cases")


def test_a_backend_that_could_not_start_is_said_above_everything_and_over_its_column(
    browser: Browser, written: Write
) -> None:
    with opened(browser, written(EVERY)) as page:
        expect(page.locator("#absent")).to_be_in_viewport()
        expect(page.locator("#absent")).to_contain_text("wgpu-native could not start: no adapter was found")
        expect(page.locator("#matrix th[data-backend=wgpu-native]")).to_contain_text("could not start")
        expect(page.locator("#matrix th[data-backend=wgsl] small")).to_have_count(0)


@pytest.mark.parametrize("width", [1100, 1900])
def test_with_many_backends_a_case_keeps_its_width_and_stays_while_the_table_scrolls(
    browser: Browser, written: Write, width: int
) -> None:
    case = "scenarios/window.yaml::window-edges:op=mha,window=3"
    many_of = tuple(events.result(case, backend=f"kernels.py:mine_{number}") for number in range(14))
    started, *rest = events.run_of([events.finished(*many_of)])
    assert isinstance(started, RunStarted)
    run = [replace(started, backends=tuple(it.backend for it in many_of)), *rest]
    with opened(browser, written(document.report(run)), width=width) as page:
        cell = page.locator("#matrix tbody th[scope=row]")
        box = cell.bounding_box()
        region = page.get_by_role("region", name="Cases by backends")
        assert box is not None
        assert box["width"] >= 350
        assert box["height"] <= 60, "its id takes a line or two"
        assert region.evaluate("it => it.clientWidth") >= width - 80, "the table has the width of the window"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        region.evaluate("it => { it.scrollLeft = 500; }")
        after = cell.bounding_box()
        assert after is not None
        assert after["x"] == pytest.approx(box["x"], abs=1)


def test_everything_is_reached_by_keyboard_in_the_order_of_the_page(browser: Browser, written: Write) -> None:
    with opened(browser, written(EVERY)) as page:
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the results")).to_be_focused()
        expect(page.get_by_role("link", name="Skip to the results")).to_be_in_viewport()
        reached: list[str] = []
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        filters = ["f-text", "f-verdict", "f-backend", "f-flag", "f-tag", "f-sort", "Reset"]
        start = reached.index("f-text")
        assert reached[start : start + len(filters)] == filters
        assert reached[reached.index("scenarios/prefill.yaml") + 1] == "plain:op=gqa"
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", "where the focus is can be seen"
        fold = page.get_by_role("button", name="scenarios/prefill.yaml")
        fold.focus()
        page.keyboard.press("Space")
        expect(fold).to_have_attribute("aria-expanded", "false")
        expect(page.get_by_role("link", name="plain:op=gqa")).to_have_count(0)


def test_what_the_script_writes_of_hostile_names_is_text(browser: Browser, written: Write) -> None:
    report = hostile()
    file = written(report)
    for case in report.cases:
        with opened(browser, file, at(case.id)) as page:
            assert page.get_by_role("heading", level=1).text_content() == case.id
            assert page.title() == f"{case.id} · attncheck".replace("\t", " ").strip()
            assert page.locator("img, #case script, #overview script").count() == 0
            assert page.locator("#case bdi").count() > 0
    with opened(browser, file) as page:
        assert page.locator("#matrix tbody th a").all_text_contents() == list(HOSTILE)
        assert page.title().startswith(f"{len(HOSTILE)} of ")
        page.get_by_label("Text").fill("<script>")
        expect(page.locator("#count")).to_have_text(f"2 of {len(HOSTILE)} cases")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("where", ["", at(DRAWN), at("scenarios/window.yaml::dead")], ids=["overview", "maps", "crash"])
def test_axe_finds_nothing(browser: Browser, written: Write, scheme: Scheme, where: str) -> None:
    with opened(browser, written(EVERY), where, scheme) as page:
        for details in page.locator("details").all():
            details.evaluate("it => { it.open = true; }")
        page.wait_for_timeout(100)
        assert violations(page) == []


def test_axe_finds_what_is_wrong(browser: Browser, written: Write) -> None:
    """The check itself can fail: without labels and with grey on grey it does."""
    with opened(browser, written(EVERY)) as page:
        page.evaluate("document.querySelector('.filters label').replaceWith(document.querySelector('#f-text'))")
        page.evaluate("document.querySelector('#f-text').removeAttribute('placeholder')")
        page.evaluate("document.querySelector('.lead').style.color = 'var(--line)'")
        found = "\n".join(violations(page))
        assert "label: " in found
        assert "color-contrast: " in found


def test_a_narrow_page_does_not_scroll_sideways(browser: Browser, written: Write) -> None:
    for where in ("", at(DRAWN)):
        with opened(browser, written(EVERY), where, width=360) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_printed_report_holds_every_failure_at_length(browser: Browser, written: Write, scheme: Scheme) -> None:
    report = many(30)
    failed = [it.id for it in report.cases if it.status == "failed"]
    with opened(browser, written(report), scheme=scheme) as page:
        page.emulate_media(media="print")
        expect(page.locator("#printed h2.id")).to_have_text(failed)
        expect(page.locator(".filters")).to_be_hidden()
        expect(page.locator("#matrix thead")).to_contain_text("wgsl")
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(22, 32, 42)", "ink on paper, never light"
        assert page.pdf().count(b"/Type /Page\n") > len(failed), "each begins a page"
        page.emulate_media(media="screen")
        expect(page.locator("#printed h2.id")).to_have_count(0)


def test_a_run_without_cases_is_a_page_too(browser: Browser, written: Write) -> None:
    empty = replace(document.report([RunStarted(0, ("wgsl",), None)]), backends=())
    with opened(browser, written(empty)) as page:
        expect(page.locator("#count")).to_have_text("0 cases")
        assert violations(page) == []
