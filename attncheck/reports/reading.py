"""What an earlier run left, read back: the document that it wrote, or the journal of it."""

from __future__ import annotations

from pathlib import Path

from attncheck.engine import journal
from attncheck.reports.document import Report, Unreadable, read, report


def earlier(path: Path) -> Report:
    """The run that a JSON report or a journal tells of. Raises Unreadable."""
    if not _is_journal(path):
        return read(path)
    try:
        return report(journal.read(path))
    except journal.JournalError as wrong:
        raise Unreadable(str(wrong)) from None


def _is_journal(path: Path) -> bool:
    """Whether the first line says so; a file that cannot be read is for `read` to name."""
    try:
        with path.open("rb") as file:
            return b'"journal"' in file.readline(4096)
    except OSError:
        return False
