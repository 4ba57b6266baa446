"""The formats of ``--report``. Light: a format's module is imported when a report is written."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attncheck.reports.document import Report

FORMATS = {
    "json": "attncheck.reports.json_report:text",
    "ndjson": "attncheck.reports.ndjson:text",
    "junit": "attncheck.reports.junit:text",
    "github": "attncheck.reports.github:text",
    "markdown": "attncheck.reports.markdown:text",
    "html": "attncheck.reports.html.page:text",
}
"""Format -> the pure function that makes its text of the document of a run."""


def writer(name: str) -> Callable[[Report], str]:
    """The function that writes the format `name`."""
    module, _, function = FORMATS[name].partition(":")
    found: Callable[[Report], str] = getattr(import_module(module), function)
    return found
