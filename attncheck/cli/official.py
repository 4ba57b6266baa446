"""Which official tests a call means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import onnx

from attncheck.cli.messages import Stop
from attncheck.cli.selection import fitting
from attncheck.graph.case import Case
from attncheck.graph.vectors import SUITE, vectors
from attncheck.reports.numbers import plural
from attncheck.scenario import ScenarioErrors, render_all
from attncheck.scenario.select import matches
from attncheck.vocabulary import ExitCode

NEAR = 3
"""How many ids are named where one is not found."""


def selected(given: Mapping[str, Any]) -> list[Case]:
    """The tests that ids and ``-k`` in `given` leave, in the package's order.

    Raises Stop: exit code 2 for a keyword that cannot be read and an id that no test has, 5 when nothing is left.
    """
    tests = vectors()
    if not tests:
        raise Stop(
            f"onnx {onnx.__version__} brings no test of Attention or RotaryEmbedding: they came with onnx 1.18 "
            "(pip install 'onnx>=1.18')",
            ExitCode.NOTHING,
        )
    meant = named(tests, given["what"])
    try:
        kept = fitting(meant, given["keyword"] or "")
    except ScenarioErrors as wrong:
        raise Stop(f"nothing was run\n\n{render_all(wrong.diagnostics)}", ExitCode.USAGE) from None
    if not kept:
        left = f"-k {given['keyword']!r} leaves none of {plural(len(meant), 'test')}; nothing was run"
        raise Stop(left, ExitCode.NOTHING)
    return kept


def named(tests: Sequence[Case], patterns: Sequence[str]) -> list[Case]:
    """The tests that any of the patterns means: by whole id, or by what stands behind ``::``."""
    if not patterns:
        return list(tests)
    whole = [pattern if "::" in pattern else f"{SUITE}::{pattern}" for pattern in patterns]
    for pattern in whole:
        if not any(matches(pattern, test.id) for test in tests):
            near = get_close_matches(pattern, [test.id for test in tests], n=NEAR, cutoff=0.3)
            hint = "".join(f"\n  near: {one}" for one in near) or "; --list shows every id"
            raise Stop(f"no official test matches {pattern}{hint}\nnothing was run", ExitCode.USAGE)
    return [test for test in tests if any(matches(pattern, test.id) for pattern in whole)]
