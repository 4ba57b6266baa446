"""Reads com.microsoft MultiHeadAttention, by its operator text in ONNX Runtime 1.32.

Every query row is computed: padding is said of keys only, by ``key_padding_mask``. [batch] holds the length of each
entry's keys without right padding, and so do the first entries of [3 * batch + 2], whose other entries say where rows
of packed batches begin; [batch, kv_len] and [batch, rows, kv_len] hold 1 for keys that count. ``unidirectional`` lets a
query see the keys up to its own. ``attention_bias`` is added to the scores. ``past_sequence_length`` says that past and
present are one buffer, and how many of its slots are past; the new rows must fit behind them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.read import intervals
from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import Mask, Problem, Tensor

_ATTRIBUTES = ("num_heads", "scale", "unidirectional", "mask_filter_value")
_LATER_INPUTS = {3: "bias", 9: "cache_indirection"}


def read(node: Node) -> Problem:
    """The Problem of a MultiHeadAttention node. Raises Unreadable for features that attncheck does not know."""
    node.refuse_attributes(_ATTRIBUTES)
    node.refuse_inputs(_LATER_INPUTS)
    node.refuse_outputs({3: "qk"})
    query_name, query = node.required(0)
    key_name, key = node.required(1)
    value_name, value = node.required(2)
    if not query.ndim == key.ndim == value.ndim == 3:
        shapes = ", ".join(str(list(array.shape)) for array in (query, key, value))
        raise Unreadable(f"{node.op} with query, key, value of shapes {shapes} is not read by attncheck: 3-D ones are")
    heads = node.attribute("num_heads", 0)
    batch, rows, width = query.shape
    new_rows = key.shape[1]
    past_key, past_value = node.name(6), node.name(7)
    past = node.array(6)
    past_capacity = 0 if past is None else past.shape[2]
    shared = node.array(8)
    past_rows = past_capacity if shared is None else int(np.asarray(shared).reshape(-1)[0])
    present_key, present_value = node.output(1), node.output(2)
    return Problem(
        op=node.op,
        dtype=node.dtype(0),
        batch=batch,
        rows=rows,
        new_rows=new_rows,
        heads=heads,
        kv_heads=heads,
        head_dim=width // heads,
        v_head_dim=value.shape[2] // heads,
        past_capacity=past_capacity,
        capacity=past_capacity + new_rows if shared is None else past_capacity,
        q_len=(rows,) * batch,
        past_len=(past_rows,) * batch,
        new_len=(new_rows,) * batch,
        visible=_visible(node, batch, rows, past_rows, new_rows),
        scale=node.attribute("scale", 0.0) or 1.0 / math.sqrt(width // heads),
        softcap=0.0,
        empty_row="mean",
        rotary=None,
        query=Tensor(query_name, "bsnh"),
        key=Tensor(key_name, "bsnh"),
        value=Tensor(value_name, "bsnh"),
        past_key=None if past_key is None else Tensor(past_key, "bnsh"),
        past_value=None if past_value is None else Tensor(past_value, "bnsh"),
        output=Tensor(node.output(0) or "output", "bsnh"),
        present_key=None if present_key is None else Tensor(present_key, "bnsh"),
        present_value=None if present_value is None else Tensor(present_value, "bnsh"),
        masks=(*_key_masks(node, past_rows + new_rows), *_biases(node)),
        invalid=_invalid(past_rows, new_rows, past_capacity) if shared is not None else "",
    )


def _invalid(past: int, new: int, slots: int) -> str:
    """Why new rows cannot follow a past in a buffer that past and present share, or nothing."""
    if past >= 0 and past + new <= slots:
        return ""
    return f"past_sequence_length {past} and {new} new row(s) do not fit into the shared buffer of {slots} slots"


def _visible(node: Node, batch: int, rows: int, past_rows: int, new_rows: int) -> NDArray[np.int32]:
    past_len = np.full(batch, past_rows)
    causal = node.attribute("unidirectional", 0) == 1
    visible = intervals.causal(past_len, rows) if causal else intervals.everything(past_len + new_rows, rows)
    first, end = _unmasked(node, batch, past_rows + new_rows)
    return intervals.narrowed(intervals.between(visible, first, end))


def _unmasked(node: Node, batch: int, kv_len: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and end slot that the key mask leaves to each batch entry; everything where it becomes a Mask."""
    mask = node.array(4)
    first, end = np.zeros(batch, np.int64), np.full(batch, kv_len)
    if mask is None or mask.ndim == 3:
        return first, end
    if mask.shape in ((batch,), (3 * batch + 2,)):
        return first, np.asarray(mask, np.int64)[:batch]
    if mask.shape != (batch, kv_len):
        raise Unreadable(
            f"{node.op} with a key_padding_mask of shape {list(mask.shape)} is not read by attncheck: "
            f"[{batch}], [{3 * batch + 2}], [{batch}, {kv_len}] and [{batch}, rows, {kv_len}] are"
        )
    kept = np.asarray(mask) != 0
    return (first, end) if _has_holes(kept) else _ends(kept)


def _has_holes(kept: NDArray[np.bool_]) -> bool:
    """Whether some row of [batch, kv_len] keeps more than one run of keys."""
    starts = np.diff(kept.astype(np.int8), axis=1, prepend=0) == 1
    return bool((starts.sum(axis=1) > 1).any())


def _ends(kept: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and end of each row's one run of kept keys."""
    first = kept.argmax(axis=1).astype(np.int64)
    return first, first + kept.sum(axis=1).astype(np.int64)


def _key_masks(node: Node, kv_len: int) -> tuple[Mask, ...]:
    """The key mask where no interval says it: it differs from query to query, or has holes."""
    name, mask = node.name(4), node.array(4)
    if name is None or mask is None:
        return ()
    if mask.ndim == 3:
        batch, rows, slots = mask.shape
        return (Mask(name, "integer", (batch, 1, rows, slots), slots),)
    if mask.ndim == 2 and _has_holes(np.asarray(mask) != 0):
        return (Mask(name, "integer", (mask.shape[0], 1, 1, kv_len), kv_len),)
    return ()


def _biases(node: Node) -> tuple[Mask, ...]:
    name, bias = node.name(5), node.array(5)
    return () if name is None or bias is None else (Mask(name, "additive", bias.shape, bias.shape[-1]),)
