"""Reads com.microsoft GroupQueryAttention, by its operator text in ONNX Runtime 1.32.

``seqlens_k`` is each entry's total length - 1. An entry has ``query_seqlens`` new tokens, or min(rows, total) without
that input, right-padded, and total minus that many before them. Attention is causal by absolute position, unless
``causal`` is 0; ``local_window_size`` counts the keys that a query sees, itself included; softcap comes after scale and
before bias and mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.eviction import resident
from attncheck.graph.read import intervals
from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import Eviction, Mask, Norm, Problem, Quantised, Rotary, Scores, ScoreStage, Tensor

_ATTRIBUTES = (
    "num_heads", "kv_num_heads", "scale", "softcap", "local_window_size", "do_rotary", "rotary_interleaved",
    "smooth_softmax", "causal", "qk_output", "qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon",
    "sliding_window_cache", "k_quant_type", "v_quant_type", "kv_cache_bit_width",
)  # fmt: skip
_CACHES = {("int8", 8): "int8", ("uint8", 4): "int4x2"}
"""dtype of the past buffers and kv_cache_bit_width -> what they hold."""
_STAGES: dict[int, ScoreStage] = {1: "biased", 2: "weights"}
"""qk_output: "before (1) or after (2) softmax normalization"."""


@dataclass(frozen=True)
class _Lengths:
    """Tokens of each batch entry, int64 [batch]: new ones and those before; `rows` is the padded number of new ones."""

    rows: int
    new: NDArray[np.int64]
    past: NDArray[np.int64]


def read(node: Node) -> Problem:
    """The Problem of a GroupQueryAttention node. Raises Unreadable for features that attncheck does not know."""
    node.refuse_attributes(_ATTRIBUTES)
    heads, kv_heads = node.attribute("num_heads", 0), node.attribute("kv_num_heads", 0)
    query, key, value = _new(node, heads, kv_heads)
    batch, rows, width = node.required(0)[1].shape
    head_dim = node.head_dim(0, width, heads, 2 * kv_heads if query.packed else 0)
    lengths = _lengths(node, rows)
    longest = int(node.required(6)[1].reshape(-1)[0])
    past = node.array(3)
    past_capacity = 0 if past is None else past.shape[2]
    rotary = _rotary(node, lengths, longest)
    evicts = _evicts(node, lengths, past_capacity)
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
        past_capacity=past_capacity,
        capacity=max(past_capacity, longest) if evicts is None else longest,
        q_len=tuple(lengths.new.tolist()),
        past_len=tuple(lengths.past.tolist()),
        new_len=tuple(lengths.new.tolist()),
        visible=_visible(node, lengths),
        scale=node.scale(head_dim),
        softcap=node.attribute("softcap", 0.0),
        empty_row="zero",
        rotary=rotary,
        query=query,
        key=key,
        value=value,
        past_key=node.given(3),
        past_value=node.given(4),
        output=Tensor(node.output(0) or "output", "bsnh"),
        present_key=node.asked(1),
        present_value=node.asked(2),
        masks=_masks(node),
        sink=node.name(11),
        smooth=node.attribute("smooth_softmax", 0) == 1 and node.name(11) is None,
        scores=_scores(node, longest),
        quantised=_quantised(node),
        norm=_norm(node),
        evicts=evicts,
        invalid=_invalid(node, lengths, rotary, past_capacity),
    )


def _new(node: Node, heads: int, kv_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value; without a key all three are packed into the query."""
    query, key, value = node.required(0)[0], node.name(1), node.name(2)
    if key is not None and value is not None:
        return Tensor(query, "bsnh"), Tensor(key, "bsnh"), Tensor(value, "bsnh")
    if key is not None or value is not None:
        raise Unreadable(f"{node.op} needs key and value, or neither of them and a packed query")
    every = heads + 2 * kv_heads
    firsts = (0, heads, heads + kv_heads)
    packed = [Tensor(query, "bsnh", every, first) for first in firsts]
    return packed[0], packed[1], packed[2]


def _lengths(node: Node, rows: int) -> _Lengths:
    total = np.asarray(node.required(5)[1], np.int64).reshape(-1) + 1
    said = node.array(16)
    new = np.minimum(rows, total) if said is None else np.asarray(said, np.int64)
    return _Lengths(rows, new, total - new)


def _visible(node: Node, it: _Lengths) -> NDArray[np.int32]:
    causal = node.attribute("causal", 1) == 1
    visible = intervals.causal(it.past, it.rows) if causal else intervals.everything(it.past + it.new, it.rows)
    window = node.attribute("local_window_size", -1)
    if window > 0:
        visible = intervals.windowed(visible, window)
    visible = intervals.between(visible, np.zeros_like(it.past), it.past + it.new)
    visible[np.arange(it.rows) >= it.new[:, None]] = 0
    return intervals.narrowed(visible)


def _norm(node: Node) -> Norm | None:
    """q_norm_weight and k_norm_weight, each with its own epsilon, or qk_norm_epsilon, or 1e-6."""
    query, key = node.name(14), node.name(15)
    if query is None or key is None:
        return None
    shared = node.attribute("qk_norm_epsilon", 1e-6)
    return Norm(query, key, node.attribute("q_norm_epsilon", shared), node.attribute("k_norm_epsilon", shared))


def _quantised(node: Node) -> Quantised | None:
    """Buffers of int8, or of two 4-bit integers a byte; the others that T_CACHE names are not read."""
    kinds = {node.attribute(f"{role}_quant_type", b"NONE").decode() for role in ("k", "v")}
    if kinds == {"NONE"}:
        return None
    past, key, value = node.array(3), node.name(12), node.name(13)
    held = "" if past is None else str(past.dtype)
    bits = node.attribute("kv_cache_bit_width", 8)
    if (held, bits) not in _CACHES or key is None or value is None or "NONE" in kinds:
        raise Unreadable(
            f"{node.op} with past buffers of {held or 'no dtype'} and {bits} bits is not read: int8 of 8 bits and "
            "uint8 of 4 are, for keys and values alike, each with its scale"
        )
    return Quantised(_CACHES[held, bits], key, value)


def _evicts(node: Node, it: _Lengths, capacity: int) -> Eviction | None:
    window = node.attribute("local_window_size", -1)
    if not node.attribute("sliding_window_cache", 0) or not 0 < window <= capacity:
        return None
    past, total = (length - resident(length, capacity, window) for length in (it.past, it.past + it.new))
    return Eviction(tuple(past.tolist()), tuple(total.tolist()), capacity)


def _masks(node: Node) -> tuple[Mask, ...]:
    name, bias = node.name(10), node.array(10)
    return () if name is None or bias is None else (Mask(name, "additive", bias.shape, bias.shape[-1]),)


def _scores(node: Node, longest: int) -> Scores | None:
    name, stage = node.output(3), node.attribute("qk_output", 0)
    if name is None:
        return None
    if node.attribute("sliding_window_cache", 0):
        raise Unreadable(f"{node.op} with output_qk and sliding_window_cache is not read: its text gives no shape")
    if stage not in _STAGES:
        raise Unreadable(f"{node.op} is asked for output_qk, but qk_output is {stage}: 1 and 2 say what it holds")
    # "Values of QK matrix multiplication, before softmax": ONNX Runtime writes 0 for keys that causality or a window
    # hides, and -inf where a bias is; the text says neither.
    return Scores(name, _STAGES[stage], longest, hidden_stated=_STAGES[stage] != "biased")


def _rotary(node: Node, lengths: _Lengths, longest: int) -> Rotary | None:
    """New token i of an entry stands at position past + i, or where position_ids says.

    "When processing the first prompt the kernel uses only the first element" of position_ids: tokens then follow it.
    With query_seqlens, total_sequence_length is not "used to tell a first prompt from a later chunk".
    Padded rows, which are not read, take position 0.
    """
    cos = node.array(7)
    if not node.attribute("do_rotary", 0) or cos is None or node.array(8) is None:
        return None
    steps = np.arange(lengths.rows)
    positions = lengths.past[:, None] + steps
    said = node.array(9)
    if said is not None:
        ids = np.asarray(said, np.int64)
        first_prompt = node.name(16) is None and lengths.rows == longest and lengths.rows > 1
        if ids.shape != positions.shape or first_prompt:
            ids = ids.reshape(-1)[0] + steps
        positions = np.broadcast_to(ids, positions.shape)
    return Rotary(
        style="interleaved" if node.attribute("rotary_interleaved", 0) else "half",
        dim=2 * cos.shape[1],
        cos=node.required(7)[0],
        sin=node.required(8)[0],
        positions=np.where(steps < lengths.new[:, None], positions, 0).astype(np.int32),
    )


def _invalid(node: Node, lengths: _Lengths, rotary: Rotary | None, capacity: int) -> str:
    """Why the operator's text forbids the node, or nothing."""
    if node.attribute("sliding_window_cache", 0) and not 0 < node.attribute("local_window_size", -1) <= capacity:
        return "sliding_window_cache needs a local_window_size above 0 and past buffers at least as long"
    if (node.name(14) is None) != (node.name(15) is None):
        return "q_norm_weight and k_norm_weight must be provided together"
    if node.attribute("do_rotary", 0) and rotary is None:
        return "do_rotary=1 needs cos_cache and sin_cache"
    if rotary is not None and (misplaced := _misplaced(node, rotary)):
        return misplaced
    if node.attribute("causal", 1) == 0 and node.name(16) is not None:
        return "query_seqlens requires causal=1"
    if node.attribute("causal", 1) == 0 and node.attribute("local_window_size", -1) != -1:
        return "local_window_size must be -1 when causal is 0"
    if (lengths.new < 0).any() or (lengths.past < 0).any() or (lengths.new > lengths.rows).any():
        return "query_seqlens must lie between 0 and min(sequence_length, seqlens_k + 1)"
    return "" if node.attribute("sliding_window_cache", 0) else _without_room(node, lengths, capacity)


def _without_room(node: Node, lengths: _Lengths, capacity: int) -> str:
    """What past buffers are too short for, where the operator evicts nothing, or nothing."""
    if (lengths.past > capacity).any():
        return f"seqlens_k speaks of {lengths.past.max()} past tokens, and past_key has {capacity} rows"
    longest = int(node.required(6)[1].reshape(-1)[0])
    if node.name(16) is None and 0 < capacity < longest != capacity + lengths.rows:
        # past_key is "of length max_sequence_length" where it is shared, "otherwise of length past_sequence_length".
        return f"past_key has {capacity} rows: neither the past alone, nor room for the {longest} keys of the total"
    return ""


def _misplaced(node: Node, rotary: Rotary) -> str:
    """What is wrong with the rotary positions, or nothing."""
    said, rows = node.array(9), node.required(7)[1].shape[0]
    if said is not None and said.shape != rotary.positions.shape:
        return f"position_ids must be {list(rotary.positions.shape)}, not {list(said.shape)}"
    for position in (rotary.positions.min(initial=0), rotary.positions.max(initial=0)):
        if not 0 <= position < rows:
            return f"position {position} lies outside of the {rows} rows of cos_cache"
    return ""
