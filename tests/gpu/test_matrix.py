"""The matrix kernel on matrix units: right at every edge of its tiles, and bitwise repeatable."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from attncheck import shipped
from attncheck.backends.registry import Settings, create
from attncheck.backends.wgsl import limits
from attncheck.engine.worker import Worker
from attncheck.kernels import bias, matrix, planner
from attncheck.problem import Arrays
from tests.device import Work, assert_same_bits
from tests.few_rows import CASES, HIDDEN, WINDOWED, with_nan, with_nan_before, wrongs
from tests.mask_rows import DRESSED
from tests.members import BATCHES, Batch

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0

every_width = pytest.mark.parametrize("dim", matrix.DIMS)


@pytest.fixture(scope="module")
def dawn() -> Iterator[Worker]:
    (backend,) = create("wgsl-dawn", Settings())
    worker = Worker.started(backend.launch())
    backend.check(worker.hello)
    yield worker
    worker.close()


def computed(worker: Worker, given: Work) -> Arrays:
    """The outputs of the matrix kernel, which covers the work."""
    within = limits(worker.hello)
    assert matrix.lacks(given.problem, within) is None
    plan = planner.plan(given.problem, "matrix", within, shipped.shaders_dir())
    handle = worker.prepare({"plan": asdict(plan), "outputs": given.outputs}, SECONDS)
    outputs: Arrays = worker.run(handle, given.inputs, SECONDS)["outputs"]
    worker.release(handle, SECONDS)
    return outputs


@every_width
@pytest.mark.parametrize("name", CASES)
def test_few_rows_against_slices_of_the_keys(name: str, dim: int, dawn: Worker) -> None:
    given = CASES[name](dim)
    assert not wrongs(given, computed(dawn, given))


@every_width
@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_mask_hides_from_all_rows_may_be_nan(name: str, dim: int, dawn: Worker) -> None:
    given, poisoned = with_nan(HIDDEN[name](dim))
    outputs = computed(dawn, given)
    assert not wrongs(given, outputs)
    assert np.array_equal(computed(dawn, poisoned)["output"], outputs["output"])


@every_width
@pytest.mark.parametrize("name", WINDOWED)
def test_what_lies_before_all_windows_may_be_nan(name: str, dim: int, dawn: Worker) -> None:
    given = WINDOWED[name](dim)
    outputs = computed(dawn, given)
    assert not wrongs(given, outputs)
    assert np.array_equal(computed(dawn, with_nan_before(given))["output"], outputs["output"])


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_a_member_has_the_same_bits_alone(batch: Batch, dawn: Worker) -> None:
    own = computed(dawn, batch.alone("float16"))["output"]
    assert_same_bits(computed(dawn, batch.together("float16"))["output"][:1, : batch.rows], own)


@pytest.mark.parametrize("dressed", [name for name in DRESSED if name != "turned"])
def test_masks_in_blocks_of_rows_have_the_bits_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, dressed: str, dawn: Worker
) -> None:
    given = DRESSED[dressed]("float16")
    whole = computed(dawn, given)["output"]
    monkeypatch.setattr(bias, "BLOCK_BYTES", 4)
    found = computed(dawn, given)
    assert not wrongs(given, found)
    assert_same_bits(found["output"], whole)


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
