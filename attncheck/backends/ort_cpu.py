"""ONNX Runtime's CPU provider: the reference.

Its refusals are declared here, each with its condition and reason, as ONNX Runtime 1.32 has them; any other refusal is
an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attncheck.backends.base import BackendUnavailable, Compute, Evidence, Hello, Launch, Request
from attncheck.graph.case import Case
from attncheck.problem import Problem

PROVIDER = "CPUExecutionProvider"
OLDEST = (1, 20)
"""The oldest ONNX Runtime whose GroupQueryAttention has every attribute that the shipped scenarios use (softcap)."""

GQA = "com.microsoft.GroupQueryAttention"

REFUSALS: tuple[tuple[Callable[[Problem], bool], str], ...] = (
    (
        lambda problem: problem.op == GQA and problem.head_dim % 8 != 0,
        "GroupQueryAttention on CPU takes only a head_dim that is a multiple of 8",
    ),
    (
        lambda problem: problem.rotary is not None and (problem.head_dim % 16 != 0 or problem.rotary.dim % 16 != 0),
        "rotary GroupQueryAttention on CPU takes only a head_dim and a rotary_dim that are multiples of 16",
    ),
    (
        lambda problem: problem.op == GQA and problem.batch > 1 and problem.rows > 1 and max(problem.past_len) > 0,
        "GroupQueryAttention on CPU takes q_len > 1 with a past only for batch 1",
    ),
)


class OrtCpu:
    """ONNX Runtime's CPU provider as a backend; computes float16 inputs in float32 and stores float16."""

    name = "ort-cpu"
    compute: Compute = "f32"

    def launch(self) -> Launch:
        """An ONNX Runtime worker on the CPU provider."""
        return Launch("ort", {"provider": PROVIDER})

    def check(self, hello: Hello) -> None:
        """Raise BackendUnavailable when the ONNX Runtime found is older than `OLDEST`."""
        version = hello.versions["onnxruntime"]
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise BackendUnavailable(
                f"ONNX Runtime {version} is too old for {self.name}: {oldest} or newer is needed "
                f"(pip install 'onnxruntime>={oldest}')"
            )

    def unsupported(self, case: Case, problem: Problem, hello: Hello) -> str | None:
        """The first declared refusal that fits, or None."""
        return next((reason for refuses, reason in REFUSALS if refuses(problem)), None)

    def requests(self, case: Case, problem: Problem, hello: Hello) -> Sequence[Request]:
        """One run of the model."""
        return (Request("", {"model": case.model}),)

    def fallback(self, evidence: Evidence) -> str | None:
        """Kernel events of any other provider than the CPU's."""
        if evidence.provider == PROVIDER:
            return None
        return f"asked for {PROVIDER}, but ONNX Runtime's profiler says that {evidence.provider or 'nothing'} ran"
