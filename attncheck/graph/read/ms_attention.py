"""Reads com.microsoft Attention, by its operator text in ONNX Runtime 1.32.

The input is projected by ``weights``, whose columns are those of Q, of K and of V, and by ``bias`` likewise; the sizes
are a third each, or ``qkv_hidden_sizes``. Padding is said of keys only, by ``mask_index`` (`key_mask`). ``past`` and
``present`` hold keys, then values, in one tensor [2, batch, heads, slots, dim]; with ``past_present_share_buffer`` they
are one buffer, of which ``past_sequence_length`` slots are past (`shared_buffer`).
"""

from __future__ import annotations

import numpy as np

from attncheck.graph.read import key_mask, mha, shared_buffer
from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import Columns, Problem, Projection, Rotary, Tensor
from attncheck.scenario.axes import ROTARY_DIMS

ROTARY_BASE = 10000.0

_ATTRIBUTES = (
    "num_heads", "scale", "unidirectional", "mask_filter_value", "qkv_hidden_sizes", "past_present_share_buffer",
    "do_rotary", "rotary_embedding_dim",
)  # fmt: skip


def read(node: Node) -> Problem:
    """The Problem of a com.microsoft Attention node. Raises Unreadable for features that attncheck does not know."""
    node.refuse_attributes(_ATTRIBUTES)
    heads = node.attribute("num_heads", 0)
    name, array = node.required(0)
    batch, rows, _ = array.shape
    projection, widths = _projection(node)
    head_dim = node.head_dim(1, widths[0], heads)
    past = node.array(4)
    slots = 0 if past is None else past.shape[3]
    shares = node.attribute("past_present_share_buffer", 0) == 1
    buffers = shared_buffer.read(node, 6, slots, rows) if shares else shared_buffer.Buffers(slots, slots, slots + rows)
    mask = key_mask.read(node, 3, batch, rows, buffers.past + rows, what="mask_index", ends=True)
    rotary = _rotary(node, head_dim, batch, rows, buffers.past)
    past_key, past_value = _halves(node.name(4), heads)
    present_key, present_value = _halves(node.output(1), heads)
    return Problem(
        op=node.op,
        dtype=node.dtype(0),
        batch=batch,
        rows=rows,
        new_rows=rows,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        v_head_dim=node.head_dim(1, widths[2], heads),
        past_capacity=buffers.past_slots,
        capacity=buffers.present_slots,
        q_len=(rows,) * batch,
        past_len=(buffers.past,) * batch,
        new_len=(rows,) * batch,
        visible=mha.visible(node, mask, batch, rows, buffers.past, rows),
        scale=node.scale(head_dim),
        softcap=0.0,
        empty_row="mean",
        rotary=rotary,
        query=Tensor(name, "bsnh"),
        key=Tensor(name, "bsnh"),
        value=Tensor(name, "bsnh"),
        past_key=past_key,
        past_value=past_value,
        output=Tensor(node.output(0) or "output", "bsnh"),
        present_key=present_key,
        present_value=present_value,
        masks=(*mask.masks, *mha.biases(node, 5)),
        projection=projection,
        invalid=buffers.invalid or _limited(rotary),
    )


def _rotary(node: Node, head_dim: int, batch: int, rows: int, past: int) -> Rotary | None:
    """What ``do_rotary`` does: the text says no more than "use rotary position embedding".

    ONNX Runtime's CUDA kernels, the only ones that have it, call it NeoX: halves turn, by p / 10000 ** (2 i / dim), and
    positions count every slot before, padding too.
    """
    if not node.attribute("do_rotary", 0):
        return None
    dim = node.attribute("rotary_embedding_dim", 0) or head_dim
    positions = np.broadcast_to(past + np.arange(rows, dtype=np.int32), (batch, rows))
    return Rotary("half", dim, "", "", positions, ROTARY_BASE)


def _limited(rotary: Rotary | None) -> str:
    if rotary is None or rotary.dim in ROTARY_DIMS:
        return ""
    return f"rotary_embedding_dim is {rotary.dim}: it is limited to {', '.join(map(str, ROTARY_DIMS))}"


def _projection(node: Node) -> tuple[Projection, tuple[int, int, int]]:
    """The projection, and how many columns queries, keys and values have."""
    name, weights = node.required(1)
    width, count = weights.shape
    widths = tuple(node.attribute("qkv_hidden_sizes", ())) or (count // 3,) * 3
    if len(widths) != 3 or sum(widths) != count or widths[0] != widths[1]:
        raise Unreadable(
            f"{node.op} with {count} columns of weights and qkv_hidden_sizes {list(widths)} is not read by attncheck: "
            "those of Q and K are as many, and with those of V they are all"
        )
    firsts = (0, widths[0], widths[0] + widths[1])
    bias = node.name(2)
    columns = None if bias is None else Columns(bias, count, *firsts)
    return Projection(Columns(name, count, *firsts), columns, width), (widths[0], widths[1], widths[2])


def _halves(name: str | None, heads: int) -> tuple[Tensor | None, Tensor | None]:
    """Keys and values of a past or present."""
    if name is None:
        return None, None
    return Tensor(name, "pbnsh", 2 * heads, 0), Tensor(name, "pbnsh", 2 * heads, heads)
