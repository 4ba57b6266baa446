"""What benchmarks/ measures is measured rightly; and the one budget that does not depend on the machine is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import budgets

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="memory is read from /proc")


@needs_proc
def test_memory_is_that_of_a_process_and_of_its_children() -> None:
    held = 64
    child = f"x = bytearray({held} << 20); print(flush=True); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()

    measured = budgets.tree_memory_mb(process.pid)

    process.communicate(b"\n", timeout=10)
    assert measured is not None
    assert held * 1.048 < measured < held * 1.048 + 100


def test_a_command_that_fails_gives_no_figures() -> None:
    with pytest.raises(budgets.RunFailed, match="exited with 2"):
        budgets.measure(("run", "--no-such-option"))


@pytest.mark.slow
def test_no_pipeline_is_compiled_twice_for_one_specialisation(tmp_path: Path) -> None:
    compiled, distinct = budgets.pipelines({}, tmp_path)
    assert distinct > 0
    assert compiled == distinct
