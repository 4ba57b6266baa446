"""ONNX Runtime's CPU provider: the reference.

What it refuses is what ONNX Runtime refuses on every provider, declared in ort.py; any other refusal is an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from attncheck.backends.base import Compute
from attncheck.backends.ort import Ort

PROVIDER = "CPUExecutionProvider"


class OrtCpu(Ort):
    """ONNX Runtime's CPU provider as a backend; computes float16 inputs in float32 and stores float16."""

    compute: Compute = "f32"

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        super().__init__("ort-cpu", PROVIDER, options=options)
