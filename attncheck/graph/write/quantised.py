"""Past keys and values of GroupQueryAttention as integers, and the scales that belong to them.

Scales leave a little room above the largest number that is held, so that nothing is cut off.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.write import parts
from attncheck.graph.write.parts import Array, Inputs
from attncheck.scenario.model import Scenario
from attncheck.tensors import dtypes

CACHES = {"int8": "int8", "int4": "int4x2"}
"""The dtype of each `kv_cache`."""
ROOM = 1.01


def attributes(scenario: Scenario) -> dict[str, Any]:
    """What the node says of its buffers."""
    if scenario.kv_cache is None:
        return {}
    kind = {"tensor": "PER_TENSOR", "channel": "PER_CHANNEL"}[scenario.kv_scales]
    bits = int(scenario.kv_cache.removeprefix("int"))
    return {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}


def scales(scenario: Scenario) -> Inputs:
    """k_scale and v_scale, float32: [1], or [1, kv_heads, 1, head_dim]."""
    if scenario.kv_cache is None:
        return [("k_scale", None), ("v_scale", None)]
    return [("k_scale", _scale(scenario, "k")), ("v_scale", _scale(scenario, "v"))]


def buffer(scenario: Scenario, tensor: str, rows: NDArray[np.float64]) -> Array:
    """Past rows [batch, kv_heads, slots, head_dim] as the graph holds them; poison is the largest integer."""
    if scenario.kv_cache is None:
        return parts.buffer(rows, scenario.dtype)
    return dtypes.narrow(rows / _scale(scenario, tensor).astype(np.float64), CACHES[scenario.kv_cache])


def _scale(scenario: Scenario, tensor: str) -> NDArray[np.float32]:
    past, new = max(scenario.past_len), max(scenario.q_len)
    first = np.full(scenario.batch, -past)
    size = np.abs(parts.past_rows(scenario, tensor, scenario.kv_heads, first, past + new))
    axes = (0, 1, 2, 3) if scenario.kv_scales == "tensor" else (0, 2)
    largest = np.max(size, axis=axes, keepdims=True, initial=2.0**-10)
    if tensor == "k" and scenario.qk_norm is not None:
        largest = np.full_like(largest, 1.5 * math.sqrt(scenario.head_dim))
    if tensor == "k" and scenario.rotary is not None:
        # A pair that turns may gather in one of its elements.
        largest = np.full_like(largest, math.sqrt(2.0) * largest.max())
    assert scenario.kv_cache is not None
    scale = np.asarray(ROOM * largest / dtypes.dtype(CACHES[scenario.kv_cache]).largest, np.float32)
    return scale.reshape(1) if scenario.kv_scales == "tensor" else scale
