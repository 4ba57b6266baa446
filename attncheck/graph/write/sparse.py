"""Writes com.microsoft SparseAttention: buffers that past and present share, and a block mask in CSR form.

A block of queries always sees its own block of keys, and about two thirds of those before it, each layout others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.case import Output
from attncheck.graph.model import single_node_model
from attncheck.graph.write import gqa, parts
from attncheck.graph.write.parts import Inputs, Parts
from attncheck.scenario.model import Scenario
from attncheck.tensors import modifiers


def write(scenario: Scenario) -> Parts:
    """One SparseAttention node with everything that `scenario` asks for."""
    cos, sin = gqa.rotary_caches(scenario)
    row_indices, col_indices = compressed(_layouts(scenario))
    inputs: Inputs = [
        *gqa.new_rows(scenario),
        *gqa.past_buffers(scenario, _capacity(scenario)),
        ("block_row_indices", row_indices),
        ("block_col_indices", col_indices),
        ("total_sequence_length", np.array([max(scenario.kv_len)], np.int32)),
        ("key_total_sequence_lengths", np.array(scenario.kv_len, np.int32)),
        ("cos_cache", cos),
        ("sin_cache", sin),
    ]
    rows, present = max(scenario.q_len), (scenario.batch, scenario.kv_heads, _capacity(scenario), scenario.head_dim)
    outputs = (
        Output("output", scenario.dtype, (scenario.batch, rows, scenario.heads * scenario.head_dim)),
        Output("present_key", scenario.dtype, present),
        Output("present_value", scenario.dtype, present),
    )
    model = single_node_model("SparseAttention", inputs, outputs, _attributes(scenario))
    return Parts(model, parts.given(inputs), outputs)


def compressed(layouts: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """CSR indices of block masks [layouts, blocks, blocks]: where each row begins, and the columns, padded with -1."""
    counts = layouts.sum(axis=2)
    starts = np.concatenate([np.zeros((len(layouts), 1), np.int64), np.cumsum(counts, axis=1)], axis=1)
    columns = np.full((len(layouts), int(starts[:, -1].max())), -1, np.int32)
    for which, layout in enumerate(layouts):
        columns[which, : starts[which, -1]] = np.nonzero(layout)[1]
    return starts.astype(np.int32), columns


def _capacity(scenario: Scenario) -> int:
    return max(scenario.kv_len) if scenario.capacity is None else scenario.capacity


def _layouts(scenario: Scenario) -> NDArray[np.bool_]:
    blocks = -(-_capacity(scenario) // scenario.sparse_block)
    chosen = modifiers.holes(scenario.seed, 1, scenario.sparse_layouts, blocks, np.arange(blocks))[0]
    below = np.tril(np.ones((blocks, blocks), np.bool_), -1)
    return np.asarray((~chosen & below) | np.eye(blocks, dtype=np.bool_))


def _attributes(scenario: Scenario) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "num_heads": scenario.heads,
        "kv_num_heads": scenario.kv_heads,
        "sparse_block_size": scenario.sparse_block,
    }
    if scenario.scale is not None:
        attributes["scale"] = scenario.scale
    if scenario.rotary is not None:
        attributes["do_rotary"] = 1
    if scenario.rotary == "interleaved":
        attributes["rotary_interleaved"] = 1
    return attributes
