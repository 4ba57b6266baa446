"""What an expectation said of a result, in words."""

from __future__ import annotations

from attncheck.engine.baseline import REASON
from attncheck.engine.events import Expected, Result
from attncheck.vocabulary import Status


def expectation(result: Result, *, verbose: bool) -> list[str]:
    """Lines on what was expected of `result`: none where nothing was, or where its message says it (quarantine)."""
    it = result.expected
    if it is None or result.status is Status.SKIPPED:
        return []
    if it.reason == REASON:
        return [_in_baseline(it)]
    known = f"{it.reason} ({it.link})" if it.link else it.reason
    if result.status is Status.XFAILED:
        return [f"as expected: {it.said}", *([f"{it.place}: {known}"] if verbose else [])]
    if result.status is Status.XPASSED:
        return [f"passes, where {it.place} expects {it.said}: mended? Then remove the entry", f"it says: {known}"]
    return [f"{it.place} expects {it.said}, but {it.departure}", *([f"it says: {known}"] if verbose else [])]


def _in_baseline(it: Expected) -> str:
    """A baseline expects nothing: it tells what was."""
    if it.departure:
        return f"the baseline, {it.place}, has {it.said}; now {it.departure}"
    return f"the baseline, {it.place}, has it so: {it.said}"
