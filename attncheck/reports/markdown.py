"""The report for people who review: GitHub's Markdown, for a comment on a pull request or the summary of a step.

Counts, the backends, a table of what failed, and the details of each failure folded away. What would be too large is
cut by whole sections, and the report says how many. Names and messages are nobody's to trust: all of them stand in
code, where GitHub neither renders HTML nor notifies whoever is named behind an @.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from attncheck.reports import compared
from attncheck.reports.brief import Failure, counts, failures, headline, label, told
from attncheck.reports.document import Report
from attncheck.reports.entries import BackendEntry
from attncheck.reports.numbers import margin, number, plural
from attncheck.vocabulary import Flag, Status, Verdict

COMMENT_LIMIT = 2**16
"""Characters that GitHub takes as a comment: as many bytes are never more."""

ROWS = 100
"""Failures that get a row in the table; every one has its details."""

SPECIAL = re.compile(r"[\\`*{}\[\]()#!|<>&~@$\"'_]|:(?=//)|(?<=www)\.")
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a line does not show, what reverses it, and what UTF-8 has no way to write."""


def text(report: Report) -> str:
    """The document, small enough for a comment."""
    return fitted(report, COMMENT_LIMIT)


def fitted(report: Report, limit: int) -> str:
    """The document in at most `limit` bytes of UTF-8; empty where not even the counts fit."""
    failed = list(failures(report))
    first = [f"## attncheck: {counts(report)}\n", *_backends(report), *_compared(report)]
    return _cut([*first, *_table(failed, limit // 2), *map(_details, failed), *_known(report)], limit)


def _cut(sections: Sequence[str], limit: int) -> str:
    """Those of the sections that fit, in their order, and behind them how many do not."""
    if sum(len(it.encode()) + 1 for it in sections) <= limit:
        return "\n".join(sections)
    left = limit - len(_left_out(len(sections)).encode())
    kept: list[str] = []
    for section in sections:
        size = len(section.encode()) + 1
        if size <= left:
            kept.append(section)
            left -= size
    return "\n".join([*kept, _left_out(len(sections) - len(kept))]) if kept else ""


def _left_out(count: int) -> str:
    return f"_{plural(count, 'section')} more would be too large for this place: the other reports have them._\n"


def _backends(report: Report) -> Iterator[str]:
    """The backends with their verdicts; first of all, that the run is not whole."""
    if report.interrupted:
        missing = report.selected - len(report.cases)
        yield f"**Interrupted: {plural(missing, 'case')} of {report.selected:,} are missing.**\n"
    rows = [(code(it.name), code(_ran_on(it)) if it.started else "", _verdicts(it, report)) for it in report.backends]
    yield _rows(("backend", "ran on", "verdicts"), rows)
    flags = Counter(flag for case in report.cases for it in case.results for flag in it.flags)
    if flags:
        yield "Flags: " + ", ".join(f"{flags[flag]} {flag}" for flag in Flag if flags[flag]) + "\n"


def _compared(report: Report) -> Iterator[str]:
    """How the run stands to its baseline, as the terminal has it."""
    if report.baseline is not None:
        first, *others = [it.text for it in compared.lines(report.baseline, None) if it.text]
        yield f"{code(first)}\n\n{_block(others)}" if others else f"{code(first)}\n"


def _ran_on(it: BackendEntry) -> str:
    versions = [f"{name} {version}" for name, version in it.versions.items()]
    return ", ".join([*versions, *([str(it.device["adapter"])] if "adapter" in it.device else [])]) or "-"


def _verdicts(it: BackendEntry, report: Report) -> str:
    if not it.started:
        return f"**could not start** {code(it.message)}"
    found = Counter(each.verdict for case in report.cases for each in case.results if each.backend == it.name)
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in Verdict if found[verdict])


def _table(failed: Sequence[Failure], limit: int) -> Iterator[str]:
    """One row for each failure, as many as stand in `limit` bytes."""
    if not failed:
        return
    rows: list[tuple[str, ...]] = []
    for it in failed[:ROWS]:
        row = _row(it)
        limit -= sum(len(cell.encode()) + 3 for cell in row) + 2
        if limit < 0:
            break
        rows.append(row)
    table = _rows(("case", "on", "verdict", "error", "tolerance", "margin"), rows)
    more = len(failed) - len(rows)
    yield table + (f"\n...and {plural(more, 'failure')} more.\n" if more else "")


def _row(it: Failure) -> tuple[str, ...]:
    verdict = str(it.result.verdict if it.result.status is Status.FAILED else it.result.status)
    worst = told(it.result)
    numbers = ("", "", "") if worst is None else (number(worst.error), number(worst.tolerance), margin(worst.margin))
    return (code(it.case.id), code(label(it.result)), verdict, *numbers)


def _details(it: Failure) -> str:
    """One failure, folded: what the terminal says of it, the last words of its process, and what to run next."""
    first = headline(it.result)
    lines = [f"{it.case.file}:{it.case.line}"] if it.case.written else []
    lines += [*([it.case.about] if it.case.about else []), first]
    lines += [words for words in it.result.explanation if words not in first]
    lines += [f"| {words}" for words in it.result.stderr[-8:]]
    lines += [f"{what}: {command}" for what, command in it.commands.items()]
    return _folded(f"{code(it.case.id)} on {code(label(it.result))}", lines)


def _known(report: Report) -> Iterator[str]:
    """What failed as it was expected to, folded."""
    known = [(case, it) for case in report.cases for it in case.results if it.status is Status.XFAILED]
    if known:
        yield _folded(
            f"{plural(len(known), 'result')} as expected",
            [f"{case.id} on {label(it)}: {headline(it)}" for case, it in known],
        )


def _folded(summary: str, lines: Iterable[str]) -> str:
    return f"<details><summary>{summary}</summary>\n\n{_block(lines)}\n</details>\n"


def _block(lines: Iterable[str]) -> str:
    """Lines as they are, in a fence that none of them can close."""
    told_lines = [_shown(part) for words in lines for part in words.split("\n")]
    fence = "`" * max(3, 1 + max((len(run) for words in told_lines for run in re.findall("`+", words)), default=0))
    return "\n".join([f"{fence}text", *told_lines, fence, ""])


def _rows(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    every = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in every)


def code(words: str) -> str:
    """`words` in code, on one line, with nothing in them that Markdown or a table would read."""
    return f"<code>{SPECIAL.sub(lambda found: f'&#{ord(found.group())};', _shown(words))}</code>"


def _shown(words: str) -> str:
    """`words` with what no line shows spelled out, an escape as x1b behind a backslash."""
    return CONTROL.sub(lambda found: found.group().encode("unicode_escape", "surrogatepass").decode(), words)
