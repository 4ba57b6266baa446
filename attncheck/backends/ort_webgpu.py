"""ONNX Runtime's WebGPU provider: built into the package onnxruntime-webgpu, or from the plugin onnxruntime-ep-webgpu.

What ran is told by the profiler, node by node; ONNX Runtime may not fall back to its CPU provider, and where its Python
layer would, that is the verdict `fallback`.
"""

from __future__ import annotations

from collections.abc import Mapping

from attncheck.backends.base import Compute
from attncheck.backends.ort import Ort
from attncheck.backends.refusals import Refusal

PROVIDER = "WebGpuExecutionProvider"
PLUGIN = "onnxruntime_ep_webgpu"

REFUSALS: tuple[Refusal, ...] = ()


class OrtWebgpu(Ort):
    """ONNX Runtime's WebGPU provider as a backend; float16 is computed as float16."""

    compute: Compute = "native"
    refusals = REFUSALS

    def __init__(self, plugin: str | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__("ort-webgpu", PROVIDER, plugin or PLUGIN, options)
