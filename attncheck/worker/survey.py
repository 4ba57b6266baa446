"""A worker's runtime that runs nothing: it greets with every adapter that wgpu finds, for `attncheck doctor`.

In a process of its own because a driver may crash while it is asked.
"""

from __future__ import annotations

from typing import Any, Dict

import adapters
import wgpu


class Survey:
    """What was found; takes no requests."""

    def __init__(self) -> None:
        self.hello = {"versions": {"wgpu": wgpu.__version__}, "device": {"adapters": adapters.list_adapters()}}


def start(options: Dict[str, Any]) -> Survey:  # noqa: ARG001  every runtime starts so
    """Look for adapters."""
    return Survey()
