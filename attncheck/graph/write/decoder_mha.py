"""Writes com.microsoft DecoderMaskedMultiHeadAttention: one new token, each KV head once a query head of its group.

Lengths are said with a mask_index [batch, keys]: a ragged past is padded on the left, keys of cross attention on the
right. With a capacity past and present share one buffer. Cross attention has keys and values of four axes, and no past
and no present.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attncheck.graph.case import Output
from attncheck.graph.model import single_node_model
from attncheck.graph.write import over_scores, padded, parts, projections
from attncheck.graph.write.parts import Array, Inputs, Parts
from attncheck.scenario.model import Scenario
from attncheck.tensors import poison


def write(scenario: Scenario) -> Parts:
    """One DecoderMaskedMultiHeadAttention node."""
    past = None if scenario.cross else padded.past(scenario)
    past_key, past_value = (None, None) if past is None else (parts.buffer(rows, scenario.dtype) for rows in past)
    inputs: Inputs = [
        *_new_rows(scenario),
        ("mask_index", _mask_index(scenario)),
        ("attention_bias", over_scores.bias(scenario, _kept(scenario))),
        ("past_key", past_key),
        ("past_value", past_value),
        ("past_sequence_length", padded.past_length(scenario)),
        ("beam_width", np.array([scenario.beams], np.int32) if scenario.beams > 1 else None),
        ("cache_indirection", padded.beams(scenario)),
        ("bias", projections.bias(scenario)),
    ]
    outputs = _outputs(scenario)
    model = single_node_model("DecoderMaskedMultiHeadAttention", inputs, outputs, _attributes(scenario))
    return Parts(model, parts.given(inputs), parts.asked(outputs))


def _kept(scenario: Scenario) -> int:
    return max(scenario.past_len) + parts.new_count(scenario)


def _new_rows(scenario: Scenario) -> Inputs:
    group = scenario.heads // scenario.kv_heads
    query = parts.new_rows(scenario, "q", scenario.heads)
    key, value = (parts.new_rows(scenario, tensor, scenario.kv_heads, group) for tensor in ("k", "v"))
    if scenario.packed == "qkv":
        together = parts.packed(np.concatenate([query, key, value], axis=1), scenario.dtype)
        return [("query", together), ("key", None), ("value", None)]
    first = ("query", parts.packed(query, scenario.dtype))
    if not scenario.cross:
        return [first, ("key", parts.packed(key, scenario.dtype)), ("value", parts.packed(value, scenario.dtype))]
    value = poison.overwrite_hidden(value, _lengths(scenario))
    return [first, ("key", parts.buffer(key, scenario.dtype)), ("value", parts.buffer(value, scenario.dtype))]


def _lengths(scenario: Scenario) -> Any:
    """[batch, keys]: the keys of cross attention that an entry has."""
    return np.arange(_kept(scenario)) < np.array(scenario.kv_len)[:, None]


def _mask_index(scenario: Scenario) -> Array | None:
    if scenario.mask is not None:
        return padded.mask(scenario)
    if len(set(scenario.kv_len)) == 1:
        return None
    if scenario.cross:
        return np.asarray(_lengths(scenario), np.int32)
    new = np.ones((scenario.batch, 1), bool)
    return np.concatenate([~padded.left_padding(scenario), new], axis=1).astype(np.int32)


def _outputs(scenario: Scenario) -> tuple[Output | None, ...]:
    batch, heads = scenario.batch, scenario.heads
    present = (batch, heads, padded.present_slots(scenario), scenario.head_dim)
    asked = scenario.present and not scenario.cross
    return (
        Output("output", scenario.dtype, (batch, 1, heads * scenario.head_dim)),
        Output("present_key", scenario.dtype, present) if asked else None,
        Output("present_value", scenario.dtype, present) if asked else None,
        Output("qk", scenario.dtype, (batch, heads, 1, _kept(scenario))) if scenario.scores else None,
    )


def _attributes(scenario: Scenario) -> dict[str, Any]:
    attributes: dict[str, Any] = {"num_heads": scenario.heads}
    if scenario.scale is not None:
        attributes["scale"] = scenario.scale
    if padded.shares_buffer(scenario):
        attributes["past_present_share_buffer"] = 1
    if scenario.scores:
        attributes["output_qk"] = 1
    return attributes
