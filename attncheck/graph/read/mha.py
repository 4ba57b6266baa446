"""Reads com.microsoft MultiHeadAttention, by its operator text in ONNX Runtime 1.32.

Every query row is computed: padding is said of keys only, by ``key_padding_mask`` (`key_mask`). ``unidirectional`` lets
a query see the keys up to its own. ``attention_bias`` is added to the scores. ``past_sequence_length`` says that past
and present are one buffer (`shared_buffer`), and ``cache_indirection`` whose past is read (`beams`). ``bias`` is that
"from input projection": it is added to queries, new keys and new values, but keys and values in four axes, which the
text calls past_key and past_value, hold it already. ``qk``, "normalized Q * K", is read as the scores that go into the
softmax.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.read import beams, intervals, key_mask, shared_buffer
from attncheck.graph.read.beams import Beams
from attncheck.graph.read.key_mask import KeyMask
from attncheck.graph.read.node import Node, Unreadable
from attncheck.graph.read.shared_buffer import Buffers
from attncheck.problem import Columns, Mask, Problem, Projection, Scores, Tensor

_ATTRIBUTES = ("num_heads", "scale", "unidirectional", "mask_filter_value")


@dataclass(frozen=True)
class New:
    """Queries, new keys and new values: where they are, how many rows and dims they have; whether K and V are past."""

    query: Tensor
    key: Tensor
    value: Tensor
    new_rows: int
    head_dim: int
    v_head_dim: int
    kept: bool = False


def read(node: Node) -> Problem:
    """The Problem of a MultiHeadAttention node. Raises Unreadable for features that attncheck does not know."""
    node.refuse_attributes(_ATTRIBUTES)
    new = _new(node, node.attribute("num_heads", 0))
    past = node.array(6)
    buffers = shared_buffer.read(node, 8, 0 if past is None else past.shape[2], new.new_rows)
    batch, rows = node.required(0)[1].shape[:2]
    mask = key_mask.read(node, 4, batch, rows, buffers.past + new.new_rows, what="key_padding_mask")
    if new.kept and node.name(9) is not None:
        raise Unreadable(f"{node.op} with cache_indirection beside keys in four axes is not read by attncheck")
    read_from = beams.read(node, 9, batch, buffers)
    return problem(node, new, buffers, mask, read_from, past=6, attention_bias=5, projection_bias=3)


def problem(
    node: Node,
    new: New,
    buffers: Buffers,
    mask: KeyMask,
    read_from: Beams,
    *,
    past: int,
    attention_bias: int,
    projection_bias: int,
    invalid: str = "",
) -> Problem:
    """What the operators of this family have in common.

    past, attention_bias, projection_bias   at which inputs they are: `past` that of past_key, past_value behind it
    invalid                                 what else the operator's text forbids
    """
    heads = node.attribute("num_heads", 0)
    batch, rows = node.required(0)[1].shape[:2]
    return Problem(
        op=node.op,
        dtype=node.dtype(0),
        batch=batch,
        rows=rows,
        new_rows=new.new_rows,
        heads=heads,
        kv_heads=heads,
        head_dim=new.head_dim,
        v_head_dim=new.v_head_dim,
        past_capacity=buffers.past_slots,
        capacity=buffers.present_slots,
        q_len=(rows,) * batch,
        past_len=(buffers.past,) * batch,
        new_len=(new.new_rows,) * batch,
        visible=visible(node, mask, batch, rows, buffers.past, new.new_rows),
        scale=node.scale(new.head_dim),
        softcap=0.0,
        empty_row="mean",
        rotary=None,
        query=new.query,
        key=new.key,
        value=new.value,
        past_key=node.given(past),
        past_value=node.given(past + 1),
        output=Tensor(node.output(0) or "output", "bsnh"),
        present_key=node.asked(1),
        present_value=node.asked(2),
        masks=(*mask.masks, *biases(node, attention_bias)),
        scores=_scores(node, buffers.past + new.new_rows),
        projection=_projection(node, projection_bias, heads, new),
        beams=read_from.entries,
        invalid=invalid or buffers.invalid or read_from.invalid,
    )


def visible(node: Node, mask: KeyMask, batch: int, rows: int, past: int, new: int) -> NDArray[np.int32]:
    """What queries see by ``unidirectional`` and the mask."""
    past_len = np.full(batch, past)
    causal = node.attribute("unidirectional", 0) == 1
    seen = intervals.causal(past_len, rows) if causal else intervals.everything(past_len + new, rows)
    return intervals.narrowed(intervals.between(seen, mask.first, mask.end))


def biases(node: Node, index: int) -> tuple[Mask, ...]:
    """``attention_bias`` at input `index`."""
    name, bias = node.name(index), node.array(index)
    return () if name is None or bias is None else (Mask(name, "additive", bias.shape, bias.shape[-1]),)


def _new(node: Node, heads: int) -> New:
    """Query, key and value in the four published forms."""
    (query_name, query), key, value = node.required(0), node.array(1), node.array(2)
    dims = tuple(0 if array is None else array.ndim for array in (query, key, value))
    if dims == (5, 0, 0) and query.shape[2:4] == (heads, 3):
        first, second, third = (Tensor(query_name, "bsnph", 3 * heads, part * heads) for part in range(3))
        return New(first, second, third, query.shape[1], query.shape[4], query.shape[4])
    own = Tensor(query_name, "bsnh")
    if key is not None and dims == (3, 5, 0) and key.shape[2:4] == (heads, 2):
        first, second = (Tensor(node.required(1)[0], "bsnph", 2 * heads, part * heads) for part in range(2))
        width = node.head_dim(0, query.shape[2], heads)
        return New(own, first, second, key.shape[1], width, key.shape[4])
    if key is None or value is None or dims not in ((3, 3, 3), (3, 4, 4)):
        shapes = ", ".join("none" if array is None else str(list(array.shape)) for array in (query, key, value))
        raise Unreadable(
            f"{node.op} with query, key, value of shapes {shapes} is not read by attncheck: three of 3 axes are, a "
            f"query of 3 with key and value of 4, a query of 3 with a key [batch, rows, {heads}, 2, dim], and a query "
            f"[batch, rows, {heads}, 3, dim]"
        )
    kept = key.ndim == 4
    first, second = (Tensor(node.required(index)[0], "bnsh" if kept else "bsnh") for index in (1, 2))
    width = node.head_dim(0, query.shape[2], heads)
    new_rows, v_head_dim = rows_and_dim(node, key, value, heads)
    return New(own, first, second, new_rows, width, v_head_dim, kept)


def rows_and_dim(node: Node, key: NDArray[np.generic], value: NDArray[np.generic], heads: int) -> tuple[int, int]:
    """How many rows key and value have, and how wide a head of the value is, whether they are of 3 axes or of 4."""
    return (key.shape[2], value.shape[3]) if key.ndim == 4 else (key.shape[1], node.head_dim(2, value.shape[2], heads))


def _projection(node: Node, index: int, heads: int, new: New) -> Projection | None:
    """``bias`` at input `index`: columns of queries, of keys and of values; kept keys and values have none."""
    name, bias = node.name(index), node.array(index)
    if name is None or bias is None:
        return None
    width = heads * new.head_dim
    key, value = (None, None) if new.kept else (width, 2 * width)
    return Projection(None, Columns(name, bias.shape[-1], 0, key, value))


def _scores(node: Node, kv_len: int) -> Scores | None:
    """``qk``, output 3. ONNX Runtime writes -10000 or the lowest number for hidden keys: no text says what is there."""
    name = node.output(3)
    return None if name is None else Scores(name, "biased", kv_len, hidden_stated=False)
