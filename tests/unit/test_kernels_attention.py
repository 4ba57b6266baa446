"""The kernels on ai.onnx Attention: drawn cases, and the official node tests of the onnx package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from attncheck.backends.wgsl import limits
from attncheck.graph import read
from attncheck.graph.case import Case
from attncheck.kernels import planner
from attncheck.scenario.model import Scenario
from attncheck.tensors import dtypes
from tests.device import Work, compute, differences, every_kernel, failing, has_f16, hello, kernels_together, work
from tests.drawing import attention_scenarios
from tests.unit.test_graph_attention import ROUNDING, vectors


@kernels_together
@settings(max_examples=100)
@given(drawn=attention_scenarios(dtypes=("float32", "float16")))
def test_all_kernels_agree_with_the_oracle_on_attention(kernels: tuple[str, ...], drawn: Scenario) -> None:
    if drawn.dtype == "float16" and not has_f16():
        pytest.skip("the adapter has no f16")
    given_work = work(drawn)
    for kernel in kernels:
        assert not failing(differences(given_work, kernel))


@pytest.mark.slow
@every_kernel
def test_the_official_vectors(kernel: str) -> None:
    """All but those in bfloat16, which WebGPU has not; the list is what `conformance` must say."""
    wrong, unsupported = {}, []
    for name, vector in vectors().items():
        given_work = vector_work(vector)
        if reason := planner.refusal(given_work.problem, limits(hello())):
            unsupported.append((name, reason))
            continue
        if found := failing(differences(given_work, kernel)) or departures(vector, given_work, kernel):
            wrong[name] = found
    assert wrong == {}
    assert all(reason.startswith("dtype bfloat16") for _, reason in unsupported), unsupported
    assert len(vectors()) - len(unsupported) >= 88


def vector_work(vector: Case) -> Work:
    problem = read.problem(vector.model, vector.inputs)
    outputs: tuple[dict[str, Any], ...] = tuple(
        {"name": name, "dtype": str(array.dtype), "shape": array.shape} for name, array in vector.published.items()
    )
    return Work(problem, vector.inputs, outputs)


def departures(vector: Case, given_work: Work, kernel: str) -> list[str]:
    """Outputs that are far from the published ones, which are computed in the dtype itself."""
    problem, outputs = given_work.problem, compute(given_work, kernel)
    lowest = -dtypes.dtype(problem.dtype).largest / 2
    found = []
    for name, stored in vector.published.items():
        got, expected = (dtypes.widen(array, problem.dtype) for array in (outputs[name], stored))
        got, expected = (np.where(array <= lowest, -np.inf, array) for array in (got, expected))
        if not np.allclose(got, expected, rtol=0, atol=ROUNDING[problem.dtype]):
            found.append(name)
    return found
