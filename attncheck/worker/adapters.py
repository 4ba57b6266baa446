"""GPU adapters as wgpu finds them: listed, chosen, opened."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import wgpu
from failure import Failure

INSTALL = (
    "no Vulkan, Metal or D3D12 adapter was found; on Debian or Ubuntu `apt-get install mesa-vulkan-drivers` "
    "gives a software one, elsewhere install the GPU's driver"
)
INSTALL_FOR_DAWN = (
    "Dawn takes none of the adapters here, if there are any: it refuses the llvmpipe of Mesa 22.3 (Debian 12), on "
    "which the backend wgsl runs. A GPU's own driver serves, and so does SwiftShader: on Debian or Ubuntu `apt-get "
    "install chromium-common`, then set VK_DRIVER_FILES=/usr/lib/chromium/vk_swiftshader_icd.json"
)
FEATURES = ("shader-f16", "subgroup", "subgroups", "timestamp-query")
"""Enabled where the adapter offers them; wgpu calls subgroups by the first name, Dawn by the second."""

LIMITS = (
    "max-storage-buffer-binding-size",
    "max-buffer-size",
    "max-compute-workgroup-storage-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
)
"""Raised to what the adapter offers; everything else stays at WebGPU's defaults, so that shaders stay portable. Those
of workgroups serve the larger forms of the fast kernels; a test holds every other shader to the defaults."""

_RANK = {"DiscreteGPU": 0, "IntegratedGPU": 1, "CPU": 3}

DAWN = hasattr(wgpu, "wgpu_py_version")
"""Whether `wgpu` is wgpudawn under that name (see dawn.py)."""

if not DAWN:  # it has no OpenGL, and after its own set_instance_extras a request for a device is never answered
    from wgpu.backends.wgpu_native.extras import set_instance_extras

    # OpenGL counts as secondary: its adapter lacks f16 and fails on these shaders, and opening it takes time.
    set_instance_extras(backends=["Primary"])


def describe(adapter: Any) -> Dict[str, Any]:
    """What reports say of an adapter."""
    info = adapter.info
    return {
        "adapter": info["device"],
        "driver": info["description"],
        "backend": info["backend_type"],
        "type": info["adapter_type"],
        "software": info["adapter_type"] == "CPU",
        "f16": "shader-f16" in adapter.features,
        "limits": dict(adapter.limits),
    }


def list_adapters() -> List[Dict[str, Any]]:
    """Every usable adapter, described, the default first."""
    return [describe(adapter) for adapter in _usable()]


def choose(wanted: Optional[str]) -> Any:
    """The first adapter whose name, driver or backend holds `wanted`, hardware before software."""
    adapters = _usable()
    if not adapters:
        raise Failure("error", INSTALL_FOR_DAWN if DAWN else INSTALL)
    for adapter in adapters:
        if wanted is None or wanted.lower() in _words(adapter).lower():
            return adapter
    found = "; ".join(_words(adapter) for adapter in adapters)
    raise Failure("error", "no adapter matches %r; there is %s" % (wanted, found))


def open_device(adapter: Any, more: Sequence[str] = ()) -> Any:
    """A device with f16 and subgroups where there are, `more` features, and the adapter's own limits."""
    features = [feature for feature in FEATURES if feature in adapter.features] + list(more)
    limits = {name: adapter.limits[name] for name in LIMITS}
    try:
        return adapter.request_device_sync(required_features=features, required_limits=limits)
    except RuntimeError as error:
        raise Failure("error", "the adapter %s gives no device: %s" % (_words(adapter), error)) from error


def _usable() -> List[Any]:
    adapters = wgpu.gpu.enumerate_adapters_sync()
    return sorted(adapters, key=lambda adapter: _RANK.get(adapter.info["adapter_type"], 2))


def _words(adapter: Any) -> str:
    info = adapter.info
    return "%s, %s (%s)" % (info["device"], info["description"], info["backend_type"])
