"""WebGPU through Dawn, whose shader compiler is Tint, as a worker's runtime: webgpu.py on wgpudawn in wgpu's place."""

from __future__ import annotations

from typing import Any, Dict

from failure import Failure

try:
    import wgpudawn
except ImportError as error:
    raise Failure("error", "the package wgpudawn is not installed (pip install 'attncheck[dawn]')") from error

wgpudawn.install_as_wgpu()  # before webgpu.py imports wgpu

import webgpu  # noqa: E402
from wgpudawn.backends.dawn import extras  # noqa: E402

TOGGLES = ("vulkan_enable_f16_on_nvidia",)
"""Dawn withholds f16 on NVIDIA's Vulkan driver for corners of its conformance suite; here every result is judged."""

DISABLED = ("timestamp_quantization",)
"""Dawn rounds timestamps to 65.5 us, lest a web page spies by them: longer than many kernels take."""


def start(options: Dict[str, Any]) -> webgpu.Runtime:
    """As webgpu.start."""
    extras.set_instance_extras(backends=["Primary"], enable_toggles=TOGGLES, disable_toggles=DISABLED)
    runtime = webgpu.start(options)
    runtime.hello["versions"] = {"wgpudawn": wgpudawn.__version__, "numpy": runtime.hello["versions"]["numpy"]}
    return runtime
