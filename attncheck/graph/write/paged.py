"""Writes com.microsoft PagedAttention: tokens without padding, and a cache of pages that are dealt out in no order.

The rows of a last page behind a sequence's keys are NaN, since nobody reads them. Two pages belong to none of the
sequences: what they hold is another's, and has to be left alone; their values are as large as those of hidden keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.case import Output
from attncheck.graph.model import single_node_model
from attncheck.graph.write import gqa, over_scores, parts
from attncheck.graph.write.parts import Array, Inputs, Parts
from attncheck.scenario.model import Scenario
from attncheck.tensors import dtypes, modifiers, poison

FOREIGN = 2
"""Pages that no sequence of the call has."""


def write(scenario: Scenario) -> Parts:
    """One PagedAttention node with everything that `scenario` asks for."""
    cos, sin = gqa.rotary_caches(scenario)
    table = _table(scenario)
    bounds = np.concatenate([[0], np.cumsum(scenario.q_len)])
    inputs: Inputs = [
        *_tokens(scenario),
        *_caches(scenario, table),
        ("cumulative_sequence_length", bounds.astype(np.int32)),
        ("past_seqlens", np.array(scenario.past_len, np.int32)),
        ("block_table", table),
        ("cos_cache", cos),
        ("sin_cache", sin),
        ("slot_mapping", _slots(scenario, table) if scenario.slot_mapping else None),
        ("head_sink", over_scores.sink(scenario)),
        *gqa.gains(scenario),
    ]
    pages = (_count(table), scenario.page, scenario.kv_heads, scenario.head_dim)
    present = scenario.present
    outputs = (
        Output("output", scenario.dtype, (int(bounds[-1]), scenario.heads * scenario.head_dim)),
        Output("key_cache_out", scenario.dtype, pages) if present else None,
        Output("value_cache_out", scenario.dtype, pages) if present else None,
    )
    model = single_node_model("PagedAttention", inputs, outputs, _attributes(scenario))
    return Parts(model, parts.given(inputs), parts.asked(outputs))


def _tokens(scenario: Scenario) -> Inputs:
    """Query, key and value, the tokens of all sequences one after the other."""
    real = np.arange(max(scenario.q_len)) < np.array(scenario.q_len)[:, None]
    return [(name, None if rows is None else _packed(rows, real)) for name, rows in gqa.new_rows(scenario)]


def _packed(rows: Array, real: NDArray[np.bool_]) -> Array:
    return np.ascontiguousarray(rows[real])


def _width(scenario: Scenario) -> int:
    """Pages that the table has room for, of each sequence."""
    slots = max(scenario.kv_len) if scenario.capacity is None else scenario.capacity
    return -(-slots // scenario.page)


def _table(scenario: Scenario) -> NDArray[np.int32]:
    """int32 [batch, width]: the pages of each sequence, -1 behind its last. In a session all of them are its own."""
    lengths = scenario.kv_len if scenario.within is None else (scenario.capacity or 0,) * scenario.batch
    needed = -(-np.array(lengths) // scenario.page)
    order = modifiers.order(scenario.seed, "pages", int(needed.sum()) + FOREIGN)
    has = np.arange(_width(scenario)) < needed[:, None]
    table = np.full(has.shape, -1, np.int32)
    table[has] = order[: needed.sum()]
    return table


def _slots(scenario: Scenario, table: NDArray[np.int32]) -> NDArray[np.int32]:
    """int32 [tokens]: the slot of the cache that each new token is stored in, as the table has it."""
    found = [
        table[entry, slot // scenario.page] * scenario.page + slot % scenario.page
        for entry, (past, new) in enumerate(zip(scenario.past_len, scenario.q_len, strict=True))
        for slot in range(past, past + new)
    ]
    return np.array(found, np.int32)


def _count(table: NDArray[np.int32]) -> int:
    return int(np.count_nonzero(table >= 0)) + FOREIGN


def _caches(scenario: Scenario, table: NDArray[np.int32]) -> Inputs:
    """The pages of keys and of values, [pages, page, kv_heads, head_dim]."""
    length = table.shape[1] * scenario.page
    past = np.array(scenario.past_len)
    held, slots = table >= 0, np.arange(length)
    found: Inputs = []
    for name, tensor in (("key_cache", "k"), ("value_cache", "v")):
        rows = parts.past_rows(scenario, tensor, scenario.kv_heads, -past, length)
        if tensor == "v" and scenario.window is not None:
            rows = poison.overwrite_hidden(rows, slots >= past[:, None] + 1 - scenario.window)
        rows = poison.blank_unread(rows, slots < past[:, None])
        shape = (scenario.page, scenario.kv_heads, scenario.head_dim)
        pages = _of_others(scenario, name, _count(table)) if tensor == "k" else poison.HIDDEN_VALUE
        whole = np.array(np.broadcast_to(pages, (_count(table), *shape)))
        whole[table[held]] = rows.transpose(0, 2, 1, 3).reshape(*table.shape, *shape)[held]
        found.append((name, dtypes.narrow(whole, scenario.dtype)))
    return found


def _of_others(scenario: Scenario, name: str, count: int) -> NDArray[np.float64]:
    """Keys of other sequences, [count, page, kv_heads, head_dim]."""
    rows = modifiers.rows(scenario.seed, name, count, scenario.kv_heads, scenario.page, scenario.head_dim)
    return rows.transpose(0, 2, 1, 3)


def _attributes(scenario: Scenario) -> dict[str, Any]:
    causality = {} if scenario.causal else {"is_causal": 0}
    return gqa.of_heads(scenario) | causality | gqa.of_rows(scenario)
