"""How each runtime is driven in a script, by the name of its module in worker/: one file a runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attncheck.bundle.runtimes import functions, onnx_ref, ort, torch_sdpa, webgpu
from attncheck.bundle.subject import Piece, Subject

RUNTIMES: Mapping[str, Callable[[Subject], Piece]] = {
    "ort": ort.piece,
    "onnx_ref": onnx_ref.piece,
    "webgpu": webgpu.piece,
    "dawn": webgpu.piece,
    "callable": functions.piece,
    "torch_sdpa": torch_sdpa.piece,
}
