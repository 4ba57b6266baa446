"""The report for CI servers: JUnit XML, one suite a backend, one item a case on it.

An item's name is the id of the case, its class the backend and the scenario file: both stay from run to run. What the
common schema has no attribute for (file and line, kernel, margin, commands) is told in `system-out`, a line each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from xml.etree import ElementTree as ET

from attncheck.reports.brief import Failure, headline, label
from attncheck.reports.document import Report
from attncheck.reports.entries import BackendEntry, CaseEntry, ResultEntry
from attncheck.reports.numbers import margin, number, plural
from attncheck.vocabulary import Status, Verdict

UNSAYABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write, not even as a reference."""

BROKEN = frozenset(
    {Verdict.CRASH, Verdict.TIMEOUT, Verdict.OUT_OF_MEMORY, Verdict.DEVICE_LOST, Verdict.ERROR, Verdict.MALFORMED}
)
"""Verdicts that are JUnit's errors: the backend gave no numbers. The others that fail are failures: wrong ones."""

Item = ET.Element


def text(report: Report) -> str:
    """The document, one suite a backend, and one of the run itself where it did not come to its end."""
    suites = [_suite(it, report) for it in report.backends]
    if report.interrupted:
        suites.append(_unfinished(report))
    root = ET.Element("testsuites", {"name": "attncheck", "time": _time(report.seconds)})
    for suite in suites:
        root.append(suite)
    for kind in ("tests", "failures", "errors"):
        root.set(kind, str(sum(int(suite.get(kind, "0")) for suite in suites)))
    ET.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, "unicode")}\n'


def _suite(backend: BackendEntry, report: Report) -> Item:
    items = [_item(case, it) for case in report.cases for it in case.results if it.backend == backend.name]
    seconds = sum(it.seconds for case in report.cases for it in case.results if it.backend == backend.name)
    if not backend.started:
        items.append(_fault(backend.name, "starts", "not-started", backend.message))
    return _made(backend.name, items, dict(_environment(backend, report)), seconds)


def _unfinished(report: Report) -> Item:
    missing = report.selected - len(report.cases)
    told = f"the run was interrupted: {plural(missing, 'case')} of {report.selected:,} did not come to an end"
    return _made("attncheck", [_fault("attncheck", "the run comes to its end", "interrupted", told)], {}, 0.0)


def _made(name: str, items: list[Item], properties: dict[str, str], seconds: float) -> Item:
    def count(kind: str) -> str:
        return str(sum(it.find(kind) is not None for it in items))

    suite = ET.Element(
        "testsuite",
        {
            "name": said(name),
            "tests": str(len(items)),
            "failures": count("failure"),
            "errors": count("error"),
            "skipped": count("skipped"),
            "time": _time(seconds),
        },
    )
    if properties:
        held = ET.SubElement(suite, "properties")
        for key, value in properties.items():
            ET.SubElement(held, "property", {"name": said(key), "value": said(value)})
    suite.extend(items)
    return suite


def _environment(backend: BackendEntry, report: Report) -> Iterator[tuple[str, str]]:
    yield "attncheck", report.attncheck
    yield "reference", str(backend.reference).lower()
    yield from (backend.versions | {f"device.{key}": str(value) for key, value in backend.device.items()}).items()
    yield from ((f"setting.{key}", value) for key, value in report.settings.items())


def _item(case: CaseEntry, result: ResultEntry) -> Item:
    item = ET.Element(
        "testcase",
        {"classname": said(_class(case, result.backend)), "name": said(case.id), "time": _time(result.seconds)},
    )
    kind = _kind(result)
    facts = _facts(case, result)
    if kind:
        child = ET.SubElement(item, kind, {"type": str(_type(result)), "message": said(headline(result))})
        where = [f"{case.file}:{case.line}"] if case.written else []
        child.text = said("\n".join([*where, *result.explanation]))
    if kind and kind != "skipped":
        facts |= Failure(case, result).commands
    told = [f"{key}: {value}" for key, value in facts.items() if value]
    ET.SubElement(item, "system-out").text = said("\n".join(told))
    if result.stderr:
        ET.SubElement(item, "system-err").text = said("\n".join(result.stderr))
    return item


def _class(case: CaseEntry, backend: str) -> str:
    """Backend and file, with a dot where viewers open a folder: `wgsl.scenarios.window`."""
    file = PurePosixPath(case.id.partition("::")[0])
    return ".".join((backend, *(part for part in file.with_suffix("").parts if part not in {"/", ".."})))


def _kind(result: ResultEntry) -> str:
    """The element that says the status; none for what passed."""
    if result.status in {Status.SKIPPED, Status.XFAILED}:
        return "skipped"
    if result.verdict in BROKEN:
        return "error"
    return "" if result.status is Status.PASSED else "failure"


def _type(result: ResultEntry) -> str:
    return result.verdict if result.status in {Status.FAILED, Status.SKIPPED} else result.status


def _facts(case: CaseEntry, result: ResultEntry) -> dict[str, str]:
    """What a viewer may want of any item; empty where there is nothing to say."""
    return {
        "at": f"{case.file}:{case.line}" if case.written else case.file,
        "about": case.about or case.described,
        "tags": ", ".join(case.tags),
        "verdict": str(result.verdict),
        "status": str(result.status),
        "flags": ", ".join(map(str, result.flags)),
        "on": label(result),
        "instead": result.instead,
        "error": "" if result.error is None else number(result.error),
        "tolerance": "" if result.tolerance is None else number(result.tolerance),
        "margin": "" if result.margin is None else margin(result.margin),
    }


def _fault(classname: str, name: str, kind: str, message: str) -> Item:
    item = ET.Element("testcase", {"classname": said(classname), "name": name, "time": _time(0.0)})
    ET.SubElement(item, "error", {"type": kind, "message": said(message)}).text = said(message)
    return item


def said(words: str) -> str:
    """`words` without what XML 1.0 forbids: such a character is spelled out, an escape as x1b behind a backslash."""
    return UNSAYABLE.sub(lambda found: found.group().encode("unicode_escape", "surrogatepass").decode(), words)


def _time(seconds: float) -> str:
    return f"{seconds if math.isfinite(seconds) else 0.0:.3f}"
