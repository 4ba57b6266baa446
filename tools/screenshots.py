"""Makes the pictures of the HTML report that stand in docs/reports.md anew: `python -m tools.screenshots`.

The run behind them has one planted fault, a window that is one key too long, and is the same each time; what a browser
draws depends on its fonts, so that the files are no golden files.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page

from tests.browser import chromium, opened

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
CASE = "scenarios/window.yaml::ragged-prefill"
LARGEST = 200_000
"""Bytes: what a reader of the docs has to load."""


def report(into: Path) -> Path:
    """Run the scenarios about windows on two planted kernels, of which each is wrong in its own way."""
    file = into / "report.html"
    backends = [f"tests/callables/planted.py:{name}" for name in ("window_one_long", "single_element")]
    asked = [it for backend in backends for it in ("--backend", backend)]
    command = [sys.executable, "-m", "attncheck", "run", "scenarios/window.yaml", *asked, "--report", f"html={file}"]
    ended = subprocess.run([*command, "--exit-zero", "--quiet"], cwd=ROOT, check=False, capture_output=True, text=True)
    if ended.returncode != 0:
        raise SystemExit(f"screenshots: the run ended with {ended.returncode}: {ended.stderr}")
    return file


def take(page: Page, name: str) -> None:
    """What is to be seen of a page, as docs/images/`name`."""
    file = IMAGES / name
    page.screenshot(path=file)
    size = file.stat().st_size
    print(f"{file.relative_to(ROOT)}: {size:,} bytes")
    if size > LARGEST:
        raise SystemExit(f"screenshots: {name} has more than {LARGEST:,} bytes: show less of the page")


def main() -> None:
    """Take them all."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file = report(Path(folder))
        at = f"#case={quote(CASE, safe='')}"
        with opened(browser, file, width=1120, height=900) as page:
            take(page, "report-overview.png")
        with opened(browser, file, at, width=1120, height=970) as page:
            page.get_by_role("heading", name="Numbers side by side").first.evaluate("it => it.scrollIntoView()")
            take(page, "report-maps.png")
        with opened(browser, file, at, "dark", width=1120, height=900) as page:
            page.get_by_role("heading", name="What the worst row looks at").first.evaluate("it => it.scrollIntoView()")
            page.evaluate("scrollBy(0, -640)")
            take(page, "report-dark.png")


if __name__ == "__main__":
    main()
