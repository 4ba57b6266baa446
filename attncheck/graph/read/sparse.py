"""Reads com.microsoft SparseAttention, by its operator text in ONNX Runtime 1.32.

An entry has ``key_total_sequence_lengths`` keys, of which min(rows, that) are new, right-padded; attention is causal by
absolute position. The block mask, in CSR form, says besides which blocks of ``sparse_block_size`` keys a block of
queries sees; head h has layout h mod num_layout.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.read import intervals
from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import Blocks, Mask, Problem, Rotary, Tensor

_ATTRIBUTES = ("num_heads", "kv_num_heads", "scale", "sparse_block_size", "do_rotary", "rotary_interleaved")
Int = NDArray[np.int64]


def read(node: Node) -> Problem:
    """The Problem of a SparseAttention node. Raises Unreadable for features that attncheck does not know."""
    node.refuse_attributes(_ATTRIBUTES)
    heads, kv_heads = node.attribute("num_heads", 0), node.attribute("kv_num_heads", 0)
    query, key, value = _new(node, heads, kv_heads)
    batch, rows, width = node.required(0)[1].shape
    head_dim = node.head_dim(0, width, heads, 2 * kv_heads if query.packed else 0)
    past_key, past = node.required(3)
    total = np.asarray(node.required(8)[1], np.int64).reshape(-1)
    new = np.minimum(rows, total)
    before = total - new
    rotary = _rotary(node, before, new, rows)
    visible = intervals.between(intervals.causal(before, rows), np.zeros_like(before), total)
    visible[np.arange(rows) >= new[:, None]] = 0
    return Problem(
        op=node.op,
        dtype=node.dtype(0),
        batch=batch,
        rows=rows,
        new_rows=rows,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=head_dim,
        past_capacity=past.shape[2],
        capacity=past.shape[2],
        q_len=tuple(new.tolist()),
        past_len=tuple(before.tolist()),
        new_len=tuple(new.tolist()),
        visible=intervals.narrowed(visible),
        scale=node.scale(head_dim),
        softcap=0.0,
        empty_row="zero",
        rotary=rotary,
        query=query,
        key=key,
        value=value,
        past_key=Tensor(past_key, "bnsh"),
        past_value=Tensor(node.required(4)[0], "bnsh"),
        output=Tensor(node.output(0) or "output", "bsnh"),
        present_key=Tensor(node.output(1) or "present_key", "bnsh"),
        present_value=Tensor(node.output(2) or "present_value", "bnsh"),
        masks=_blocks(node, heads, before, rows, int(total.max(initial=0))),
        invalid=_invalid(node, total, past.shape[2], rotary),
    )


def _new(node: Node, heads: int, kv_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value; without a key all three are packed into the query."""
    query, key, value = node.required(0)[0], node.name(1), node.name(2)
    if key is not None and value is not None:
        return Tensor(query, "bsnh"), Tensor(key, "bsnh"), Tensor(value, "bsnh")
    if key is not None or value is not None:
        raise Unreadable(f"{node.op} needs key and value, or neither of them and a packed query")
    every = heads + 2 * kv_heads
    return tuple(Tensor(query, "bsnh", every, first) for first in (0, heads, heads + kv_heads))  # type: ignore[return-value]


def _blocks(node: Node, heads: int, before: Int, rows: int, slots: int) -> tuple[Mask, ...]:
    """The block mask, spread over rows and slots: bool [batch or 1, heads or 1, rows, slots]; none that hides none."""
    blocks = Blocks(node.attribute("sparse_block_size", 0), layout(node.required(5)[1], node.required(6)[1]))
    one = len(np.unique(before)) == 1
    own = (before[:1] if one else before)[:, None] + np.arange(rows)
    whole = blocks.over(heads, own, slots)
    if (whole | (np.arange(slots) > own[:, None, :, None])).all():
        return ()
    return (Mask("block mask", "boolean", whole.shape, slots, np.ascontiguousarray(whole), blocks),)


def layout(row_indices: NDArray[np.generic], col_indices: NDArray[np.generic]) -> NDArray[np.bool_]:
    """The block masks [layouts, blocks, blocks] that CSR indices describe; what pads the columns is not read."""
    starts, columns = (np.asarray(array, np.int64) for array in (row_indices, col_indices))
    blocks = starts.shape[1] - 1
    found = np.zeros((len(starts), blocks, blocks), np.bool_)
    for which, row in np.ndindex(len(starts), blocks):
        found[which, row, columns[which, starts[which, row] : starts[which, row + 1]]] = True
    return found


def _rotary(node: Node, before: Int, new: Int, rows: int) -> Rotary | None:
    cos = node.array(9)
    if not node.attribute("do_rotary", 0) or cos is None or node.array(10) is None:
        return None
    steps = np.arange(rows)
    return Rotary(
        style="interleaved" if node.attribute("rotary_interleaved", 0) else "half",
        dim=2 * cos.shape[1],
        cos=node.required(9)[0],
        sin=node.required(10)[0],
        positions=np.where(steps < new[:, None], before[:, None] + steps, 0).astype(np.int32),
    )


def _invalid(node: Node, total: Int, capacity: int, rotary: Rotary | None) -> str:
    """Why the operator's text forbids the node, or nothing."""
    if node.attribute("do_rotary", 0) and rotary is None:
        return "do_rotary=1 needs cos_cache and sin_cache"
    longest = int(np.asarray(node.required(7)[1]).reshape(-1)[0])
    if longest < total.max(initial=0):
        return f"total_sequence_length is {longest}, and key_total_sequence_lengths speaks of {total.max()} keys"
    if (total > capacity).any():
        return f"key_total_sequence_lengths speaks of {total.max()} keys, and past_key has {capacity} rows"
    cos = node.array(9)
    if rotary is not None and cos is not None and rotary.positions.max(initial=0) >= cos.shape[0]:
        return f"position {rotary.positions.max()} lies outside of the {cos.shape[0]} rows of cos_cache"
    return ""
