"""Reads com.microsoft GroupQueryAttention, by its operator text in ONNX Runtime 1.32.

``seqlens_k`` is each entry's total length - 1. Without ``query_seqlens`` an entry has min(rows, total) new tokens,
right-padded, and total minus that many before them. Attention is causal by absolute position; ``local_window_size``
counts the keys that a query sees, itself included; softcap comes after scale and before the mask.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.read import intervals
from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import Problem, Rotary, Tensor

_ATTRIBUTES = (
    "num_heads", "kv_num_heads", "scale", "softcap", "local_window_size", "do_rotary", "rotary_interleaved",
)  # fmt: skip
_LATER_INPUTS = {
    9: "position_ids", 10: "attention_bias", 11: "head_sink", 12: "k_scale", 13: "v_scale", 14: "q_norm_weight",
    15: "k_norm_weight", 16: "query_seqlens",
}  # fmt: skip


def read(node: Node) -> Problem:
    """The Problem of a GroupQueryAttention node. Raises Unreadable for features that attncheck does not know."""
    node.refuse_attributes(_ATTRIBUTES)
    node.refuse_inputs(_LATER_INPUTS)
    query_name, query = node.required(0)
    key_name, _ = node.required(1)
    value_name, _ = node.required(2)
    heads, kv_heads = node.attribute("num_heads", 0), node.attribute("kv_num_heads", 0)
    batch, rows, width = query.shape
    head_dim = width // heads
    total = np.asarray(node.required(5)[1], np.int64) + 1
    longest = int(node.required(6)[1].reshape(-1)[0])
    q_len = np.minimum(rows, total)
    past_len = total - q_len
    past_key, past_value = node.name(3), node.name(4)
    past = node.array(3)
    past_capacity = 0 if past is None else past.shape[2]
    return Problem(
        op=node.op,
        dtype=str(query.dtype),
        batch=batch,
        rows=rows,
        new_rows=rows,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=head_dim,
        past_capacity=past_capacity,
        capacity=max(past_capacity, longest),
        q_len=tuple(q_len.tolist()),
        past_len=tuple(past_len.tolist()),
        new_len=tuple(q_len.tolist()),
        visible=_visible(node, past_len, q_len, rows),
        scale=node.attribute("scale", 0.0) or 1.0 / math.sqrt(head_dim),
        softcap=node.attribute("softcap", 0.0),
        empty_row="zero",
        rotary=_rotary(node, past_len, rows),
        query=Tensor(query_name, "bsnh"),
        key=Tensor(key_name, "bsnh"),
        value=Tensor(value_name, "bsnh"),
        past_key=None if past_key is None else Tensor(past_key, "bnsh"),
        past_value=None if past_value is None else Tensor(past_value, "bnsh"),
        output=Tensor(node.output(0) or "output", "bsnh"),
        present_key=_present(node, 1),
        present_value=_present(node, 2),
    )


def _present(node: Node, index: int) -> Tensor | None:
    name = node.output(index)
    return None if name is None else Tensor(name, "bnsh")


def _visible(
    node: Node, past_len: NDArray[np.int64], q_len: NDArray[np.int64],
    rows: int,
) -> NDArray[np.int32]:  # fmt: skip
    visible = intervals.causal(past_len, rows)
    window = node.attribute("local_window_size", -1)
    if window > 0:
        visible = intervals.windowed(visible, window)
    visible = intervals.between(visible, np.zeros_like(past_len), past_len + q_len)
    visible[np.arange(rows) >= q_len[:, None]] = 0
    return intervals.narrowed(visible)


def _rotary(node: Node, past_len: NDArray[np.int64], rows: int) -> Rotary | None:
    """New token i of an entry stands at position past_len + i. Padded rows, which are not read, take position 0."""
    if not node.attribute("do_rotary", 0):
        return None
    cos = node.array(7)
    if cos is None or node.array(8) is None:
        raise Unreadable(f"{node.op} with do_rotary=1 needs cos_cache and sin_cache; both must be given")
    positions = past_len[:, None] + np.arange(rows)
    beyond = positions >= cos.shape[0]
    return Rotary(
        style="interleaved" if node.attribute("rotary_interleaved", 0) else "half",
        dim=2 * cos.shape[1],
        cos=node.required(7)[0],
        sin=node.required(8)[0],
        positions=np.where(beyond, 0, positions).astype(np.int32),
    )
