"""Writes com.microsoft GroupQueryAttention.

Buffers are [batch, kv_heads, slots, head_dim]; the valid keys of a batch entry fill its first slots. ``seqlens_k`` is
each entry's kv_len - 1 and ``total_sequence_length`` the largest kv_len, or more with ``query_seqlens``. New rows
beyond an entry's q_len are right padding, which the operator's text says is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attncheck.graph.case import Output
from attncheck.graph.eviction import resident
from attncheck.graph.model import single_node_model
from attncheck.graph.write import over_scores, parts, quantised
from attncheck.graph.write.parts import Array, Inputs, Parts
from attncheck.scenario.model import Scenario
from attncheck.tensors import data, dtypes, modifiers, poison

EPSILONS: Mapping[str, Mapping[str, float]] = {
    "plain": {},
    "epsilon": {"qk_norm_epsilon": 0.25},
    "epsilons": {"qk_norm_epsilon": 8.0, "q_norm_epsilon": 0.25, "k_norm_epsilon": 0.5},
}
"""The attributes of each `qk_norm`: epsilons of the size of what they are added to, or nobody would miss them."""


def write(scenario: Scenario) -> Parts:
    """One GroupQueryAttention node with everything that `scenario` asks for."""
    cos, sin = rotary_caches(scenario)
    inputs: Inputs = [
        *new_rows(scenario),
        *past_buffers(scenario, _past_capacity(scenario)),
        ("seqlens_k", np.array(scenario.kv_len, np.int32) - np.int32(1)),
        ("total_sequence_length", np.array([_total(scenario)], np.int32)),
        ("cos_cache", cos),
        ("sin_cache", sin),
        ("position_ids", _position_ids(scenario)),
        ("attention_bias", over_scores.bias(scenario, _total(scenario))),
        ("head_sink", over_scores.sink(scenario)),
        *quantised.scales(scenario),
        *gains(scenario),
        ("query_seqlens", np.array(scenario.q_len, np.int32) if scenario.query_seqlens else None),
    ]
    outputs = _outputs(scenario)
    model = single_node_model("GroupQueryAttention", inputs, outputs, _attributes(scenario))
    return Parts(model, parts.given(inputs), parts.asked(outputs))


def new_rows(scenario: Scenario) -> Inputs:
    """Query, key and value, apart or packed; rows beyond an entry's q_len are poison."""
    read = np.arange(max(scenario.q_len)) < np.array(scenario.q_len)[:, None]
    heads = {"query": ("q", scenario.heads), "key": ("k", scenario.kv_heads), "value": ("v", scenario.kv_heads)}
    rows = {
        name: poison.blank_unread(parts.new_rows(scenario, tensor, count), read)
        for name, (tensor, count) in heads.items()
    }
    if scenario.packed == "qkv":
        together = np.concatenate(list(rows.values()), axis=1)
        return [("query", parts.packed(together, scenario.dtype)), ("key", None), ("value", None)]
    return [(name, parts.packed(array, scenario.dtype)) for name, array in rows.items()]


def past_buffers(scenario: Scenario, length: int) -> Inputs:
    """Past keys and values, `length` rows long."""
    if length == 0 and scenario.past == "auto":
        return [("past_key", None), ("past_value", None)]
    held = np.array(scenario.past_len)[:, None]
    if scenario.window_cache and scenario.window is not None:
        held = resident(held, length, min(scenario.window, length))
    slots = np.arange(length)
    buffers = {
        name: parts.past_rows(scenario, tensor, scenario.kv_heads, -held[:, 0], length)
        for name, tensor in (("past_key", "k"), ("past_value", "v"))
    }
    if scenario.window is not None:
        seen = slots >= held + 1 - scenario.window
        buffers["past_value"] = poison.overwrite_hidden(buffers["past_value"], seen)
    return [
        (name, quantised.buffer(scenario, tensor, poison.blank_unread(buffers[name], slots < held)))
        for name, tensor in (("past_key", "k"), ("past_value", "v"))
    ]


def _total(scenario: Scenario) -> int:
    """total_sequence_length: the longest kv_len, or with query_seqlens also room for the padding of its chunk.

    A cache of the window takes in no padding, and needs none.
    """
    if scenario.query_seqlens and not scenario.window_cache:
        return max(scenario.past_len) + max(scenario.q_len)
    return max(scenario.kv_len)


def _past_capacity(scenario: Scenario) -> int:
    if scenario.capacity is not None:
        return scenario.capacity
    return scenario.window if scenario.window_cache and scenario.window else max(scenario.past_len)


def gains(scenario: Scenario) -> Inputs:
    """The gains of the normalisation of queries and keys, [head_dim]."""
    names = ("q_norm_weight", "k_norm_weight")
    if scenario.qk_norm is None:
        return [(name, None) for name in names]
    return [
        (name, parts.buffer(modifiers.gain(scenario.seed, name, scenario.head_dim), scenario.dtype)) for name in names
    ]


def rotary_caches(scenario: Scenario) -> tuple[Array | None, Array | None]:
    """The cos and sin caches, where there is a rotary that is given them."""
    if not scenario.rotary_cache:
        return None, None
    cos, sin = data.rotary_cache(scenario.rotary_cache, scenario.rotary_dim)
    return parts.buffer(cos, scenario.dtype), parts.buffer(sin, scenario.dtype)


def _position_ids(scenario: Scenario) -> Array | None:
    """int64 [batch, rows]: what the operator would count by itself, or others; [1, rows] for all with `one-row`."""
    if scenario.positions == "implicit":
        return None
    positions = parts.positions(scenario)
    return positions[:1] if scenario.positions == "one-row" else positions


def _outputs(scenario: Scenario) -> tuple[Output | None, ...]:
    rows = max(scenario.q_len)
    capacity = max(_total(scenario), scenario.capacity or 0)
    if scenario.window_cache:
        capacity = _past_capacity(scenario)
    cache = scenario.dtype if scenario.kv_cache is None else quantised.CACHES[scenario.kv_cache]
    present = dtypes.stored_shape((scenario.batch, scenario.kv_heads, capacity, scenario.head_dim), cache)
    scores = (scenario.batch, scenario.heads, rows, _total(scenario))
    return (
        Output("output", scenario.dtype, (scenario.batch, rows, scenario.heads * scenario.head_dim)),
        Output("present_key", cache, present) if scenario.present else None,
        Output("present_value", cache, present) if scenario.present else None,
        Output("output_qk", scenario.dtype, scores) if scenario.scores else None,
    )


def of_heads(scenario: Scenario) -> dict[str, Any]:
    """How many heads there are, and what is done to their scores."""
    attributes: dict[str, Any] = {"num_heads": scenario.heads, "kv_num_heads": scenario.kv_heads}
    if scenario.scale is not None:
        attributes["scale"] = scenario.scale
    if scenario.softcap:
        attributes["softcap"] = scenario.softcap
    if scenario.window is not None:
        attributes["local_window_size"] = scenario.window
    return attributes


def _attributes(scenario: Scenario) -> dict[str, Any]:
    """Only attributes that differ from the operator's defaults: older ONNX Runtimes do not know all of them."""
    attributes = of_heads(scenario) | of_rows(scenario) | quantised.attributes(scenario)
    if scenario.window_cache:
        attributes["sliding_window_cache"] = 1
    if not scenario.causal:
        attributes["causal"] = 0
    if scenario.smooth:
        attributes["smooth_softmax"] = 1
    if scenario.scores is not None:
        attributes["qk_output"] = {"biased": 1, "weights": 2}[scenario.scores]
    return attributes


def of_rows(scenario: Scenario) -> dict[str, Any]:
    """What is done to new queries and keys before attention."""
    attributes: dict[str, Any] = {}
    if scenario.qk_norm is not None:
        attributes |= EPSILONS[scenario.qk_norm]
    if scenario.rotary is not None:
        attributes["do_rotary"] = 1
    if scenario.rotary == "interleaved":
        attributes["rotary_interleaved"] = 1
    return attributes
