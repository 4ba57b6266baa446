"""What `minimize` found, in lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attncheck.engine.events import Result
from attncheck.minimize.certificate import Neighbour
from attncheck.minimize.ledger import Runs
from attncheck.minimize.search import Minimum
from attncheck.minimize.signature import Signature
from attncheck.reports import describe, rows
from attncheck.reports.lines import BLANK, Line, line, paragraph
from attncheck.reports.numbers import plural

INDENT = "  "
LISTED = 12
"""Neighbours that are listed on the terminal; minimal.json holds all."""


def said(name: str, backend: str, failure: Signature) -> str:
    """What a minimum is of, in a line: it stands on top of its file."""
    return f"smallest case of {name} on {backend}: {failure.words}"


def lines(
    it: Minimum, result: Result, width: int | None, command: Callable[[str], str], *, quiet: bool = False
) -> list[Line]:
    """The smallest case, how it fails, what its neighbours do, and what else was met.

    result   of the smallest case; command: the shell command that runs a case as this call did
    """
    found = [line(said(it.start.like.id, result.backend, it.failure), "heading")]
    found += paragraph(describe.scenario(it.case.scenario), width, INDENT, hanging=INDENT)
    found += [part for text in _numbers(result) for part in paragraph(text, width, INDENT, hanging=INDENT)]
    found += [] if quiet else [BLANK, *_certificate(it), *_others(it, command)]
    return found


def _numbers(result: Result) -> list[str]:
    worst = rows.told(result)
    told = list(describe.worst(worst)) if worst is not None and not worst.passed else []
    return [*told, *([result.diagnosis] if result.diagnosis else []), *([result.message] if result.message else [])]


def _certificate(it: Minimum) -> list[Line]:
    if not it.certified:
        why = (
            "the budget was spent before its neighbours were run; the same call goes on with more of it"
            if not it.neighbours
            else f"it failed in {it.confirmed} of its last runs, or a neighbour fails too"
        )
        return [line(f"not certified: {why}", "caution")]
    return [line(f"1-minimal: {counted(it.neighbours, it.runs)}", "good"), *table(it.neighbours)]


def counted(neighbours: Sequence[Neighbour], runs: Runs) -> str:
    """What was proved, of neighbours none of which fails in the same way in so many runs."""
    if not neighbours:
        return "there is no case one step simpler"
    often = f" in {'any' if runs.needed == 1 else runs.needed} of {runs.of} runs" if runs.of > 1 else ""
    return f"{plural(len(neighbours), 'case')} one step simpler, and none fails in the same way{often}"


def table(neighbours: Sequence[Neighbour]) -> list[Line]:
    """Each neighbour by its change, with its verdict."""
    width = max((len(it.change) for it in neighbours[:LISTED]), default=0)
    shown = [line(f"{INDENT}{it.change.ljust(width)}  {it.verdict}") for it in neighbours[:LISTED]]
    more = len(neighbours) - len(shown)
    return [*shown, *([line(f"{INDENT}and {more} more, in minimal.json")] if more else [])]


def _others(it: Minimum, command: Callable[[str], str]) -> list[Line]:
    if not it.others:
        return []
    told = [line("also found, and not followed:", "caution")]
    for failure, case in it.others:
        told += [line(f"{INDENT}{failure.words}"), line(f"{INDENT * 2}{command(f'case::{case.text}')}")]
    return [BLANK, *told]
