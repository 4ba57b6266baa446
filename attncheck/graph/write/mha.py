"""Writes com.microsoft MultiHeadAttention, the twin of a GQA case: each KV head stands once a query head of its group.

Right padding of ragged prompts is said with a key mask of lengths [batch]. A ragged past is padded on the left to one
length, said with a key mask [batch, kv_len]; the masked slots are read by the operator, so they hold finite numbers.
With a capacity past and present are one buffer, of which ``past_sequence_length`` slots are past.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.case import Output
from attncheck.graph.model import single_node_model
from attncheck.graph.write import over_scores, parts
from attncheck.graph.write.parts import Array, Inputs, Parts
from attncheck.scenario.model import Scenario
from attncheck.tensors import poison


def write(scenario: Scenario) -> Parts:
    """One MultiHeadAttention node; scale and causality as `scenario` says."""
    inputs: Inputs = [
        *_new_rows(scenario),
        ("bias", None),
        ("key_padding_mask", _key_mask(scenario)),
        ("attention_bias", over_scores.bias(scenario, max(scenario.past_len) + parts.new_count(scenario))),
        *_past(scenario),
        ("past_sequence_length", _past_length(scenario)),
    ]
    outputs = _outputs(scenario)
    model = single_node_model("MultiHeadAttention", inputs, outputs, _attributes(scenario))
    return Parts(model, parts.given(inputs), parts.asked(outputs))


def _new_rows(scenario: Scenario) -> Inputs:
    group = scenario.heads // scenario.kv_heads
    new_len = scenario.q_len if scenario.keys is None else scenario.keys
    seen = np.arange(max(new_len)) < np.array(new_len)[:, None]
    value = poison.overwrite_hidden(parts.new_rows(scenario, "v", scenario.kv_heads, group), seen)
    rows = {
        "query": parts.new_rows(scenario, "q", scenario.heads),
        "key": parts.new_rows(scenario, "k", scenario.kv_heads, group),
        "value": value,
    }
    return [(name, parts.packed(array, scenario.dtype)) for name, array in rows.items()]


def _past(scenario: Scenario) -> Inputs:
    length = max(scenario.past_len)
    slots = length if scenario.capacity is None else scenario.capacity
    if slots == 0 and scenario.past == "auto":
        return [("past_key", None), ("past_value", None)]
    group = scenario.heads // scenario.kv_heads
    first = np.full(scenario.batch, -length)
    key, value = (parts.past_rows(scenario, tensor, scenario.kv_heads, first, slots, group) for tensor in ("k", "v"))
    value[:, :, :length] = poison.overwrite_hidden(value[:, :, :length], ~_left_padding(scenario))
    read = np.broadcast_to(np.arange(slots) < length, (scenario.batch, slots))
    return [
        (name, parts.buffer(poison.blank_unread(rows, read), scenario.dtype))
        for name, rows in (("past_key", key), ("past_value", value))
    ]


def _past_length(scenario: Scenario) -> Array | None:
    """How much of a buffer that past and present share is past; None where they are buffers of their own."""
    shared = scenario.capacity is not None or scenario.past == "full"
    return np.array([max(scenario.past_len)], np.int32) if shared else None


def _present_slots(scenario: Scenario) -> int:
    if scenario.past == "full":
        return max(scenario.past_len)
    return scenario.capacity or max(scenario.past_len) + parts.new_count(scenario)


def _left_padding(scenario: Scenario) -> NDArray[np.bool_]:
    """[batch, max(past_len)]: the slots of the past buffer in front of an entry's own past."""
    length = max(scenario.past_len)
    return np.asarray(np.arange(length) < length - np.array(scenario.past_len)[:, None])


def _key_mask(scenario: Scenario) -> Array | None:
    if scenario.mask is not None:
        kept = over_scores.kept(scenario, max(scenario.past_len) + parts.new_count(scenario))
        return kept.astype(np.int32)
    if len(set(scenario.past_len)) > 1:
        new = np.ones((scenario.batch, max(scenario.q_len)), bool)
        return np.concatenate([~_left_padding(scenario), new], axis=1).astype(np.int32)
    if len(set(scenario.kv_len)) > 1:
        return np.array(scenario.kv_len, np.int32)
    return None


def _outputs(scenario: Scenario) -> tuple[Output | None, ...]:
    present = (scenario.batch, scenario.heads, _present_slots(scenario))
    merged = (scenario.batch, max(scenario.q_len), scenario.heads * scenario.value_dim)
    return (
        Output("output", scenario.dtype, merged),
        Output("present_key", scenario.dtype, (*present, scenario.head_dim)) if scenario.present else None,
        Output("present_value", scenario.dtype, (*present, scenario.value_dim)) if scenario.present else None,
    )


def _attributes(scenario: Scenario) -> dict[str, Any]:
    attributes: dict[str, Any] = {"num_heads": scenario.heads}
    if scenario.causal:
        attributes["unidirectional"] = 1
    if scenario.scale is not None:
        attributes["scale"] = scenario.scale
    return attributes
