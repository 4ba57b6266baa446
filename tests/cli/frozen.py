"""Golden files: whole outputs, kept as text.

`UPDATE_GOLDEN=1 pytest tests/cli tests/unit/test_reports.py` writes them anew; read the difference before a commit.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"

MEASURED = (
    (re.compile(r" in (\d+m )?\d+(\.\d)?s$", re.MULTILINE), " in TIME"),
    (re.compile(r"\b\d\.\de-\d\b"), "#.#e-#"),
    (re.compile(r"(?<=\s)0\.\d{3}(?=\s)"), "#.###"),
)
"""What differs from one machine or moment to the next: durations, and rounding errors that stay within tolerance."""


@dataclass(frozen=True)
class Ran:
    """What a call of attncheck gave."""

    code: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """Exit code and both streams: what a golden file holds."""
        return f"exit code {self.code}\n--- stdout\n{self.stdout}--- stderr\n{self.stderr}"


def attncheck(
    *arguments: str,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    width: int = 80,
    timeout: float = 120.0,
) -> Ran:
    """Run attncheck in a process of its own, in `folder`, as a shell would; `timeout` in seconds."""
    changes = {"COLUMNS": str(width), "PYTHONPATH": str(ROOT), **(environment or {})}
    done = subprocess.run(
        [sys.executable, "-m", "attncheck", *arguments],
        cwd=folder,
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def settled(text: str, more: Iterable[tuple[re.Pattern[str], str]] = ()) -> str:
    """`text` with everything that is measured replaced."""
    for pattern, instead in (*MEASURED, *more):
        text = pattern.sub(instead, text)
    return text


def assert_golden(name: str, text: str) -> None:
    """Hold `text` against the golden file `name`."""
    path = GOLDEN / name
    assert not text.startswith("exit code 3"), f"attncheck's own fault is nothing to freeze:\n{text}"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"differs from tests/cli/golden/{name}"
