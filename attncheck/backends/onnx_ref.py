"""The ONNX reference evaluator, for models of ai.onnx operators alone."""

from __future__ import annotations

from collections.abc import Sequence

from attncheck.backends.base import BackendUnavailable, Evidence, Hello, Launch, Request
from attncheck.compare.arithmetic import Compute
from attncheck.graph.case import Case
from attncheck.problem import AnyProblem, RotaryProblem

PROVIDER = "onnx.reference"
STANDARD = frozenset({"", "ai.onnx"})


class OnnxRef:
    """ONNX's own evaluator in NumPy; float16 is computed as float16."""

    name = "onnx-ref"

    def arithmetic(self, problem: AnyProblem) -> Compute:
        """The dtype's own: NumPy computes float16 as float16."""
        return "native"

    def launch(self) -> Launch:
        """A worker with the reference evaluator."""
        return Launch("onnx_ref")

    def check(self, hello: Hello) -> None:
        """Raise BackendUnavailable for an onnx without the Attention operator (added in 1.18, opset 23)."""
        newest = int(hello.device["opset"])
        if newest < 23:
            raise BackendUnavailable(
                f"onnx {hello.versions['onnx']} knows opset {newest} at most; Attention came with opset 23 "
                "(pip install 'onnx>=1.18')"
            )

    def unsupported(self, case: Case, problem: AnyProblem, hello: Hello) -> str | None:
        """Operators that ONNX itself does not define, and graphs that it does not check."""
        if case.node.domain not in STANDARD:
            return f"ONNX's reference evaluator has no {case.node.domain}.{case.node.op_type}"
        if isinstance(problem, RotaryProblem) and problem.invalid:
            return f"ONNX's reference evaluator does not check positions and caches of rotary: {problem.invalid}"
        return None

    def requests(self, case: Case, problem: AnyProblem, hello: Hello) -> Sequence[Request]:
        """One evaluation of the model."""
        return (Request("", {"model": case.model}),)

    def fallback(self, evidence: Evidence) -> str | None:
        """There is nothing to fall back to."""
        return None
