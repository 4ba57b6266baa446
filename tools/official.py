"""What docs/conformance.md says: how many of the official tests each backend passes, and why it leaves out the others.

A backend leaves out what its own file declares; that it passes everything else, tests/cli/test_conformance.py runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache

import onnx
import onnxruntime

from attncheck.backends.base import Hello
from attncheck.backends.onnx_ref import OnnxRef
from attncheck.backends.ort_cpu import OrtCpu
from attncheck.graph import read
from attncheck.graph.case import Case
from attncheck.graph.vectors import vectors
from attncheck.kernels import planner
from attncheck.kernels.draft import Limits
from attncheck.problem import AnyProblem

FEW = 3
"""So many tests are named where one reason leaves them out; of more it is told how many there are."""
ADAPTER = Limits(binding_bytes=2**27, workgroups=2**16 - 1, f16=True, software=False)
"""What WebGPU promises of every adapter, and f16."""


@cache
def _posed() -> tuple[tuple[Case, AnyProblem], ...]:
    return tuple((case, read.any_problem(case.model, case.inputs)) for case in vectors())


def _reasons(refusal: Callable[[Case, AnyProblem], str | None]) -> dict[str, list[str]]:
    """Why tests are left out, and which."""
    found: dict[str, list[str]] = {}
    for case, problem in _posed():
        reason = refusal(case, problem)
        if reason is not None:
            found.setdefault(reason, []).append(case.id.rpartition("::")[2])
    return found


def _told(reasons: dict[str, list[str]]) -> Iterator[str]:
    for reason, names in reasons.items():
        which = ", ".join(f"`{name}`" for name in names) if len(names) <= FEW else f"{len(names)} tests"
        yield f"{which}: {reason}"


def _backends() -> Iterator[tuple[str, Callable[[Case, AnyProblem], str | None]]]:
    """The name of each row, and what its backend declares."""
    ort_cpu, onnx_ref = OrtCpu(), OnnxRef()
    hello = Hello({"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__})
    yield "`wgsl`, `wgsl-dawn`", lambda _, problem: planner.refusal(problem, ADAPTER)
    yield f"`ort-cpu` {onnxruntime.__version__}", lambda case, problem: ort_cpu.unsupported(case, problem, hello)
    yield "`onnx-ref`", lambda case, problem: onnx_ref.unsupported(case, problem, hello)


def table() -> str:
    """How many tests there are of each operator, and a row for each backend."""
    counts = Counter(case.node.op_type for case, _ in _posed())
    tests = [f"{count} of `{op}`" for op, count in sorted(counts.items())]
    rows = ["| backend | pass | unsupported | why |", "| --- | --- | --- | --- |"]
    for name, refusal in _backends():
        reasons = _reasons(refusal)
        left_out = sum(map(len, reasons.values()))
        rows.append(f"| {name} | {len(_posed()) - left_out} | {left_out} | {'; '.join(_told(reasons))} |")
    head = f"Of the tests of onnx {onnx.__version__}, {', '.join(tests[:-1])} and {tests[-1]}:"
    return "\n".join([head, "", *rows])
