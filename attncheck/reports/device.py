"""What a backend's worker says of itself, in lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attncheck.backends.base import Hello
from attncheck.reports.lines import Line, Span, columns
from attncheck.reports.numbers import size

LIMITS = (
    "max-compute-workgroup-storage-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroups-per-dimension",
    "max-storage-buffer-binding-size",
    "max-buffer-size",
)
"""The limits that attention kernels meet; an adapter has dozens more."""


def facts(backend: str, hello: Hello) -> list[Line]:
    """One line a backend: its versions and, for a GPU, adapter and driver."""
    return [Line((Span(f"{backend}: ", "heading"), Span(summary(hello))))]


def summary(hello: Hello) -> str:
    """Versions and, for a GPU, adapter and driver; for another backend the device or provider that it told."""
    device = hello.device
    where = str(device.get("provider", ""))
    if "adapter" in device:
        where = adapter(device) + (", software" if device.get("software") else "")
    return "; ".join(filter(None, (_versions(hello), where)))


def adapter(device: Mapping[str, Any]) -> str:
    """An adapter in one line: ``llvmpipe (LLVM 19.1.7, 256 bits), Mesa 25.0.7, Vulkan``."""
    return ", ".join(str(device[key]) for key in ("adapter", "driver", "backend") if device.get(key))


def details(hello: Hello) -> list[Line]:
    """Everything a report wants to say of a started backend, a line each."""
    device = hello.device
    told = {"versions": _versions(hello)}
    if "adapter" in device:
        told["adapter"] = adapter(device) + (" (software)" if device.get("software") else "")
        told["f16"] = "yes" if device.get("f16") else "no: float16 cases are unsupported here"
        told["subgroup"] = (
            f"{device['subgroup_size']} lanes, measured" if device.get("subgroup_size") else "not offered"
        )
    if "providers" in device:
        told["providers"] = ", ".join(device["providers"])
    return [*columns(told), *_limits(device.get("limits", {}))]


def _limits(limits: Mapping[str, int]) -> list[Line]:
    shown = {name: limits[name] for name in LIMITS if name in limits}
    return columns({name: size(value) if "size" in name else f"{value:,}" for name, value in shown.items()})


def _versions(hello: Hello) -> str:
    return ", ".join(f"{name} {version}" for name, version in hello.versions.items())
