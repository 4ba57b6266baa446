"""How a run stands to its baseline, in lines."""

from __future__ import annotations

from collections import Counter

from attncheck.engine.baseline import ORDER
from attncheck.engine.events import Change, Compared
from attncheck.reports.lines import BLANK, Line, Role, Span, line, paragraph
from attncheck.reports.numbers import plural

TOLD = 8
"""How many changes of a kind are told one by one."""

ROLES: dict[str, Role] = {"new": "bad", "worse": "bad", "better": "good", "gone": "caution"}
WIDTH = max(map(len, ORDER)) + 2


def lines(it: Compared, width: int | None) -> list[Line]:
    """The counts, the changes kind by kind, and what else is not as it was then."""
    counted = Counter(change.kind for change in it.changes)
    counts = [f"{counted[kind]} {kind}" for kind in ORDER if counted[kind]]
    known = [f"{plural(it.known, 'result')} {'fails' if it.known == 1 else 'fail'} as then"] if it.known else []
    stands = [it.incomparable, ", ".join([*counts, *known])]
    told = [BLANK, line(f"Against {it.place}: {'; '.join(filter(None, stands)) or 'nothing has changed'}", "heading")]
    for kind in ORDER:
        changes = [change for change in it.changes if change.kind == kind]
        told += [Line((Span(f"  {kind.ljust(WIDTH)}", ROLES[kind]), Span(_said(one)))) for one in changes[:TOLD]]
        if len(changes) > TOLD:
            told.append(line(f"  {''.ljust(WIDTH)}and {len(changes) - TOLD} more"))
    for text in it.differs:
        told += paragraph(text, width, "  ", hanging="  ")
    return told


def _said(change: Change) -> str:
    was = f"was {change.was}" if change.was else "not in the baseline"
    return f"{change.case} on {change.backend}: {', '.join(filter(None, (change.now, was)))}"
