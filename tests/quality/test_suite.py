"""The shipped suite as a whole, in real runs of the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_order_and_repetition_change_nothing() -> None:
    """A second case in one process must not inherit the first one's compiled kernel, nor its buffers."""
    command = [sys.executable, "-m", "attncheck", "run", "scenarios/", "--quiet"]
    strict = ["--repeat", "2", "--fail-on", "flaky", "--fail-on", "not-bitwise", "--fail-on", "vacuous"]
    for seed in ("1", "2"):
        done = subprocess.run(
            [*command, "--shuffle-seed", seed, *strict], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
