"""The shipped suite and the official vectors on a real GPU: run by hand with `-m gpu`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.device import FAST_KERNELS, KERNELS

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[2]


def attncheck(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "attncheck", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_adapter_is_hardware() -> None:
    said = attncheck("doctor").stdout
    default = next(line for line in said.splitlines() if line.endswith("(default)"))
    assert "software" not in default


@pytest.mark.parametrize("kernel", ["auto", *KERNELS, *FAST_KERNELS])
@pytest.mark.parametrize("backend", ["wgsl", "wgsl-dawn"])
def test_own_kernels_pass_the_shipped_suite_on_both_compilers(backend: str, kernel: str) -> None:
    """What a kernel does not cover online computes; matrix, which wants Dawn, has its own test."""
    done = attncheck("run", "scenarios/", "--backend", backend, "--kernel", kernel, "--reference", "none", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr


def test_onnx_runtime_s_webgpu_provider_fails_where_expected_and_nowhere_else() -> None:
    done = attncheck("run", "scenarios/", "--backend", "ort-webgpu", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "xfailed" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("backend", ["wgsl", "wgsl-dawn"])
def test_own_kernels_pass_the_official_vectors(backend: str) -> None:
    done = attncheck("conformance", "onnx", "--backend", backend, "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
