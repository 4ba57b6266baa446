"""Ratios: within a case, and between a run and a former one."""

from __future__ import annotations

from collections.abc import Sequence

from attncheck.bench.events import Timing

NAIVE = "naive"
WEBGPU = "ort-webgpu"


def against(timing: Timing, anchor: Timing | None) -> float | None:
    """How many times as fast as `anchor` it is; None where either was not timed."""
    if anchor is None or not (timing.timed and anchor.timed):
        return None
    return anchor.summary.median / timing.summary.median


def naive_of(timing: Timing, timings: Sequence[Timing]) -> Timing | None:
    """The naive kernel on the same backend, or else the first there is; None for backends without own kernels."""
    naive = [it for it in timings if it.label.endswith(f" {NAIVE}")]
    return next((it for it in naive if it.backend == timing.backend), naive[0] if naive else None)


def webgpu_of(timings: Sequence[Timing]) -> Timing | None:
    """ONNX Runtime's WebGPU provider, whatever its version and its name here; the first that was timed."""
    return next((it for it in timings if it.use == WEBGPU and it.timed), None)
