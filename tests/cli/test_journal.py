"""--journal, --resume and --shuffle, in real runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCENARIOS = """\
defaults: {op: gqa, heads: 2, kv_heads: 1, head_dim: 8, q_len: 3}
scenarios:
  - name: many
    matrix: {seed: [%s]}
"""


def attncheck(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "attncheck", "run", "--backend", "ort-cpu", "--reference", "none", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "many.yaml").write_text(SCENARIOS % ", ".join(map(str, range(12))))
    return tmp_path


def rows(output: str) -> list[str]:
    return [line.split()[0] for line in output.splitlines() if line.startswith("  many:")]


def test_a_journal_can_be_gone_on_from_where_it_was_cut(folder: Path) -> None:
    whole = attncheck("many.yaml", "--journal", "run.ndjson", cwd=folder)
    assert whole.returncode == 0, whole.stderr
    lines = (folder / "run.ndjson").read_bytes().splitlines(keepends=True)
    (folder / "run.ndjson").write_bytes(b"".join(lines[:8]) + lines[8][:30])
    again = attncheck("many.yaml", "--resume", "run.ndjson", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert rows(again.stdout) == rows(whole.stdout)
    told = [line for line in (folder / "run.ndjson").read_text().splitlines() if '"CaseFinished"' in line]
    assert len(told) == 12


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_what_was_judged_before_a_kill_is_in_the_journal(folder: Path) -> None:
    (folder / "many.yaml").write_text(SCENARIOS % ", ".join(map(str, range(150))))
    command = [sys.executable, "-m", "attncheck", "run", "many.yaml", "--backend", "ort-cpu", "--reference", "none"]
    journal = folder / "run.ndjson"
    process = subprocess.Popen([*command, "--journal", str(journal)], cwd=folder, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not (journal.exists() and journal.read_bytes().count(b"CaseFinished") > 20):
        assert time.monotonic() < deadline, "no case was written down"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = journal.read_bytes().count(b"CaseFinished")
    again = attncheck("many.yaml", "--resume", str(journal), cwd=folder)
    assert again.returncode == 0, again.stderr
    assert before > 20
    assert "150 passed" in again.stdout


@pytest.mark.slow
def test_a_journal_of_other_settings_is_not_gone_on_from(folder: Path) -> None:
    attncheck("many.yaml", "--journal", "run.ndjson", cwd=folder)
    refused = attncheck("many.yaml", "--resume", "run.ndjson", "--threshold", "7", cwd=folder)
    assert refused.returncode == 2
    assert "cannot resume: threshold was the shipped ones, is 7 keys" in refused.stderr


@pytest.mark.slow
def test_a_journal_that_is_there_is_not_written_over(folder: Path) -> None:
    attncheck("many.yaml", "--journal", "run.ndjson", cwd=folder)
    before = (folder / "run.ndjson").read_bytes()
    refused = attncheck("many.yaml", "--journal", "run.ndjson", cwd=folder)
    assert refused.returncode == 2
    assert "is there already: go on from it with --resume" in refused.stderr
    attncheck("many.yaml", "--resume", "run.ndjson", "--backend", "nosuch", cwd=folder)
    assert (folder / "run.ndjson").read_bytes() == before


@pytest.mark.slow
def test_results_of_changed_code_are_not_gone_on_from(folder: Path) -> None:
    """A pass of yesterday's kernel says nothing of today's."""
    kernel = folder / "kernel.py"
    kernel.write_text("def mine(model, inputs):\n    return {}\n")
    command = [sys.executable, "-m", "attncheck", "run", "many.yaml", "--backend", "kernel.py:mine"]
    first = subprocess.run([*command, "--journal", "run.ndjson"], cwd=folder, capture_output=True, check=False)
    assert first.returncode == 1
    kernel.write_text("def mine(model, inputs):\n    raise RuntimeError('changed')\n")
    again = subprocess.run(
        [*command, "--resume", "run.ndjson"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert again.returncode == 2
    assert "cannot resume: what kernel.py:mine runs was" in again.stderr


def test_a_full_disk_ends_the_journal_and_not_the_run(folder: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs a device that is always full")
    refused = attncheck("many.yaml", "--journal", "/dev/full", cwd=folder)
    assert refused.returncode == 2
    assert "No space left on device" in refused.stderr


@pytest.mark.slow
def test_a_shuffled_run_tells_how_to_get_its_order_again(folder: Path) -> None:
    first = attncheck("many.yaml", "--shuffle", cwd=folder)
    (seed,) = [line.split()[-1] for line in first.stderr.splitlines() if "--shuffle-seed" in line]
    again = attncheck("many.yaml", "--shuffle-seed", seed, cwd=folder)
    assert rows(first.stdout) == rows(again.stdout)
    assert sorted(rows(first.stdout)) == sorted(rows(attncheck("many.yaml", cwd=folder).stdout))
    assert rows(first.stdout) != rows(attncheck("many.yaml", cwd=folder).stdout)
