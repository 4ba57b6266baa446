"""Which expectations a call means: the file beside the configuration, those of ``--expect``, or none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attncheck.cli.configuration import Configuration
from attncheck.cli.messages import Stop
from attncheck.cli.options import NO_EXPECTATIONS
from attncheck.engine.expectations import Expectations
from attncheck.reports.numbers import plural
from attncheck.scenario import ScenarioErrors, render_all
from attncheck.scenario.expectations import EXPECTATIONS, load
from attncheck.vocabulary import ExitCode


def wanted(found: Configuration | None, given: Mapping[str, Any]) -> Expectations:
    """The expectations that hold for this call. Raises Stop (exit code 2) with every mistake of every file."""
    try:
        return Expectations(load(files(found, given["expect"])), given["run_quarantined"])
    except ScenarioErrors as wrong:
        mistakes = plural(len(wrong.diagnostics), "mistake")
        raise Stop(f"{mistakes}; nothing was run\n\n{render_all(wrong.diagnostics)}", ExitCode.USAGE) from None


def files(found: Configuration | None, named: tuple[str, ...]) -> tuple[Path, ...]:
    """The files that are read: those named, or the one beside the configuration. Raises Stop (exit code 2)."""
    if NO_EXPECTATIONS in named:
        if len(set(named)) > 1:
            others = ", ".join(name for name in named if name != NO_EXPECTATIONS)
            raise Stop(f"--expect {NO_EXPECTATIONS} and --expect {others} exclude each other", ExitCode.USAGE)
        return ()
    if named:
        return tuple(dict.fromkeys(map(Path, named)))
    here = Path.cwd()
    beside = (found.base if found is not None else here) / EXPECTATIONS
    if not beside.exists():
        return ()
    return (beside.relative_to(here) if beside.is_relative_to(here) else beside,)
