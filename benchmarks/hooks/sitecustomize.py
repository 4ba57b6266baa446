"""Notes the pipelines that a worker compiles. Python imports this at its start when its folder is on PYTHONPATH.

Each line of the file named by PIPELINE_LOG is one compilation: process id, and a digest of what was specialised. The
tool itself knows nothing of this, so what is counted is what really reached the device.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from typing import Any

_WORKER_RUNTIME = "webgpu"


def _note(log: str, specialisation: str) -> None:
    digest = hashlib.sha256(specialisation.encode()).hexdigest()
    with open(log, "a", encoding="ascii") as file:
        file.write(f"{os.getpid()} {digest}\n")


def _watch(device: Any, log: str) -> None:
    """Wrap the methods of the device class that make shader modules and compute pipelines."""
    texts: dict[int, tuple[Any, str]] = {}  # by id, with the module itself, so that no id is used twice
    make_module: Callable[..., Any] = device.create_shader_module
    make_pipeline: Callable[..., Any] = device.create_compute_pipeline

    def create_shader_module(self: Any, **options: Any) -> Any:
        module = make_module(self, **options)
        texts[id(module)] = (module, options["code"])
        return module

    def create_compute_pipeline(self: Any, **options: Any) -> Any:
        stage = dict(options["compute"])
        _, text = texts[id(stage.pop("module"))]
        _note(log, f"{sorted(stage.items())}\n{text}")
        return make_pipeline(self, **options)

    device.create_shader_module = create_shader_module
    device.create_compute_pipeline = create_compute_pipeline


if "PIPELINE_LOG" in os.environ and _WORKER_RUNTIME in sys.orig_argv:
    from wgpu.backends.wgpu_native import GPUDevice

    _watch(GPUDevice, os.environ["PIPELINE_LOG"])
