"""The canonical attention problem: what every operator becomes before an oracle or a kernel sees it.

A Problem knows no operator's conventions. Causal alignment, windows, ragged lengths and padding have become
one visible key interval ``[lo, hi)`` a query row, in slots of the present KV buffer. It is plain data: names of
graph inputs and outputs, integers, floats, small integer arrays; never the big tensors themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Layout = Literal["bsnh", "bnsh"]
"""``bsnh``: [batch, rows, heads * dim] or [batch, rows, heads, dim]; ``bnsh``: [batch, heads, rows, dim]."""

EmptyRow = Literal["zero", "mean"]
"""What a query row without a visible key gives: zeros, or the mean of V over the slots [0, kv_len)."""


ScoreStage = Literal["raw", "capped", "biased", "weights"]
"""Which scores an output holds: scale * q.k; after softcap; after masks, -inf where hidden; after softmax."""


@dataclass(frozen=True)
class Tensor:
    """Where a role's array is found: the graph input or output name, and how its axes are laid out.

    packed, first   a role that shares its array with others: how many heads the array has in all, and which is the
                    role's first; packed 0: the array is the role's own
    """

    name: str
    layout: Layout
    packed: int = 0
    first: int = 0


@dataclass(frozen=True)
class Mask:
    """A graph input over the scores [batch, heads, rows, slots], of rank 1 to 4, broadcast from the right.

    kind    "additive": in the case's dtype, added after softcap, -inf hides a key; "boolean": true lets a key take
            part; "integer": int32, other than 0 lets a key take part
    shape   how the array is to be looked at; the graph input has as many elements, in this order
    slots   slots [0, slots) are spoken for; keys behind them are hidden. The last axis is `slots` long, or 1 for all
    """

    name: str
    kind: Literal["additive", "boolean", "integer"]
    shape: tuple[int, ...]
    slots: int


@dataclass(frozen=True)
class Scores:
    """A graph output [batch, heads, rows, slots] that holds scores; `slots` is its last axis, from slot 0 on.

    hidden_stated  whether the operator's text says what stands for a key that the query does not see
    """

    name: str
    stage: ScoreStage
    slots: int
    hidden_stated: bool = True


@dataclass(frozen=True)
class Rotary:
    """Rotary position embedding of the new queries and new keys.

    style      "half" pairs dim d with d + dim/2; "interleaved" pairs 2d with 2d+1
    dim        how many leading dims of head_dim turn (even, <= head_dim)
    cos, sin   graph input names of the caches, [rows, dim/2], in the case's dtype
    positions  int32 [batch, rows]: the cache row that token `i` of batch entry `b` uses
    """

    style: Literal["half", "interleaved"]
    dim: int
    cos: str
    sin: str
    positions: NDArray[np.int32]


@dataclass(frozen=True)
class Norm:
    """RMS normalisation of each head of the new queries and new keys, before any rotary embedding.

    query, key                  graph inputs [head_dim] in the case's dtype: the gains
    query_epsilon, key_epsilon  added to the mean of the squares
    """

    query: str
    key: str
    query_epsilon: float
    key_epsilon: float


@dataclass(frozen=True)
class Eviction:
    """Buffers that hold the last keys of each batch entry only, from their row 0 on.

    past, present  per batch entry, the slot that row 0 of the past or the present buffers stands for
    capacity       length of the present buffers
    """

    past: tuple[int, ...]
    present: tuple[int, ...]
    capacity: int


@dataclass(frozen=True)
class Problem:
    """One attention computation, with GQA, MQA and MHA as values of heads / kv_heads.

    Sizes
      rows           padded number of query rows a batch entry (the S dimension of the query tensor)
      new_rows       padded number of new key/value rows (the S dimension of key and value)
      past_capacity  length of the past buffers, 0 when there are none
      capacity       number of slots, which is the length of the present buffers where none is evicted
    Per batch entry (tuples of length batch)
      q_len          query rows that mean something; rows [q_len, rows) of the output are unspecified
      past_len       leading rows of the past buffers that are read, and kept as slots [0, past_len) of present
      new_len        new rows that are appended, as slots [past_len, past_len + new_len) of present
    visible          int32 [batch, rows, 2]: query row i sees the present slots [lo, hi); lo >= hi sees none
    scale            multiplies q.k (never 0 by default: the operator's default has been applied)
    softcap          0.0 for none, else score -> softcap * tanh(score / softcap), after scale, before masks and softmax
    masks            beside `visible`: a key counts where the interval and every mask let it
    sink             graph input [heads] in the case's dtype: exp(sink) joins the denominator of each row of the head
    smooth           as a sink of 0 for every head
    norm             what is done to each head of the new queries and keys before rotary
    evicts           where the buffers hold less than all slots: which
    invalid          why the operator's text forbids this graph: a backend must refuse it, and no answer is stated

    `present_key`, `present_value` are None when the graph does not ask for them; the computation is the same.
    """

    op: str
    dtype: str
    batch: int
    rows: int
    new_rows: int
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    past_capacity: int
    capacity: int
    q_len: tuple[int, ...]
    past_len: tuple[int, ...]
    new_len: tuple[int, ...]
    visible: NDArray[np.int32]
    scale: float
    softcap: float
    empty_row: EmptyRow
    rotary: Rotary | None
    query: Tensor
    key: Tensor
    value: Tensor
    past_key: Tensor | None
    past_value: Tensor | None
    output: Tensor
    present_key: Tensor | None
    present_value: Tensor | None
    masks: tuple[Mask, ...] = ()
    sink: str | None = None
    smooth: bool = False
    scores: Scores | None = None
    norm: Norm | None = None
    evicts: Eviction | None = None
    invalid: str = ""

    @property
    def past_first(self) -> tuple[int, ...]:
        """The slot of each batch entry that row 0 of the past buffers stands for."""
        return (0,) * self.batch if self.evicts is None else self.evicts.past

    @property
    def present_first(self) -> tuple[int, ...]:
        """The slot of each batch entry that row 0 of the present buffers stands for."""
        return (0,) * self.batch if self.evicts is None else self.evicts.present

    @property
    def present_capacity(self) -> int:
        """Length of the present buffers."""
        return self.capacity if self.evicts is None else self.evicts.capacity

    @property
    def group(self) -> int:
        """Query heads that share one KV head."""
        return self.heads // self.kv_heads

    @property
    def averages_empty_rows(self) -> bool:
        """Whether a row without a visible key gives the mean of V; beside a sink it gives 0 by arithmetic."""
        return self.empty_row == "mean" and self.sink is None and not self.smooth

    @property
    def kv_len(self) -> tuple[int, ...]:
        """Keys a batch entry holds after the new ones are appended."""
        return tuple(past + new for past, new in zip(self.past_len, self.new_len, strict=True))


def role_heads(array: NDArray[np.generic], tensor: Tensor, heads: int) -> NDArray[np.generic]:
    """View the `heads` heads of a role in its array as [batch, heads, rows, dim], whatever the layout or packing."""
    if not tensor.packed:
        return split_heads(array, tensor.layout, heads)
    return split_heads(array, tensor.layout, tensor.packed)[:, tensor.first : tensor.first + heads]


def split_heads(array: NDArray[np.generic], layout: Layout, heads: int) -> NDArray[np.generic]:
    """View `array` as [batch, heads, rows, dim] whatever its layout (3-D bsnh arrays are unpacked by `heads`)."""
    if layout == "bnsh":
        return array
    if array.ndim == 3:
        batch, rows, width = array.shape
        array = array.reshape(batch, rows, heads, width // heads)
    return array.transpose(0, 2, 1, 3)


Arrays = Mapping[str, NDArray[np.generic]]
"""Graph input or output name -> array."""
