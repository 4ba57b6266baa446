"""Writes LinearAttention, of ai.onnx 27 and of com.microsoft: the same inputs under the same names.

Keys have length 1 where the update corrects what the state holds, as the text asks: longer ones make it grow and grow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.case import Output
from attncheck.graph.model import single_node_model
from attncheck.graph.write import parts
from attncheck.graph.write.parts import Array, Inputs, Parts
from attncheck.scenario.model import Scenario
from attncheck.tensors import modifiers

OPSET = 27


def write(scenario: Scenario) -> Parts:
    """One LinearAttention node with everything that `scenario` asks for."""
    gated, delta = scenario.update_rule.startswith("gated"), scenario.update_rule.endswith("delta")
    keys = parts.new_rows(scenario, "k", scenario.kv_heads)
    inputs: Inputs = [
        ("query", parts.packed(parts.new_rows(scenario, "q", scenario.heads), scenario.dtype)),
        ("key", parts.packed(_of_length_1(keys) if delta else keys, scenario.dtype)),
        ("value", parts.packed(parts.new_rows(scenario, "v", scenario.kv_heads), scenario.dtype)),
        ("past_state", _past_state(scenario)),
        ("decay", _decay(scenario) if gated else None),
        ("beta", _beta(scenario) if delta else None),
    ]
    rows, most = max(scenario.q_len), max(scenario.heads, scenario.kv_heads)
    outputs = (
        Output("output", scenario.dtype, (scenario.batch, rows, most * scenario.v_head_dim)),
        Output("present_state", scenario.dtype, _state_shape(scenario)),
    )
    opset = 0 if scenario.op == "ms-linear" else OPSET
    model = single_node_model("LinearAttention", inputs, outputs, _attributes(scenario), opset)
    return Parts(model, parts.given(inputs), outputs)


def _state_shape(scenario: Scenario) -> tuple[int, int, int, int]:
    return scenario.batch, scenario.kv_heads, scenario.head_dim, scenario.v_head_dim


def _of_length_1(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row over its length, which is rounded once: squares of generated values are summed exactly. 0 stays."""
    length = np.sqrt(np.sum(rows * rows, axis=-1, keepdims=True))
    return rows / np.where(length == 0.0, 1.0, length)


def _past_state(scenario: Scenario) -> Array | None:
    later = scenario.within is not None and scenario.within.number > 1
    if scenario.past_state == "absent" and not later:
        return None
    batch, heads, dim, v_dim = _state_shape(scenario)
    state = modifiers.rows(scenario.seed, "state", batch, heads, dim, v_dim)
    return parts.buffer(state if scenario.past_state == "given" else np.zeros_like(state), scenario.dtype)


def _decay(scenario: Scenario) -> Array:
    """Logarithms in (-1, 0], [batch, rows, kv_heads * (1 or head_dim)]."""
    dim = scenario.head_dim if scenario.decay == "by-dim" else 1
    swing = _of_tokens(scenario, "decay", scenario.kv_heads, dim)
    return parts.packed(-np.abs(swing) / 3.0, scenario.dtype)


def _beta(scenario: Scenario) -> Array:
    """Rates in [0, 1], [batch, rows, kv_heads or 1]."""
    heads = scenario.kv_heads if scenario.beta == "by-head" else 1
    return parts.packed(0.5 + _of_tokens(scenario, "beta", heads, 1) / 6.0, scenario.dtype)


def _of_tokens(scenario: Scenario, gate: str, heads: int, dim: int) -> NDArray[np.float64]:
    """What a gate is made of, for each new token: [batch, heads, rows, dim]."""
    (first,) = set(scenario.first)
    return modifiers.rows(scenario.seed, gate, scenario.batch, heads, max(scenario.q_len), dim, first)


def _attributes(scenario: Scenario) -> dict[str, Any]:
    """Only attributes that differ from the operator's defaults, and the heads, which are always asked for."""
    attributes: dict[str, Any] = {"q_num_heads": scenario.heads, "kv_num_heads": scenario.kv_heads}
    if scenario.update_rule != "gated-delta":
        attributes["update_rule"] = scenario.update_rule
    if scenario.scale is not None:
        attributes["scale"] = scenario.scale
    return attributes
