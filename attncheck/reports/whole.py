"""All there is to say of one case: every backend, every output, what ran, what it looks like, what to run next.

A function of a report's document, so that a result of a run of last week reads as one of now.
"""

from __future__ import annotations

from collections.abc import Iterator

from attncheck.backends.base import Hello
from attncheck.reports.device import summary
from attncheck.reports.document import Report
from attncheck.reports.drawing import drawn
from attncheck.reports.entries import CaseEntry, DifferenceEntry, ResultEntry
from attncheck.reports.lines import BLANK, STATUS_ROLES, Line, Span, line, paragraph
from attncheck.reports.numbers import margin, number, plural

INDENT = "  "
DEEPER = "    "


def lines(report: Report, case: CaseEntry, width: int | None, ramp: str) -> Iterator[Line]:
    """The case, and then each of its results."""
    yield line(case.id, "heading")
    for text in filter(None, (case.about, case.described)):
        yield from paragraph(text, width, INDENT, hanging=INDENT)
    written = f"written at {case.file}:{case.line}; " if case.written else ""
    yield from paragraph(f"{written}digest {case.digest}", width, INDENT)
    for result in case.results:
        yield BLANK
        yield from _result(report, result, width, ramp)
    yield from _commands(case)


def _result(report: Report, it: ResultEntry, width: int | None, ramp: str) -> Iterator[Line]:
    name = f"{it.backend} {it.kernel}".rstrip() + (", the reference" if it.reference else "")
    flags = "".join(f", {flag}" for flag in it.flags)
    said = f"{it.verdict}, {it.status}{flags}"
    yield Line((Span(f"{name}: ", "heading"), Span(said, STATUS_ROLES[it.status])))
    for text in _ran(report, it):
        yield from paragraph(text, width, INDENT, hanging=INDENT)
    for text in it.explanation:
        yield from paragraph(text, width, INDENT, hanging=INDENT)
    for difference in it.differences:
        yield from _difference(difference, width)
    if it.sharpness is not None and it.sharpness.survivors:
        yield from paragraph(
            f"wrong kernels that would pass: {', '.join(it.sharpness.survivors)}", width, INDENT, hanging=INDENT
        )
    if it.picture is not None:
        yield line(f"{INDENT}around the worst element of {it.picture.output}:")
        yield from drawn(it.picture, ramp, width)
    if it.stderr:
        yield line(f"{INDENT}what its process wrote:")
        yield from (line(f"{INDENT}| {text}") for text in it.stderr)


def _ran(report: Report, it: ResultEntry) -> Iterator[str]:
    """What the backend is, and what its runtime tells to have run."""
    backend = next((one for one in report.backends if one.name == it.backend), None)
    if backend is not None and backend.started:
        yield summary(Hello(backend.versions, backend.device))
    if it.evidence is not None:
        yield f"ran: {', '.join(it.evidence.kernels) or 'no kernel was told'}, on {it.evidence.provider}"
    if it.instead:
        yield f"{it.kernel} in the place of the kernel asked for: {it.instead}"
    yield f"took {it.seconds:.3g} s"


def _difference(it: DifferenceEntry, width: int | None) -> Iterator[Line]:
    """One output against one expectation: how many elements, and the arithmetic at the worst of them."""
    held = f"{it.subject} against {it.against}" if it.subject else f"against {it.against}"
    extent = f"{it.failing:,} of {plural(it.compared, 'element')} out of tolerance" if it.failing else (
        f"{plural(it.compared, 'element')} within tolerance"
    )
    more = f", {it.nonfinite:,} not finite" if it.nonfinite else ""
    above = f", {it.above:,} of them too large" if it.failing and it.above else ""
    title = f"{it.output}, {held}: {extent}{above}{more}; largest difference {number(it.max_abs)}"
    yield from paragraph(title, width, INDENT, hanging=INDENT)
    yield line(f"{DEEPER}worst at {it.where}")
    yield line(f"{DEEPER}got {it.got:.9g}, expected {it.expected:.9g}")
    arithmetic = f"error {number(it.error)} / tolerance {number(it.tolerance)} = margin {margin(it.margin)}"
    yield line(f"{DEEPER}{arithmetic}", "plain" if it.passed else "bad")
    if it.terms:
        told = " + ".join(f"{number(term.value)} {term.of}" for term in it.terms)
        yield from paragraph(f"tolerance {number(it.tolerance)} = {told}", width, DEEPER, hanging=INDENT)


def _commands(case: CaseEntry) -> Iterator[Line]:
    """What to run next, each command on its line; none where the report does not know them."""
    shrink = [it.minimize for it in case.results if it.minimize]
    verdicts = dict.fromkeys(it.verdict for it in case.results)
    commands = {
        "To run it alone": [case.reproduce] if case.reproduce else [],
        "To shrink it": shrink,
        "What the verdicts mean": [f"attncheck explain {verdict}" for verdict in verdicts],
    }
    yield BLANK
    for title, words in commands.items():
        if words:
            yield line(f"{title}:", "heading")
            yield from (line(f"{INDENT}{word}") for word in words)
