"""The page: templates filled with what stands on it at once, and the run as data from which its script draws the rest.

Nothing is fetched: style and script stand in the file, and its Content-Security-Policy lets nothing else run, by their
hashes, so that a name that got past the escaping could still do nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from functools import cache
from importlib.resources import files

import jinja2

from attncheck.reports import compared
from attncheck.reports.document import Report
from attncheck.reports.entries import BackendEntry
from attncheck.reports.html.data import embedded
from attncheck.reports.numbers import plural, seconds
from attncheck.vocabulary import Flag, Status

STYLES = ("colours.css", "style.css", "print.css")
SCRIPTS = (
    *("base.js", "values.js", "axes.js", "drawing.js", "maps.js", "numbers.js", "scores.js", "result.js", "case.js"),
    *("filters.js", "matrix.js", "main.js"),
)
"""In the order in which one needs the other."""


def text(report: Report) -> str:
    """The page of a run."""
    style, script = (_joined(names) for names in (STYLES, SCRIPTS))
    return _template().render(
        report=report,
        title=title(report),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=embedded(report),
        counts={it: getattr(report.counts, it) for it in Status},
        tags=sorted({tag for case in report.cases for tag in case.tags}),
        compared=_compared(report),
        absent=_absent(report),
        flags=_flags(report),
        verdicts=sorted({str(it.verdict) for case in report.cases for it in case.results}),
    )


def title(report: Report) -> str:
    """``2 of 130 cases failed, 1 backend could not start``."""
    wrong = report.counts.failed + report.counts.xpassed
    cases = plural(len(report.cases), "case")
    ran = f"{wrong:,} of {cases} failed" if wrong else f"{cases}, none failed"
    absent = len(_absent(report))
    gone = [f"{plural(absent, 'backend')} could not start"] if absent else []
    return ", ".join([ran if report.cases else "nothing ran", *gone])


def _absent(report: Report) -> list[BackendEntry]:
    """Backends without which the run was: a journal that is gone on from has results of some that need not start."""
    ran = {it.backend for case in report.cases for it in case.results}
    return [it for it in report.backends if not it.started and it.name not in ran]


def _flags(report: Report) -> dict[Flag, int]:
    """Results with each flag, without those that none has."""
    found = Counter(flag for case in report.cases for it in case.results for flag in it.flags)
    return {flag: found[flag] for flag in Flag if found[flag]}


def _compared(report: Report) -> list[str]:
    """How the run stands to its baseline, as the terminal has it."""
    if report.baseline is None:
        return []
    return [it.text for it in compared.lines(report.baseline, None) if it.text]


@cache
def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("attncheck.reports.html")
    made = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["seconds"] = seconds
    return made.get_template("page.html")


@cache
def _joined(names: tuple[str, ...]) -> str:
    folder = files("attncheck.reports.html") / "templates"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


@cache
def _hash(content: str) -> str:
    """What a Content-Security-Policy knows an inline element by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
