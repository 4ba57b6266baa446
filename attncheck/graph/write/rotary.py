"""Writes RotaryEmbedding alone, of ai.onnx (23) and of com.microsoft.

The rows are those of queries; entry b's row i stands at position past_len[b] + i unless `positions` says otherwise.
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
from attncheck.tensors import data, modifiers

OPSET = 23

Positions = NDArray[np.int64]


def write(scenario: Scenario) -> Parts:
    """One node of ai.onnx RotaryEmbedding: position_ids, or caches that hold the angles of every token."""
    rows, positions = _rows(scenario), _positions(scenario)
    cos, sin = data.rotary_cache(_cache_rows(scenario, positions), scenario.rotary_dim)
    by_token = scenario.positions == "implicit"
    inputs: Inputs = [
        ("X", _laid_out(scenario, rows)),
        ("cos_cache", parts.buffer(cos[positions] if by_token else cos, scenario.dtype)),
        ("sin_cache", parts.buffer(sin[positions] if by_token else sin, scenario.dtype)),
        ("position_ids", None if by_token else positions),
    ]
    return _written(scenario, inputs, "Y", OPSET)


def write_microsoft(scenario: Scenario) -> Parts:
    """One node of com.microsoft RotaryEmbedding: position_ids, or the first position of all entries."""
    rows, positions = _rows(scenario), _positions(scenario)
    cos, sin = data.rotary_cache(scenario.rotary_cache, scenario.rotary_dim)
    inputs: Inputs = [
        ("input", _laid_out(scenario, rows)),
        ("position_ids", positions[0, :1] if scenario.positions == "implicit" else positions),
        ("cos_cache", parts.buffer(cos, scenario.dtype)),
        ("sin_cache", parts.buffer(sin, scenario.dtype)),
    ]
    return _written(scenario, inputs, "output", 0)


def _written(scenario: Scenario, inputs: Inputs, name: str, opset: int) -> Parts:
    _, rows = inputs[0]
    assert rows is not None
    outputs = (Output(name, scenario.dtype, rows.shape),)
    model = single_node_model("RotaryEmbedding", inputs, outputs, _attributes(scenario), opset)
    return Parts(model, parts.given(inputs), outputs)


def _rows(scenario: Scenario) -> NDArray[np.float64]:
    """[batch, heads, rows, head_dim], or all entries one behind the other in one."""
    rows = parts.new_rows(scenario, "q", scenario.heads)
    if not scenario.packed_batch:
        return rows
    return np.concatenate([entry[:, :count] for entry, count in zip(rows, scenario.q_len, strict=True)], axis=1)[None]


def _positions(scenario: Scenario) -> Positions:
    """int64 [batch, rows], or [1, rows] where one row is for all, or all entries stand in one."""
    counted = parts.positions(scenario)
    if scenario.positions == "scattered":
        tokens = np.array(scenario.first)[:, None] + np.arange(counted.shape[1])
        counted = modifiers.scattered(scenario.seed, tokens, scenario.rotary_cache)
    if scenario.positions == "one-row":
        counted = counted[:1]
    if scenario.packed_batch:
        counted = np.concatenate([entry[:count] for entry, count in zip(counted, scenario.q_len, strict=True)])[None]
    return np.asarray(counted, np.int64)


def _cache_rows(scenario: Scenario, positions: Positions) -> int:
    """As many as the scenario says; where nothing names rows of the caches, enough for every token."""
    return max(scenario.rotary_cache, int(positions.max()) + 1 if scenario.positions == "implicit" else 0)


def _laid_out(scenario: Scenario, rows: NDArray[np.float64]) -> Array:
    return (parts.buffer if scenario.layout == "bnsh" else parts.packed)(rows, scenario.dtype)


def _attributes(scenario: Scenario) -> dict[str, Any]:
    """Only attributes that differ from the defaults; com.microsoft wants num_heads with rotary_embedding_dim."""
    attributes: dict[str, Any] = {}
    partial = scenario.rotary_dim < scenario.head_dim
    if scenario.layout == "bsnh" or (partial and scenario.op == "ms-rotary"):
        attributes["num_heads"] = scenario.heads
    if partial:
        attributes["rotary_embedding_dim"] = scenario.rotary_dim
    if scenario.rotary == "interleaved":
        attributes["interleaved"] = 1
    if scenario.packed_batch:
        attributes["is_packed_batching"] = 1
    return attributes
