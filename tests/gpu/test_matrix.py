"""The matrix kernel on matrix units: right at every edge of its tiles, and bitwise repeatable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[2]


def attncheck(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "attncheck", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_test_of_matrix_units_passes() -> None:
    units = ROOT / "attncheck" / "worker" / "matrix_units.py"
    done = subprocess.run([sys.executable, str(units)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("files", ["scenarios/tiles.yaml", "scenarios/"])
def test_it_passes_what_it_covers_and_leaves_the_rest_to_online(files: str) -> None:
    done = attncheck("run", files, "--backend", "wgsl-dawn", "--kernel", "matrix", "--reference", "none")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wgsl-dawn matrix" in done.stdout
    assert "in its place: matrix does not cover" in done.stdout


def test_two_runs_have_the_same_bits() -> None:
    done = attncheck(
        *("run", "scenarios/tiles.yaml", "--backend", "wgsl-dawn", "--kernel", "matrix", "--reference", "none"),
        *("--repeat", "3", "--fail-on", "not-bitwise"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
