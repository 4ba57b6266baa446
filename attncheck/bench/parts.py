"""What of a plan is attention, and what only moves rows of the cache into place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOVING = ("append", "gather", "scatter", "evict")
"""Shaders that store rows."""

CACHE = ("[present ", "[gathered past ")
"""What the names of a plan's own buffers for the cache begin with."""


def apart(plan: Mapping[str, Any], output: str) -> list[bool]:
    """For each dispatch of a plan whether it is timed apart, as ONNX Runtime's copies of the cache are.

    output  the graph's output of attention: other outputs that rows are stored in are the cache. What is stored for a
            kernel alone, the query in float32 say, is a part of the attention
    """
    given_out = {it["name"] for it in plan["buffers"] if it["output"] is not None and it["output"] != output}
    return [
        it["shader"] in MOVING and any(name in given_out or name.startswith(CACHE) for name in it["bindings"])
        for it in plan["dispatches"]
    ]
