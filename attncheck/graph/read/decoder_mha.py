"""Reads com.microsoft DecoderMaskedMultiHeadAttention, by its operator text in ONNX Runtime 1.32.

It "supports input sequence length of 1": one query an entry, which sees every key that ``mask_index`` [batch, kv_len]
leaves. Keys and values in three axes are new rows of self attention, behind those of the past; in four they are all
that cross attention has, "past_key" and "past_value", as MultiHeadAttention's. With ``past_present_share_buffer`` past
and present are one buffer, of which ``past_sequence_length`` slots are past (`shared_buffer`). ``bias`` and ``qk``
are as MultiHeadAttention's, and so are ``beam_width`` beams (`beams`); a packed query holds all heads of queries, then
of keys, then of values.

The text gives that buffer the shape [batch, heads, slots, dim], and says of its keys that they are "re-ordered" to
[batch, heads, dim / x, slots, x], x elements of 16 bytes. Keys are read as the shape says; docs/semantics.md.
"""

from __future__ import annotations

import numpy as np

from attncheck.graph.read import beams, key_mask, mha, shared_buffer
from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import Problem, Tensor

_ATTRIBUTES = ("num_heads", "scale", "mask_filter_value", "past_present_share_buffer", "output_qk")


def read(node: Node) -> Problem:
    """The Problem of a DecoderMaskedMultiHeadAttention node. Raises Unreadable for what attncheck does not know."""
    node.refuse_attributes(_ATTRIBUTES)
    _refuse_forms(node)
    batch, rows = node.required(0)[1].shape[:2]
    new = _new(node, node.attribute("num_heads", 0))
    past = node.array(5)
    slots = 0 if past is None else past.shape[2]
    shares = node.attribute("past_present_share_buffer", 0) == 1
    buffers = (
        shared_buffer.read(node, 7, slots, new.new_rows)
        if shares and past is not None
        else shared_buffer.Buffers(slots, slots, slots + new.new_rows)
    )
    mask = key_mask.read(node, 3, batch, rows, buffers.past + new.new_rows, what="mask_index")
    width = node.array(8)
    if new.kept and node.name(9) is not None:
        raise Unreadable(f"{node.op} with cache_indirection in cross attention is not read by attncheck")
    read_from = (
        beams.Beams()
        if new.kept
        else beams.read(node, 9, batch, buffers, 1 if width is None else int(np.asarray(width).reshape(-1)[0]))
    )
    invalid = "" if rows == 1 else f"{rows} query rows an entry, where its text has 1"
    return mha.problem(
        node, new, buffers, mask, read_from, past=5, attention_bias=4, projection_bias=10, invalid=invalid
    )


def _refuse_forms(node: Node) -> None:
    """Raise Unreadable for a mask in another form than the text's, and for scores that nobody asks for."""
    mask = node.array(3)
    if mask is not None and mask.ndim != 2:
        raise Unreadable(
            f"{node.op} with a mask_index of shape {list(mask.shape)} is not read by attncheck: [batch, keys] is"
        )
    if node.output(3) is not None and not node.attribute("output_qk", 0):
        raise Unreadable(f"{node.op} with the output qk and without output_qk is not read by attncheck")


def _new(node: Node, heads: int) -> mha.New:
    """Query, key and value in the three published forms."""
    (name, query), key, value = node.required(0), node.array(1), node.array(2)
    rows, columns = query.shape[1:]
    if key is None and value is None and heads and columns % (3 * heads) == 0:
        dim = columns // (3 * heads)
        first, second, third = (Tensor(name, "bsnh", 3 * heads, part * heads) for part in range(3))
        return mha.New(first, second, third, rows, dim, dim)
    dims = tuple(0 if array is None else array.ndim for array in (key, value))
    if key is None or value is None or dims not in ((3, 3), (4, 4)):
        raise Unreadable(
            f"{node.op} with key and value of {dims[0]} and {dims[1]} axes is not read by attncheck: both of 3 are, "
            "both of 4, and neither beside a query of queries, keys and values of one width"
        )
    kept = key.ndim == 4
    first, second = (Tensor(node.required(index)[0], "bnsh" if kept else "bsnh") for index in (1, 2))
    width = node.head_dim(0, columns, heads)
    new_rows, v_head_dim = mha.rows_and_dim(node, key, value, heads)
    return mha.New(Tensor(name, "bsnh"), first, second, new_rows, width, v_head_dim, kept)
