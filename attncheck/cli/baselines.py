"""The earlier run that ``--baseline`` names, made the measure of this one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from attncheck.cli.messages import Stop
from attncheck.engine.baseline import Baseline, Comparison, Was, ran_on
from attncheck.reports.document import Report, Unreadable
from attncheck.reports.reading import earlier
from attncheck.vocabulary import ExitCode


def comparison(given: Mapping[str, Any], elsewhere: Collection[str]) -> Comparison | None:
    """The comparison that ``--baseline`` asks for; `elsewhere` holds the ids of cases that other shards run.

    Raises Stop (exit code 2) for a file that is neither a report nor a journal, and one in which nothing was judged.
    """
    if given["baseline"] is None:
        return None
    try:
        report = earlier(Path(given["baseline"]))
    except Unreadable as wrong:
        raise Stop(f"--baseline: {wrong}\nnothing was run", ExitCode.USAGE) from None
    if not report.cases:
        raise Stop(
            f"--baseline: {given['baseline']} holds no case: all that fails would be new\nnothing was run",
            ExitCode.USAGE,
        )
    return Comparison(_baseline(given["baseline"], report), elsewhere)


def _baseline(place: str, report: Report) -> Baseline:
    results = tuple(
        Was(case.id, case.digest, it.backend, it.verdict, it.flags, it.margin)
        for case in report.cases
        for it in case.results
    )
    started = {it.name: ran_on(it.versions, it.device) for it in report.backends if it.started}
    return Baseline(place, results, {"": {"attncheck": report.attncheck}, **started})
