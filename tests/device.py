"""The WebGPU worker's runtime in the tests' own process, and cases computed on it."""

from __future__ import annotations

import importlib
import sys
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import attncheck
from attncheck import shipped
from attncheck.backends.base import Hello
from attncheck.backends.wgsl import limits
from attncheck.compare import judge
from attncheck.compare.difference import Difference
from attncheck.graph import read, write
from attncheck.kernels import planner
from attncheck.kernels.draft import Limits
from attncheck.kernels.plan import Plan
from attncheck.kernels.roster import ROSTER
from attncheck.oracle.ask import answer
from attncheck.problem import Arrays, Problem
from attncheck.scenario.model import Scenario
from attncheck.tensors.dtypes import dtype

KERNELS = ("naive", "online")
"""The kernels that cover everything, with few pipelines."""

FAST_KERNELS = ("flash", "flash-large", "decode")
"""Those that are compiled for some sizes each, a second apiece on software: where they stand in for others is slow."""

every_kernel = pytest.mark.parametrize(
    "kernel", [*KERNELS, *(pytest.param(kernel, marks=pytest.mark.slow) for kernel in FAST_KERNELS)]
)
kernels_together = pytest.mark.parametrize(
    "kernels", [pytest.param(KERNELS, id="plain"), pytest.param(FAST_KERNELS, marks=pytest.mark.slow, id="fast")]
)


def shader_of(kernel: str) -> str:
    """The text that attends: forms of a kernel share one."""
    return kernel.removesuffix("-large")


def worker_module(name: str) -> Any:
    """A module of worker/, whose modules import each other by plain name."""
    folder = str(Path(attncheck.__file__).parent / "worker")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


@cache
def runtime() -> Any:
    """One device for all tests: pipelines are compiled once."""
    return worker_module("webgpu").start({"adapter": None})


def hello() -> Hello:
    """What that device says of itself."""
    return Hello(runtime().hello["versions"], runtime().hello["device"])


@dataclass(frozen=True)
class Work:
    """A problem of any kind with its inputs, and what the outputs must look like."""

    problem: Any = field(repr=False)
    inputs: Arrays = field(repr=False)
    outputs: tuple[dict[str, Any], ...]

    def with_problem(self, **changes: Any) -> Work:
        """The same inputs under another problem."""
        return replace(self, problem=replace(self.problem, **changes))


def work(scenario: Scenario) -> Work:
    """A scenario as every backend gets it."""
    case = write.build(scenario)
    outputs = tuple(asdict(output) for output in case.outputs)
    return Work(read.any_problem(case.model, case.inputs), case.inputs, outputs)


def plan(given: Work, kernel: str, shaders: Path | None = None, within: Limits | None = None) -> Plan:
    """The plan of `given`, by the device's limits or `within` others; of `online` where `kernel` does not cover it."""
    allowed = within or limits(hello())
    covers = not isinstance(given.problem, Problem) or ROSTER[kernel].lacks(given.problem, allowed) is None
    covering = kernel if covers else "online"
    return planner.plan(given.problem, covering, allowed, shaders or shipped.shaders_dir())


def compute(given: Work, kernel: str, shaders: Path | None = None, within: Limits | None = None) -> Arrays:
    """The outputs of `kernel` on the device. Raises the worker's Failure."""
    payload = {"plan": asdict(plan(given, kernel, shaders, within)), "outputs": given.outputs}
    outputs, _ = runtime().run(runtime().prepare(payload), given.inputs)
    found: Arrays = outputs
    return found


def differences(
    given: Work, kernel: str, shaders: Path | None = None, within: Limits | None = None
) -> tuple[Difference, ...]:
    """The outputs of `kernel` held against the oracle."""
    outputs = compute(given, kernel, shaders, within)
    return judge.differences(given.problem, answer(given.problem, given.inputs), outputs, "f32", kernel)


def failing(found: tuple[Difference, ...]) -> list[str]:
    """A line for each output that is not within its tolerance."""
    return [
        f"{each.subject} {each.role}: {each.failing} of {each.compared} fail, worst {each.place}: "
        f"got {each.got!r}, expected {each.expected!r}, margin {each.margin:.3g}"
        for each in found
        if not each.passed
    ]


def assert_same_bits(found: NDArray[Any], expected: NDArray[Any], what: str = "") -> None:
    """That two arrays are the same to the last bit, which numbers of one value need not be."""
    assert found.dtype == expected.dtype, what
    words = f"u{found.itemsize}"
    np.testing.assert_array_equal(
        np.ascontiguousarray(found).view(words), np.ascontiguousarray(expected).view(words), err_msg=what
    )


def has_f16() -> bool:
    """Whether the device computes float16."""
    return bool(runtime().hello["device"]["f16"])


def itemsize(name: str) -> int:
    """Bytes of an element of an ONNX dtype."""
    return int(dtype(name).storage.itemsize)
