"""Measure how long a browser takes to open the HTML report of many cases: `python -m benchmarks.html_report`.

From the request to the first frame in which the matrix stands, in the distribution's Chromium; needs what the browser
tests need (`tools/setup.sh --browser`). A report, not a test: times depend on the machine.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from attncheck.reports.html import page as html
from tests.browser import chromium, opened
from tests.quality.test_html_browser import many

CASES = (1_100, 10_000)
OPENINGS = 5
FIRST_FRAME = "new Promise((done) => requestAnimationFrame(() => done(performance.now())))"
BUDGET_SECONDS = 2.0
"""For the smaller number of cases."""


def main() -> None:
    """Print the median for each number of cases."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for count in CASES:
            file = Path(folder) / f"{count}.html"
            report = many(count)
            began = time.perf_counter()
            text = html.text(report)
            made = time.perf_counter() - began
            file.write_text(text, encoding="utf-8")
            taken = []
            for _ in range(OPENINGS):
                with opened(browser, file) as page:
                    taken.append(page.evaluate(FIRST_FRAME) / 1e3)
            budget = f", budget {BUDGET_SECONDS:g} s" if count == CASES[0] else ""
            print(
                f"{count:,} cases: written in {made:.2f} s, {len(text) / 1e6:.1f} MB, "
                f"open after {statistics.median(taken):.2f} s{budget}"
            )


if __name__ == "__main__":
    main()
