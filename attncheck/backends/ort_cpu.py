"""ONNX Runtime's CPU provider: the reference.

Its refusals are declared here, each with its condition, its reason and the versions that have it; any other refusal is
an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from attncheck.backends.base import Compute
from attncheck.backends.ort import GQA, Ort
from attncheck.backends.refusals import Refusal

PROVIDER = "CPUExecutionProvider"

REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        lambda _, problem: problem.op == GQA and problem.head_dim % 8 != 0,
        "GroupQueryAttention on CPU takes only a head_dim that is a multiple of 8",
    ),
    Refusal(
        lambda _, problem: problem.rotary is not None and (problem.head_dim % 16 != 0 or problem.rotary.dim % 16 != 0),
        "rotary GroupQueryAttention on CPU takes only a head_dim and a rotary_dim that are multiples of 16",
    ),
    Refusal(
        lambda _, problem: problem.op == GQA and problem.batch > 1 and problem.rows > 1 and max(problem.past_len) > 0,
        "GroupQueryAttention on CPU takes q_len > 1 with a past only for batch 1",
    ),
)


class OrtCpu(Ort):
    """ONNX Runtime's CPU provider as a backend; computes float16 inputs in float32 and stores float16."""

    compute: Compute = "f32"
    refusals = REFUSALS

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        super().__init__("ort-cpu", PROVIDER, options=options)
