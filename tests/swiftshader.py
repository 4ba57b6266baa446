"""SwiftShader, a software Vulkan that ONNX Runtime's WebGPU provider and Dawn take, unlike Debian 12's llvmpipe."""

from __future__ import annotations

from pathlib import Path

ICD = Path("/usr/lib/chromium/vk_swiftshader_icd.json")
"""Where Debian's package chromium-common puts it."""


def environment() -> dict[str, str]:
    """What a worker needs to find SwiftShader and no other Vulkan. Fails where it is not installed: a skip hides."""
    assert ICD.is_file(), f"{ICD} is missing: tools/setup.sh --swiftshader installs it (or install chromium-common)"
    return {"VK_DRIVER_FILES": str(ICD)}
