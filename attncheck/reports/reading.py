"""What an earlier run left, read back: the document that it wrote, as a whole or in lines, or the journal of it."""

from __future__ import annotations

from pathlib import Path

from attncheck.engine import journal
from attncheck.reports import ndjson
from attncheck.reports.document import Report, Unreadable, read, report


def earlier(path: Path) -> Report:
    """The run that a JSON report, an NDJSON report or a journal tells of. Raises Unreadable."""
    first = _first_line(path)
    if b'"journal"' not in first:
        return ndjson.read(path) if b'"line":"head"' in first else read(path)
    try:
        return report(journal.read(path))
    except journal.JournalError as wrong:
        raise Unreadable(str(wrong)) from None


def _first_line(path: Path) -> bytes:
    """How the file begins; nothing of one that cannot be read, which is for `read` to name."""
    try:
        with path.open("rb") as file:
            return file.readline(4096)
    except OSError:
        return b""
