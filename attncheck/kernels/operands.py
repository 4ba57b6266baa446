"""What every kernel of attention works on."""

from __future__ import annotations

from dataclasses import dataclass

from attncheck.kernels.bias import Bias, Sinks
from attncheck.kernels.draft import View


@dataclass(frozen=True)
class Operands:
    """Buffers that are there when a kernel begins.

    visible     int32 [batch, rows, 4], see `visible_rows`
    query       [batch, heads, rows, head_dim] in float32, turned and normalised
    key, value  [batch, kv_heads, capacity, head_dim or v_head_dim] in the dtype of the problem: all slots
    """

    visible: str
    query: View
    key: View
    value: View
    bias: Bias
    sinks: Sinks
