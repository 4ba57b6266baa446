"""Writes ai.onnx Attention 23, 24 and 25.

Without `capacity` the cache is the operator's: past and new rows become present. With it K and V are the whole cache of
a caller, [batch, capacity] rows of which nonpad_kv_seqlen [batch] say how many hold something; there is no present.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from attncheck.graph.case import Output
from attncheck.graph.model import single_node_model
from attncheck.graph.write import over_scores, parts
from attncheck.graph.write.parts import Array, Inputs, Parts
from attncheck.problem import ScoreStage
from attncheck.scenario.model import Precision, Scenario
from attncheck.tensors import dtypes, poison

STAGES: dict[ScoreStage, int] = {"raw": 0, "capped": 1, "biased": 2, "weights": 3}
"""qk_matmul_output_mode of each stage of the scores."""
PRECISIONS: dict[Precision, int] = {
    "float32": int(TensorProto.FLOAT),
    "float16": int(TensorProto.FLOAT16),
    "bfloat16": int(TensorProto.BFLOAT16),
    "double": int(TensorProto.DOUBLE),
}
"""softmax_precision: the number of each element type."""


def write(scenario: Scenario) -> Parts:
    """One Attention node of the scenario's opset."""
    slots = _slots(scenario)
    inputs: Inputs = [
        ("Q", _laid_out(scenario, parts.new_rows(scenario, "q", scenario.heads))),
        *(_cache(scenario) if scenario.capacity is not None else _new_rows(scenario)),
        ("attn_mask", _mask(scenario, slots if scenario.mask_len is None else scenario.mask_len)),
        *_past(scenario),
        ("nonpad_kv_seqlen", np.array(scenario.kv_len, np.int64) if scenario.capacity is not None else None),
    ]
    outputs = _outputs(scenario, slots)
    model = single_node_model("Attention", inputs, outputs, _attributes(scenario), scenario.opset)
    return Parts(model, parts.given(inputs), parts.asked(outputs))


def _slots(scenario: Scenario) -> int:
    if scenario.capacity is not None:
        return scenario.capacity
    return max(scenario.past_len) + parts.new_count(scenario)


def _laid_out(scenario: Scenario, rows: np.ndarray[Any, np.dtype[np.float64]]) -> Array:
    """[batch, heads, rows, dim] as the layout wants it."""
    make = parts.buffer if scenario.layout == "bnsh" else parts.packed
    return make(rows, scenario.dtype)


def _new_rows(scenario: Scenario) -> Inputs:
    return [
        (name, _laid_out(scenario, parts.new_rows(scenario, tensor, scenario.kv_heads)))
        for name, tensor in (("K", "k"), ("V", "v"))
    ]


def _cache(scenario: Scenario) -> Inputs:
    """K and V as a caller keeps them. Slots behind the valid ones may be read and masked: V glares there, K is tame."""
    kv_len = np.array(scenario.kv_len)
    slots = np.arange(_slots(scenario))
    first = np.array(scenario.q_len) - kv_len
    key, value = (
        parts.past_rows(scenario, tensor, scenario.kv_heads, first, len(slots)) for tensor in ("k", "v")
    )
    seen = slots < kv_len[:, None]
    return [
        ("K", _laid_out(scenario, key)),
        ("V", _laid_out(scenario, poison.overwrite_hidden(value, seen))),
    ]


def _mask(scenario: Scenario, slots: int) -> Array | None:
    if scenario.mask is not None:
        return over_scores.kept(scenario, slots)
    return over_scores.bias(scenario, slots)


def _past(scenario: Scenario) -> Inputs:
    length = max(scenario.past_len)
    if scenario.capacity is not None or (length == 0 and scenario.past == "auto"):
        return [("past_key", None), ("past_value", None)]
    first = np.full(scenario.batch, -length)
    return [
        (name, dtypes.narrow(parts.past_rows(scenario, tensor, scenario.kv_heads, first, length), scenario.dtype))
        for name, tensor in (("past_key", "k"), ("past_value", "v"))
    ]


def _outputs(scenario: Scenario, slots: int) -> tuple[Output | None, ...]:
    batch, heads, rows, dim = scenario.batch, scenario.heads, max(scenario.q_len), scenario.v_head_dim
    whole = (batch, heads, rows, dim) if scenario.layout == "bnsh" else (batch, rows, heads * dim)
    present = (batch, scenario.kv_heads, slots)
    asked = scenario.present and scenario.capacity is None
    return (
        Output("Y", scenario.dtype, whole),
        Output("present_key", scenario.dtype, (*present, scenario.head_dim)) if asked else None,
        Output("present_value", scenario.dtype, (*present, dim)) if asked else None,
        Output("qk_matmul_output", scenario.dtype, (batch, heads, rows, slots)) if scenario.scores else None,
    )


def _attributes(scenario: Scenario) -> dict[str, Any]:
    """Only attributes that differ from the operator's defaults."""
    attributes: dict[str, Any] = {}
    if scenario.layout == "bsnh":
        attributes |= {"q_num_heads": scenario.heads, "kv_num_heads": scenario.kv_heads}
    if scenario.causal:
        attributes["is_causal"] = 1
    if scenario.scale is not None:
        attributes["scale"] = scenario.scale
    if scenario.softmax_precision is not None:
        attributes["softmax_precision"] = PRECISIONS[scenario.softmax_precision]
    if scenario.softcap:
        attributes["softcap"] = scenario.softcap
    attributes |= _windows(scenario)
    if scenario.scores is not None and STAGES[scenario.scores]:
        attributes["qk_matmul_output_mode"] = STAGES[scenario.scores]
    return attributes


def _windows(scenario: Scenario) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    if scenario.window is not None:
        attributes["left_window_size"] = scenario.window - 1
    if scenario.window_right is not None:
        attributes["right_window_size"] = scenario.window_right
    return attributes
