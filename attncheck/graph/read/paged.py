"""Reads com.microsoft PagedAttention, by its operator text in ONNX Runtime 1.32.

The new tokens of all sequences follow each other without padding; ``cumulative_sequence_length`` says where each
begins. Keys and values lie in blocks that ``block_table`` deals out, and the node writes the new ones into them in
place: slot s of a sequence is row s mod block_size of its block s div block_size. Rotary counts from ``past_seqlens``;
the window counts the query's own key (the text says "left_window_size", ONNX Runtime's CUDA kernels count so).
``slot_mapping`` is read where it says what follows from the table; ``attention_metadata`` holds bounds, no lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.read import intervals
from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import Norm, Problem, Rotary, Scattered, Tensor

_ATTRIBUTES = (
    "num_heads", "kv_num_heads", "scale", "softcap", "local_window_size", "is_causal", "do_rotary",
    "rotary_interleaved", "rotary_offset", "qk_norm_epsilon", "kv_cache_layout", "k_quant_type", "v_quant_type",
    "k_cache_dtype", "v_cache_dtype", "v_head_size",
)  # fmt: skip
_DEFAULTS: dict[str, tuple[Any, str]] = {
    "rotary_offset": (0, "only leading dims of a head turn in a Problem"),
    "kv_cache_layout": (b"SEPARATE", "a Problem has no values that are columns of its keys"),
    "v_head_size": (0, "it belongs to the LATENT layout"),
    "k_quant_type": (b"NONE", "pages of integers have no scales in a Problem"),
    "v_quant_type": (b"NONE", "pages of integers have no scales in a Problem"),
}
"""Attributes that are read at their default only: that, and why nothing else is."""
Int = NDArray[np.int64]


@dataclass(frozen=True)
class _Lengths:
    """Per sequence: where its new tokens begin, how many they are, and how many keys it has before them."""

    starts: Int
    new: Int
    past: Int

    @property
    def total(self) -> Int:
        return self.past + self.new

    @property
    def rows(self) -> int:
        return int(self.new.max(initial=0))


def read(node: Node) -> Problem:
    """The Problem of a PagedAttention node. Raises Unreadable for features that attncheck does not know."""
    node.refuse_attributes(_ATTRIBUTES)
    _refuse_others(node)
    heads, kv_heads = node.attribute("num_heads", 0), node.attribute("kv_num_heads", 0)
    lengths = _lengths(node)
    query, key, value = _new(node, lengths, heads, kv_heads)
    past_key, past_value, table = node.required(3)[0], node.required(4)[0], np.asarray(node.required(7)[1], np.int64)
    head_dim = node.required(3)[1].shape[3]
    before = _pages(node, table, np.full(len(table), table.shape[1] * node.required(3)[1].shape[1]))
    after = _pages(node, table, lengths.total)
    _hold_slots(node, lengths, after)
    rotary = _rotary(node, lengths)
    return Problem(
        op=node.op,
        dtype=node.dtype(0),
        batch=len(lengths.new),
        rows=lengths.rows,
        new_rows=lengths.rows,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=head_dim,
        past_capacity=before.places.shape[1],
        capacity=before.places.shape[1],
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
        past_key=Tensor(past_key, "scattered", scattered=before),
        past_value=Tensor(past_value, "scattered", scattered=before),
        output=_tokens(node.output(0) or "output", lengths, heads * head_dim),
        present_key=_present(node, 1, after),
        present_value=_present(node, 2, after),
        sink=node.name(11),
        norm=_norm(node),
        invalid=_invalid(node, lengths, table, rotary),
    )


def _refuse_others(node: Node) -> None:
    """Raise Unreadable for caches in other forms than two of the queries' dtype."""
    for attribute, (default, why) in _DEFAULTS.items():
        said = node.attribute(attribute, default)
        if said != default:
            word = said.decode() if isinstance(said, bytes) else said
            raise Unreadable(f"{node.op} with the attribute {attribute}={word} is not read by attncheck: {why}")
    for attribute in ("k_cache_dtype", "v_cache_dtype"):
        said = node.attribute(attribute, b"").decode()
        if said not in ("", node.dtype(0)):
            raise Unreadable(
                f"{node.op} with the attribute {attribute}={said} is not read by attncheck: pages hold "
                f"{node.dtype(0)}, as queries do"
            )
    node.refuse_inputs({14: "k_scale", 15: "v_scale"})


def _hold_slots(node: Node, it: _Lengths, at: Scattered) -> None:
    """Raise Unreadable where ``slot_mapping`` stores a token elsewhere than ``block_table`` reads its key.

    "Block_table is still required, because it defines the read path": what it then reads there, no text says.
    """
    said = node.array(10)
    if said is None:
        return
    steps = np.arange(it.rows)
    slots = np.minimum(it.past[:, None] + steps, at.places.shape[1] - 1)
    wanted = np.take_along_axis(at.places.astype(np.int64), slots, axis=1)[steps < it.new[:, None]]
    found = np.asarray(said, np.int64).reshape(-1)
    if found.shape != wanted.shape:
        raise Unreadable(f"{node.op} with a slot_mapping of {found.size} slots for {wanted.size} tokens is not read")
    if (found != wanted).any():
        at_token = int(np.argmax(found != wanted))
        raise Unreadable(
            f"{node.op} with a slot_mapping that stores token {at_token} in slot {found[at_token]} is not read by "
            f"attncheck: block_table reads its key from slot {wanted[at_token]}, and no text says what stands there"
        )


def _lengths(node: Node) -> _Lengths:
    bounds = np.asarray(node.required(5)[1], np.int64).reshape(-1)
    return _Lengths(bounds[:-1], np.diff(bounds), np.asarray(node.required(6)[1], np.int64).reshape(-1))


def _tokens(name: str, lengths: _Lengths, width: int, packed: int = 0, first: int = 0) -> Tensor:
    """Rows that follow each other, sequence after sequence."""
    steps = np.arange(lengths.rows)
    places = np.where(steps < lengths.new[:, None], lengths.starts[:, None] + steps, -1).astype(np.int32)
    scattered = Scattered((int(lengths.new.sum()), width), places)
    return Tensor(name, "scattered", packed, first, scattered)


def _new(node: Node, lengths: _Lengths, heads: int, kv_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value; without a key all three are packed into the query."""
    (query, rows), key, value = node.required(0), node.name(1), node.name(2)
    width = rows.shape[1]
    if key is not None and value is not None:
        kv_width = kv_heads * node.head_dim(0, width, heads)
        return _tokens(query, lengths, width), _tokens(key, lengths, kv_width), _tokens(value, lengths, kv_width)
    if key is not None or value is not None:
        raise Unreadable(f"{node.op} needs key and value, or neither of them and a packed query")
    node.head_dim(0, width, heads, 2 * kv_heads)
    firsts = (0, heads, heads + kv_heads)
    packed = [_tokens(query, lengths, width, heads + 2 * kv_heads, first) for first in firsts]
    return packed[0], packed[1], packed[2]


def _pages(node: Node, table: Int, slots: Int) -> Scattered:
    """The first `slots` of each sequence in the blocks of the cache; what the table does not map lies nowhere."""
    shape = node.required(3)[1].shape
    slot = np.arange(table.shape[1] * shape[1])
    block = table[:, slot // shape[1]]
    mapped = (block >= 0) & (block < shape[0]) & (slot < slots[:, None])
    places = np.where(mapped, block * shape[1] + slot % shape[1], -1).astype(np.int32)
    return Scattered(shape, places, shape[1])


def _present(node: Node, index: int, at: Scattered) -> Tensor | None:
    name = node.output(index)
    return None if name is None else Tensor(name, "scattered", scattered=at)


def _visible(node: Node, it: _Lengths) -> NDArray[np.int32]:
    causal = node.attribute("is_causal", 1) == 1
    visible = intervals.causal(it.past, it.rows) if causal else intervals.everything(it.total, it.rows)
    window = node.attribute("local_window_size", -1)
    if window > 0:
        visible = intervals.around(visible, it.past, left=window - 1, right=-1)
    visible[np.arange(it.rows) >= it.new[:, None]] = 0
    return intervals.narrowed(visible)


def _norm(node: Node) -> Norm | None:
    query, key = node.name(12), node.name(13)
    if query is None or key is None:
        return None
    epsilon = node.attribute("qk_norm_epsilon", 1e-6)
    return Norm(query, key, epsilon, epsilon)


def _rotary(node: Node, it: _Lengths) -> Rotary | None:
    cos = node.array(8)
    if not node.attribute("do_rotary", 0) or cos is None or node.array(9) is None:
        return None
    steps = np.arange(it.rows)
    return Rotary(
        style="interleaved" if node.attribute("rotary_interleaved", 0) else "half",
        dim=2 * cos.shape[1],
        cos=node.required(8)[0],
        sin=node.required(9)[0],
        positions=np.where(steps < it.new[:, None], it.past[:, None] + steps, 0).astype(np.int32),
    )


def _invalid(node: Node, it: _Lengths, table: Int, rotary: Rotary | None) -> str:
    """Why the operator's text forbids the node, or nothing. Raises Unreadable for keys in blocks that nothing maps."""
    pages, size = node.required(3)[1].shape[:2]
    tokens = node.required(0)[1].shape[0]
    if it.starts[:1].any() or (it.new < 0).any() or it.new.sum() != tokens:
        return f"cumulative_sequence_length does not lead from 0 to the {tokens} tokens that there are"
    if (it.past < 0).any() or (it.total > table.shape[1] * size).any():
        return f"past_seqlens leaves a sequence with more keys than {table.shape[1]} blocks of {size} hold"
    used = np.arange(table.shape[1]) * size < it.total[:, None]
    if ((table[used] < 0) | (table[used] >= pages)).any():
        raise Unreadable(f"{node.op} whose block_table maps no block to some of the keys is not read by attncheck")
    if understated := _understated(node, it):
        return understated
    if node.attribute("do_rotary", 0) and rotary is None:
        return "do_rotary=1 needs cos_cache and sin_cache"
    cos = node.array(8)
    if rotary is not None and cos is not None and rotary.positions.max(initial=0) >= cos.shape[0]:
        return f"position {rotary.positions.max()} lies outside of the {cos.shape[0]} rows of cos_cache"
    return ""


def _understated(node: Node, it: _Lengths) -> str:
    """Which bound of ``attention_metadata`` is below what there is, or nothing: "an under-sized bound violates the
    contract". Otherwise the bounds "never enter a mask comparison", and 0 says nothing.
    """
    said = node.array(16)
    if said is None:
        return ""
    bounds = [int(bound) for bound in np.asarray(said).reshape(-1)]
    longest = (("max_query_len_bound", it.rows), ("max_kv_len_bound", int(it.total.max(initial=0))))
    for (name, real), bound in zip(longest, bounds, strict=False):
        if 0 < bound < real:
            return f"attention_metadata says {name} {bound}, and there are {real}"
    return ""
