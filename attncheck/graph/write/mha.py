"""Writes com.microsoft MultiHeadAttention, the twin of a GQA case: each KV head stands once a query head of its group.

Right padding of ragged prompts is said with a key mask of lengths [batch], a ragged past with one of [batch, kv_len],
unless the scenario names another form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.case import Output
from attncheck.graph.model import single_node_model
from attncheck.graph.write import over_scores, padded, parts, projections
from attncheck.graph.write.parts import Array, Inputs, Parts
from attncheck.scenario.model import Scenario
from attncheck.tensors import poison


def write(scenario: Scenario) -> Parts:
    """One MultiHeadAttention node; scale and causality as `scenario` says."""
    inputs: Inputs = [
        *_new_rows(scenario),
        ("bias", projections.bias(scenario)),
        ("key_padding_mask", _key_mask(scenario)),
        ("attention_bias", over_scores.bias(scenario, max(scenario.past_len) + parts.new_count(scenario))),
        *_past(scenario),
        ("past_sequence_length", padded.past_length(scenario)),
        ("cache_indirection", padded.beams(scenario)),
    ]
    outputs = _outputs(scenario)
    model = single_node_model("MultiHeadAttention", inputs, outputs, _attributes(scenario))
    return Parts(model, parts.given(inputs), parts.asked(outputs))


def _new_rows(scenario: Scenario) -> Inputs:
    group = scenario.heads // scenario.kv_heads
    new_len = scenario.kv_len if scenario.cross else scenario.q_len
    seen = np.arange(max(new_len)) < np.array(new_len)[:, None]
    query = parts.new_rows(scenario, "q", scenario.heads)
    key = parts.new_rows(scenario, "k", scenario.kv_heads, group)
    value = poison.overwrite_hidden(parts.new_rows(scenario, "v", scenario.kv_heads, group), seen)
    if scenario.packed == "qkv":
        return [("query", _head_by_head(scenario, query, key, value)), ("key", None), ("value", None)]
    first = ("query", parts.packed(query, scenario.dtype))
    if scenario.packed == "kv":
        return [first, ("key", _head_by_head(scenario, key, value)), ("value", None)]
    lay = parts.buffer if scenario.layout == "bnsh" else parts.packed
    return [first, ("key", lay(key, scenario.dtype)), ("value", lay(value, scenario.dtype))]


def _head_by_head(scenario: Scenario, *roles: NDArray[np.float64]) -> Array:
    """[batch, rows, heads, number of roles, dim]."""
    return parts.buffer(np.stack(roles, axis=3).transpose(0, 2, 1, 3, 4), scenario.dtype)


def _past(scenario: Scenario) -> Inputs:
    past = padded.past(scenario)
    key, value = (None, None) if past is None else (parts.buffer(rows, scenario.dtype) for rows in past)
    return [("past_key", key), ("past_value", value)]


def _key_mask(scenario: Scenario) -> Array | None:
    if scenario.mask is not None:
        return padded.mask(scenario)
    return padded.key_lengths(scenario, behind_padding="keys")


def _outputs(scenario: Scenario) -> tuple[Output | None, ...]:
    batch, heads, rows = scenario.batch, scenario.heads, max(scenario.q_len)
    present = (batch, heads, padded.present_slots(scenario))
    scores = (batch, heads, rows, max(scenario.past_len) + parts.new_count(scenario))
    return (
        Output("output", scenario.dtype, (batch, rows, heads * scenario.v_head_dim)),
        Output("present_key", scenario.dtype, (*present, scenario.head_dim)) if scenario.present else None,
        Output("present_value", scenario.dtype, (*present, scenario.v_head_dim)) if scenario.present else None,
        Output("qk", scenario.dtype, scores) if scenario.scores else None,
    )


def _attributes(scenario: Scenario) -> dict[str, Any]:
    attributes: dict[str, Any] = {"num_heads": scenario.heads}
    if scenario.causal:
        attributes["unidirectional"] = 1
    if scenario.scale is not None:
        attributes["scale"] = scenario.scale
    return attributes
