"""Chromium, in which the HTML report is tested and its screenshots are made: a page from disk, without any network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
"""Where Debian's package puts it."""

Scheme = Literal["light", "dark"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser. Fails where it is not installed: a skip hides."""
    assert CHROMIUM.is_file(), f"{CHROMIUM} is missing: tools/setup.sh --browser installs it (or install chromium)"
    with sync_playwright() as playwright:
        # As root, in a container, Chromium's sandbox cannot be made.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Browser, file: Path, fragment: str = "", scheme: Scheme = "light", width: int = 1280, height: int = 900
) -> Iterator[Page]:
    """A page from disk, offline. It must ask for nothing but itself, and complain of nothing."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", offline=True
    )
    page = context.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri() + fragment)
    try:
        yield page
        assert complaints == []
        assert {url.partition("#")[0] for url in asked} == {file.as_uri()}
    finally:
        context.close()


def violations(page: Page) -> list[str]:
    """What axe finds wrong on the page as it stands."""
    # The page's policy lets no script run but its own. It does not bind an isolated world.
    script = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    session = page.context.new_cdp_session(page)
    frame = session.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
    world = session.send("Page.createIsolatedWorld", {"frameId": frame})["executionContextId"]

    def evaluate(expression: str) -> Any:
        answer = session.send(
            "Runtime.evaluate",
            {"expression": expression, "contextId": world, "awaitPromise": True, "returnByValue": True},
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    evaluate(script)
    found = json.loads(evaluate("axe.run().then((it) => JSON.stringify(it.violations))"))
    return [f"{it['id']}: {node['html'][:200]} {node['failureSummary']}" for it in found for node in it["nodes"]]
