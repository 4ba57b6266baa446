"""Reads ai.onnx Attention 23, 24 and 25, by the operator's published text.

Every query row is computed. A query stands at position offset + i: offset is the length of past_key, or with
nonpad_kv_seqlen (24 on) that length minus the number of query rows, an entry at a time, or 0 with neither. It sees the
keys j <= offset + i where is_causal is 1, and offset + i - left <= j <= offset + i + right (25), of those that lengths
and attn_mask leave. A row that sees none gives zeros. An attn_mask shorter than the keys (24 on) hides the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.read import intervals
from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import Layout, Mask, Problem, Scores, ScoreStage, Tensor
from attncheck.tensors.dtypes import dtype

_ATTRIBUTES = (
    "is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale", "softcap", "softmax_precision",
    "left_window_size", "right_window_size",
)  # fmt: skip
_STAGES: dict[int, ScoreStage] = {0: "raw", 1: "capped", 2: "biased", 3: "weights"}

_PRECISIONS = {1: "float32", 10: "float16", 11: "double", 16: "bfloat16"}
"""softmax_precision: element types by their number."""


@dataclass(frozen=True)
class _Shape:
    """Sizes of Q, K and V whatever the layout; `new` rows of K, `past` rows before them, and the positions.

    offset   int64 [batch]: keys before the first query
    kv_len   int64 [batch]: keys that count
    """

    layout: Layout
    batch: int
    rows: int
    new: int
    past: int
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    offset: NDArray[np.int64]
    kv_len: NDArray[np.int64]


def read(node: Node) -> Problem:
    """The Problem of an Attention node. Raises Unreadable for features that attncheck does not know."""
    node.refuse_attributes(_ATTRIBUTES)
    it = _shape(node)
    external = node.array(6) is not None
    new_len = it.kv_len - it.past
    return Problem(
        op=node.op,
        dtype=node.dtype(0),
        batch=it.batch,
        rows=it.rows,
        new_rows=it.new,
        heads=it.heads,
        kv_heads=it.kv_heads,
        head_dim=it.head_dim,
        v_head_dim=it.v_head_dim,
        past_capacity=it.past,
        capacity=it.past + it.new,
        q_len=(it.rows,) * it.batch,
        past_len=(it.past,) * it.batch,
        new_len=tuple(new_len.tolist()),
        visible=_visible(node, it),
        scale=node.attribute("scale", 1.0 / math.sqrt(it.head_dim)),
        softcap=node.attribute("softcap", 0.0),
        empty_row="zero",
        rotary=None,
        query=Tensor(node.required(0)[0], it.layout),
        key=Tensor(node.required(1)[0], it.layout),
        value=Tensor(node.required(2)[0], it.layout),
        past_key=node.given(4),
        past_value=node.given(5),
        output=Tensor(node.output(0) or "Y", it.layout),
        present_key=node.asked(1),
        present_value=node.asked(2),
        masks=_masks(node, it),
        scores=_scores(node, it.past + it.new),
        softmax=_softmax(node),
        invalid=_invalid(node, external, it),
    )


def _softmax(node: Node) -> str:
    """The dtype of the softmax where it has fewer bits than the tensors, else nothing."""
    precision = node.attribute("softmax_precision", 0)
    if precision and precision not in _PRECISIONS:
        raise Unreadable(f"{node.op} with softmax_precision {precision} is not read: no float type has that number")
    asked = _PRECISIONS.get(precision, "double")
    return asked if asked != "double" and dtype(asked).roundoff > dtype(node.dtype(0)).roundoff else ""


def _shape(node: Node) -> _Shape:
    query, key, value = (node.required(index)[1] for index in range(3))
    past = node.array(4)
    past_rows = 0 if past is None else past.shape[2]
    if query.ndim == 4:
        batch, heads, rows, dim = query.shape
        kv_heads, new, v_dim = key.shape[1], key.shape[2], value.shape[3]
    else:
        heads, kv_heads = node.attribute("q_num_heads", 0), node.attribute("kv_num_heads", 0)
        if not heads or not kv_heads:
            raise Unreadable(f"{node.op} with 3-D inputs needs the attributes q_num_heads and kv_num_heads")
        batch, rows, width = query.shape
        new = key.shape[1]
        dim, v_dim = node.head_dim(0, width, heads), node.head_dim(2, value.shape[2], kv_heads)
    said = node.array(6)
    kv_len = np.full(batch, past_rows + new) if said is None else np.asarray(said, np.int64).reshape(batch)
    offset = np.full(batch, past_rows) if said is None or past_rows else kv_len - rows
    layout: Layout = "bnsh" if query.ndim == 4 else "bsnh"
    return _Shape(layout, batch, rows, new, past_rows, heads, kv_heads, dim, v_dim, offset, kv_len)


def _visible(node: Node, it: _Shape) -> NDArray[np.int32]:
    visible = intervals.everything(it.kv_len, it.rows)
    left, right = node.attribute("left_window_size", -1), node.attribute("right_window_size", -1)
    if node.attribute("is_causal", 0):
        right = 0
    visible = intervals.around(visible, it.offset, left, right)
    return intervals.narrowed(intervals.between(visible, np.zeros_like(it.kv_len), it.kv_len))


def _masks(node: Node, it: _Shape) -> tuple[Mask, ...]:
    name, mask = node.name(3), node.array(3)
    if name is None or mask is None:
        return ()
    # From 24 on a last axis that is too short is padded, also one of 1, which 23 broadcasts as any other axis.
    slots = it.past + it.new if node.opset < 24 and mask.shape[-1] == 1 else mask.shape[-1]
    return (Mask(name, "boolean" if mask.dtype == np.bool_ else "additive", mask.shape, slots),)


def _scores(node: Node, slots: int) -> Scores | None:
    name = node.output(3)
    return None if name is None else Scores(name, _STAGES[node.attribute("qk_matmul_output_mode", 0)], slots)


def _invalid(node: Node, external: bool, it: _Shape) -> str:
    """Why the operator's text forbids the node, or nothing."""
    if (node.name(4) is None) != (node.name(5) is None):
        return "past_key and past_value shall be used together"
    if external and (it.kv_len > it.past + it.new).any():
        return f"nonpad_kv_seqlen exceeds the {it.past + it.new} rows of K"
    mask = node.array(3)
    if mask is not None and mask.shape[-1] not in (1, it.past + it.new):
        if node.opset < 24:
            return "Attention 23 has no attn_mask that is shorter than the keys"
        if external and (it.kv_len > mask.shape[-1]).any():
            return "attn_mask is shorter than the largest nonpad_kv_seqlen"
    return ""
