"""The canonical attention problem: what every operator becomes before an oracle or a kernel sees it.

A Problem knows no operator's conventions. Causal alignment, windows, ragged lengths and padding have become
one visible key interval ``[lo, hi)`` a query row, in slots of the present KV buffer. It is plain data: names of
graph inputs and outputs, integers, floats, small integer arrays; never the big tensors themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from attncheck.problem.tensors import Arrays, Role, Rotary, Tensor

EmptyRow = Literal["zero", "mean"]
"""What a query row without a visible key gives: zeros, or the mean of V over the slots [0, kv_len)."""


ScoreStage = Literal["raw", "capped", "biased", "weights"]
"""Which scores an output holds: scale * q.k; after softcap; after masks, -inf where hidden; after softmax."""


@dataclass(frozen=True)
class Columns:
    """A graph input whose last axis, `count` long, holds a column for each element of queries, keys and values.

    query, key, value  where the heads * dim columns of each begin; None: it has none
    """

    name: str
    count: int
    query: int | None
    key: int | None
    value: int | None

    def first(self, role: str) -> int | None:
        """Where the columns of "query", "key" or "value" begin."""
        return {"query": self.query, "key": self.key, "value": self.value}[role]


@dataclass(frozen=True)
class Projection:
    """What makes queries, new keys and new values of their inputs: input @ weights + bias.

    weights  in the case's dtype, [width, columns]; None: the inputs are the rows, and only the bias is added
    bias     in the case's dtype, [columns]; None: nothing is added
    width    of an input row [batch, rows, width], with weights
    """

    weights: Columns | None
    bias: Columns | None
    width: int = 0


@dataclass(frozen=True)
class Blocks:
    """Block masks that heads take in turn, of which the content of a mask is made.

    size     tokens of a block
    layouts  bool [layouts, blocks, blocks]: which blocks of keys a block of queries sees
    """

    size: int
    layouts: NDArray[np.bool_]

    def over(self, heads: int, positions: NDArray[np.int64], slots: int) -> NDArray[np.bool_]:
        """Which of `slots` keys the queries at `positions` [batch, rows] see: bool [batch, heads or 1, rows, slots]."""
        last = self.layouts.shape[1] - 1
        keys = np.minimum(np.arange(slots) // self.size, last)
        own = np.minimum(positions // self.size, last)
        shown = self.layouts[:, own[:, :, None], keys[None, None, :]].transpose(1, 0, 2, 3)
        return shown if len(self.layouts) == 1 else shown[:, np.arange(heads) % len(self.layouts)]


@dataclass(frozen=True)
class Mask:
    """An array over the scores [batch, heads, rows, slots], of rank 1 to 4, broadcast from the right.

    kind    "additive": in the case's dtype, added after softcap, -inf hides a key; "boolean": true lets a key take
            part; "integer": int32, other than 0 lets a key take part
    shape   how the array is to be looked at; the graph input has as many elements, in this order
    slots   slots [0, slots) are spoken for; keys behind them are hidden. The last axis is `slots` long, or 1 for all
    content the array itself where no input holds it: what the graph says in another form
    blocks  what the content was made of, where blocks of keys are hidden
    """

    name: str
    kind: Literal["additive", "boolean", "integer"]
    shape: tuple[int, ...]
    slots: int
    content: NDArray[np.bool_] | None = None
    blocks: Blocks | None = None

    def array(self, inputs: Arrays) -> NDArray[np.generic]:
        """The mask's array, in its shape."""
        return (inputs[self.name] if self.content is None else self.content).reshape(self.shape)


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
class Quantised:
    """KV buffers of integers n, each of which stands for n * scale.

    dtype       "int8", or "int4x2": two to a byte, each plus 8, the even element in the lower half
    key, value  graph inputs: the scales, float32, which broadcast to [batch, kv_heads, slots, head_dim]
    """

    dtype: str
    key: str
    value: str


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
    projection       what queries, new keys and new values go through before anything else
    softmax          dtype that the softmax may be computed in, where it has fewer bits than the tensors; else ""
    quantised        where the past and present buffers hold integers: which, and their scales
    norm             what is done to each head of the new queries and keys before rotary
    evicts           where the buffers hold less than all slots: which
    beams            int32 [batch, capacity]: the batch entry whose slot attention reads, in the place of its own; None:
                     every entry reads its own. `present` holds its own all the same
    invalid          why the operator's text forbids this graph: a backend must refuse it, and no answer is stated

    `present_key`, `present_value` are None when the graph does not ask for them; the computation is the same. Where
    they lie in pages, what no batch entry changes is to stay as it is in `past_key`, `past_value`.
    """

    kind: ClassVar[str] = "attention"
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
    projection: Projection | None = None
    softmax: str = ""
    quantised: Quantised | None = None
    norm: Norm | None = None
    evicts: Eviction | None = None
    beams: NDArray[np.int32] | None = None
    invalid: str = ""

    @property
    def cache_dtype(self) -> str:
        """What the past and present buffers are in."""
        return self.dtype if self.quantised is None else self.quantised.dtype

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
    def inputs(self) -> tuple[Role, ...]:
        """The inputs that hold rows; those that weights project are one, a head as wide as its rows."""
        new, past = (self.batch, self.kv_heads, self.new_rows), (self.batch, self.kv_heads, self.past_capacity)
        own, cache = self.dtype, self.cache_dtype
        rows: tuple[tuple[str, Tensor | None, tuple[int, int, int, int], str], ...] = (
            ("query", self.query, (self.batch, self.heads, self.rows, self.head_dim), own),
            ("key", self.key, (*new, self.head_dim), own),
            ("value", self.value, (*new, self.v_head_dim), own),
        )
        if self.projection is not None and self.projection.weights is not None:
            rows = (("rows", self.query, (self.batch, 1, self.rows, self.projection.width), own),)
        found = (
            *rows,
            ("past_key", self.past_key, (*past, self.head_dim), cache),
            ("past_value", self.past_value, (*past, self.v_head_dim), cache),
        )
        return tuple(Role(name, tensor, shape, dtype) for name, tensor, shape, dtype in found if tensor is not None)

    @property
    def outputs(self) -> tuple[Role, ...]:
        """Every output of the graph, in its order; the first always states something."""
        rows, present = (self.batch, self.heads, self.rows), (self.batch, self.kv_heads, self.present_capacity)
        scores = None if self.scores is None else Tensor(self.scores.name, "bnsh")
        slots = 0 if self.scores is None else self.scores.slots
        own, cache = self.dtype, self.cache_dtype
        presents: tuple[tuple[str, Tensor | None, tuple[int, int, int, int], str], ...] = (
            ("present_key", self.present_key, (*present, self.head_dim), cache),
            ("present_value", self.present_value, (*present, self.v_head_dim), cache),
        )
        if self.merges_presents:
            both = (self.batch, 2 * self.kv_heads, self.present_capacity, self.head_dim)
            presents = (("present", self.present_key, both, cache),)
        output, given = ("output", self.output, (*rows, self.v_head_dim), own), ("scores", scores, (*rows, slots), own)
        found = (output, *presents, given)
        return tuple(
            Role(name, tensor, self._in_pages(tensor, shape), dtype)
            for name, tensor, shape, dtype in found
            if tensor is not None
        )

    def _in_pages(self, tensor: Tensor, shape: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
        """The shape of an output, [pages, heads, page, dim] of one that lies in pages."""
        at = tensor.scattered
        return shape if at is None or not at.page else (at.shape[0], shape[1], at.page, shape[3])

    @property
    def merges_presents(self) -> bool:
        """Whether present keys and values are one output, the heads of the keys first."""
        key, value = self.present_key, self.present_value
        return key is not None and value is not None and key.name == value.name

    def as_read(self, slots: NDArray[np.float64]) -> NDArray[np.float64]:
        """All slots [batch, kv_heads, capacity, dim] as attention reads them: with `beams` some are another entry's."""
        if self.beams is None:
            return slots
        return slots.transpose(0, 2, 1, 3)[self.beams, np.arange(self.capacity)].transpose(0, 2, 1, 3)

    @property
    def paged(self) -> bool:
        """Whether past and present are one array of pages, which the new rows change in place."""
        return self.past_key is not None and self.past_key.scattered is not None

    @property
    def stated_rows(self) -> NDArray[np.bool_]:
        """Which query rows mean something: [batch, rows], true in [0, q_len)."""
        return np.arange(self.rows) < np.asarray(self.q_len)[:, None]

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
