"""What a backend's worker says of itself, in lines."""

from __future__ import annotations

from attncheck.backends.base import Hello
from attncheck.reports.lines import Line, Span

SHOWN = ("adapter", "backend", "type", "driver", "software", "subgroup_size")
"""Keys of a worker's `device` that a verbose run prints; `attncheck doctor` prints all."""


def facts(backend: str, hello: Hello) -> list[Line]:
    """One line a backend: its versions and, for a GPU, adapter and driver."""
    versions = ", ".join(f"{name} {version}" for name, version in hello.versions.items())
    device = [str(hello.device[key]) for key in SHOWN if hello.device.get(key)]
    return [Line((Span(f"{backend}: ", "heading"), Span("; ".join(filter(None, [versions, *device])))))]
