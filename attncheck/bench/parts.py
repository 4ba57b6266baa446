"""What of a plan is attention, and what only moves rows of the cache into place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOVING = ("append", "rotary", "gather", "scatter", "evict")
"""Shaders that store rows."""

STAGED = ("[staged query]", "[normed query]", "[normed key]")
"""What they may store for the kernels alone: that is a part of the attention."""


def apart(dispatches: Sequence[Mapping[str, Any]]) -> list[bool]:
    """For each dispatch of a plan whether it is timed apart, as ONNX Runtime's copies of the cache are."""
    return [it["shader"] in MOVING and it["bindings"][-1] not in STAGED for it in dispatches]
