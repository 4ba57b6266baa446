"""Writes com.microsoft Attention: one input that the operator projects to queries, keys and values by merged weights.

The twin of a GQA case has the columns of each KV head once a query head of its group. Past and present hold keys, then
values, in one tensor [2, batch, heads, slots, dim]. Right padding of ragged prompts is said with a mask_index of
lengths [batch], a ragged past, padded on the left, with one of [2 * batch]: ends, then starts; or in another form that
the scenario names.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncheck.graph.case import Output
from attncheck.graph.model import single_node_model
from attncheck.graph.write import over_scores, padded, parts, projections
from attncheck.graph.write.parts import Array, Inputs, Parts
from attncheck.scenario.model import Scenario
from attncheck.tensors import dtypes


def write(scenario: Scenario) -> Parts:
    """One com.microsoft Attention node."""
    past = padded.past(scenario)
    inputs: Inputs = [
        ("input", _input(scenario)),
        ("weights", projections.weights(scenario)),
        ("bias", projections.bias(scenario)),
        ("mask_index", _mask_index(scenario)),
        ("past", None if past is None else parts.buffer(np.stack(past), scenario.dtype)),
        ("attention_bias", over_scores.bias(scenario, _kept(scenario))),
        ("past_sequence_length", padded.past_length(scenario)),
    ]
    outputs = _outputs(scenario, with_present=past is not None)
    model = single_node_model("Attention", inputs, outputs, _attributes(scenario))
    return Parts(model, parts.given(inputs), parts.asked(outputs))


def _kept(scenario: Scenario) -> int:
    return max(scenario.past_len) + parts.new_count(scenario)


def _input(scenario: Scenario) -> Array:
    """[batch, rows, input_dim]: generated as one head of queries that is so wide."""
    return dtypes.narrow(parts.input_rows(scenario)[:, 0], scenario.dtype)


def _mask_index(scenario: Scenario) -> Array | None:
    if scenario.mask is not None:
        return padded.mask(scenario)
    return padded.key_lengths(scenario, behind_padding="ends-and-starts")


def _outputs(scenario: Scenario, *, with_present: bool) -> tuple[Output | None, ...]:
    present = (2, scenario.batch, scenario.heads, padded.present_slots(scenario), scenario.head_dim)
    merged = (scenario.batch, max(scenario.q_len), scenario.heads * scenario.v_head_dim)
    return (
        Output("output", scenario.dtype, merged),
        Output("present", scenario.dtype, present) if with_present and scenario.present else None,
    )


def _attributes(scenario: Scenario) -> dict[str, Any]:
    attributes: dict[str, Any] = {"num_heads": scenario.heads}
    if scenario.causal:
        attributes["unidirectional"] = 1
    if scenario.scale is not None:
        attributes["scale"] = scenario.scale
    if scenario.v_head_dim != scenario.head_dim:
        width = scenario.heads * scenario.head_dim
        attributes["qkv_hidden_sizes"] = [width, width, scenario.heads * scenario.v_head_dim]
    if scenario.rotary is not None:
        attributes["do_rotary"] = 1
        if scenario.rotary_dim != scenario.head_dim:
            attributes["rotary_embedding_dim"] = scenario.rotary_dim
    if padded.shares_buffer(scenario):
        attributes["past_present_share_buffer"] = 1
    return attributes
