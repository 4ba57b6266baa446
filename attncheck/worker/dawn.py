"""WebGPU through Dawn, whose shader compiler is Tint, as a worker's runtime: webgpu.py on wgpudawn in wgpu's place."""

from __future__ import annotations

from typing import Any, Dict

from failure import Failure

try:
    import wgpudawn
except ImportError as error:
    raise Failure("error", "the package wgpudawn is not installed (pip install 'attncheck[dawn]')") from error

wgpudawn.install_as_wgpu()  # before webgpu.py imports wgpu

import adapters  # noqa: E402
import matrix_units  # noqa: E402
import webgpu  # noqa: E402
from wgpudawn.backends.dawn import extras  # noqa: E402

TOGGLES = ("allow_unsafe_apis", "vulkan_enable_f16_on_nvidia")
"""Dawn calls subgroup matrices unsafe, being experimental, and withholds f16 on NVIDIA's Vulkan driver for corners of
its conformance suite; here every result is judged."""

DISABLED = ("timestamp_quantization",)
"""Dawn rounds timestamps to 65.5 us, lest a web page spies by them: longer than many kernels take."""


def begin(*, robust: bool) -> None:
    """Settle what Dawn is asked for; to be called once, before an adapter is looked for."""
    enabled = TOGGLES if robust else (*TOGGLES, "disable_robustness")
    extras.set_instance_extras(backends=["Primary"], enable_toggles=enabled, disable_toggles=DISABLED)


def start(options: Dict[str, Any]) -> webgpu.Runtime:
    """As webgpu.start; matrix units are opened where a process of their own finds them to be right.

    options may say {"robust": False}: Dawn then bounds no index.
    """
    begin(robust=options.get("robust", True))
    adapter = adapters.choose(options.get("adapter"))
    found = matrix_units.tested(adapter.features, options.get("adapter"))
    runtime = webgpu.Runtime(adapter, [matrix_units.FEATURE] if found["usable"] else [])
    runtime.hello["device"]["matrix"] = found
    runtime.hello["versions"] = {"wgpudawn": wgpudawn.__version__, "numpy": runtime.hello["versions"]["numpy"]}
    return runtime
