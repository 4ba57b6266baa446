"""The Scenario: one fully expanded, validated thing to test, with the place it was written at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Op = Literal[
    "gqa", "mha", "decoder-mha", "ms-attention", "attention", "sparse", "paged", "rotary", "ms-rotary", "linear",
    "ms-linear",
]  # fmt: skip
DType = Literal["float32", "float16", "bfloat16"]
Precision = Literal["float32", "float16", "bfloat16", "double"]
Dims = Literal["static", "symbolic"]
UpdateRule = Literal["linear", "gated", "delta", "gated-delta"]
Decay = Literal["by-head", "by-dim"]
Beta = Literal["by-head", "shared"]
PastState = Literal["absent", "zeros", "given"]
RotaryStyle = Literal["half", "interleaved"]
DataKind = Literal[
    "normal", "uniform", "one-hot", "constant", "large-logits", "rising-scores", "huge-logit", "ties", "few-rows"
]  # fmt: skip
Holes = Literal["none", "keys", "first-row", "middle-row", "last-row", "entry"]
KeyLengths = Literal["auto", "counts", "offsets", "ends-and-starts", "keys"]
Stage = Literal["raw", "capped", "biased", "weights"]
Packed = Literal["none", "qkv", "kv"]
Past = Literal["auto", "empty", "full"]
Positions = Literal["implicit", "explicit", "shifted", "zero", "scattered", "negative", "beyond", "one-row"]
KVCache = Literal["int8", "int4"]
KVScales = Literal["tensor", "channel"]
QkNorm = Literal["plain", "epsilon", "epsilons"]
Layout = Literal["bsnh", "bnsh"]
Kernel = Literal["auto", "naive", "online", "decode", "flash", "flash-large", "matrix"]
"""Keys from which on the kernel policy `auto` judges the online kernel first."""


@dataclass(frozen=True)
class Source:
    """Where a scenario was written: file as given by the user, 1-based line."""

    file: str
    line: int


@dataclass(frozen=True)
class Tolerance:
    """What replaces the derived tolerance: an absolute bound on every compared element, in the output's units."""

    max_abs: float


@dataclass(frozen=True)
class Step:
    """One call of a session, each list over the batch.

    q_len   new tokens
    accept  how many of them are kept, the first ones: the cache is rewound behind them before the next step
    label   what the step is called, "" for nothing
    refused whether the operator forbids the step: the last one alone
    """

    q_len: tuple[int, ...]
    accept: tuple[int, ...]
    label: str = ""
    refused: bool = False


@dataclass(frozen=True)
class Within:
    """Where in its session a step stands, for the data of its tokens.

    number  1 for the first step
    first   position of each entry's first new token, counted from the first new token of the session
    accept  how many new tokens are kept: the others are tokens of their own, which no other step has
    """

    number: int
    first: tuple[int, ...]
    accept: tuple[int, ...]


@dataclass(frozen=True)
class Scenario:
    """One case to test. Axes are named as everywhere in attncheck; every default has been filled in.

    q_len, past_len   one entry a batch member, length `batch`
    capacity          length of the KV buffers, past and present alike; None: exact (past is max(past_len) long,
                      present is max(kv_len) long)
    past              "empty": past buffers without a slot; "full": one buffer with present, no longer than the past
    scale             None: the operator's default, 1/sqrt(head_dim)
    softcap           0.0: none
    window            keys a query sees up to its own, that included; None: all
    rotary_dim        leading dims of each head that turn
    rotary_cache      rows of the cos/sin caches; 0 with a rotary: neither cache is given
    kv_len            keys a batch member holds after this call
    cross             whether kv_len is said, in place of past_len + q_len
    window_right      keys behind its own that a query sees; None: all
    bias, mask        shape over the scores, as "1xNxSxT"; None: not given
    key_lengths       in which form a mask of keys says lengths
    mask_len          keys that bias or mask speaks for; None: all
    present           whether the graph asks for the present buffers
    packed            what shares one tensor
    qkv_bias          whether queries, new keys and new values get a bias of the input projection
    input_dim         width of the rows that are projected; 0 for operators that project nothing
    beams             batch entries that are beams of one sequence, each of which reads the past of any of them
    query_seqlens     whether the graph is told how many new tokens each batch member has
    qk_norm           normalisation of queries and keys, and which epsilons are said; None: none
    window_cache      whether the buffers hold the keys of the window only, and the operator evicts the others
    kv_cache          integers that past and present hold; None: the dtype. kv_scales: what has a scale of its own
    sparse_block      tokens of a block of the block masks; sparse_layouts: how many of these heads take in turn
    page              tokens of a page of the cache, where there are pages
    slot_mapping      whether the graph says in which slot of the pages each new token is stored
    softmax_precision what the softmax is to be computed in; None: what the tensors are in
    dims              whether the graph says its dimensions as numbers or as names
    opset             version of ai.onnx Attention; 0 for other operators
    q_values, k_values, v_values, bias_values, sink_values   numbers in the place of generated ones, repeated as needed;
                      None: generated
    steps             the calls of a session, in order, each with the present of the one before as its past: q_len and
                      past_len are then those of the first. Empty: one call
    within            for one step of a session by itself: where it stands there
    tolerance         backend name, or "*" for every backend -> what replaces the derived tolerance there
    written           the axes that somebody wrote, each with its one spelling, in order: what `--case` takes
    """

    id: str
    source: Source
    op: Op
    dtype: DType
    batch: int
    q_len: tuple[int, ...]
    past_len: tuple[int, ...]
    kv_len: tuple[int, ...]
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    capacity: int | None = None
    scale: float | None = None
    softcap: float = 0.0
    window: int | None = None
    causal: bool = True
    rotary: RotaryStyle | None = None
    rotary_dim: int = 0
    rotary_cache: int = 0
    cross: bool = False
    window_right: int | None = None
    bias: str | None = None
    mask: str | None = None
    key_lengths: KeyLengths = "auto"
    mask_len: int | None = None
    holes: Holes = "none"
    sink: bool = False
    smooth: bool = False
    scores: Stage | None = None
    present: bool = True
    past: Past = "auto"
    packed: Packed = "none"
    qkv_bias: bool = False
    input_dim: int = 0
    beams: int = 1
    query_seqlens: bool = False
    qk_norm: QkNorm | None = None
    window_cache: bool = False
    kv_cache: KVCache | None = None
    kv_scales: KVScales = "tensor"
    layout: Layout = "bsnh"
    sparse_block: int = 16
    sparse_layouts: int = 1
    page: int = 16
    slot_mapping: bool = False
    softmax_precision: Precision | None = None
    dims: Dims = "static"
    opset: int = 0
    positions: Positions = "implicit"
    packed_batch: bool = False
    update_rule: UpdateRule = "gated-delta"
    decay: Decay = "by-head"
    beta: Beta = "by-head"
    past_state: PastState = "absent"
    data: DataKind = "normal"
    q_values: tuple[float, ...] | None = None
    k_values: tuple[float, ...] | None = None
    v_values: tuple[float, ...] | None = None
    bias_values: tuple[float, ...] | None = None
    sink_values: tuple[float, ...] | None = None
    seed: int = 0
    kernel: Kernel | None = None
    steps: tuple[Step, ...] = ()
    within: Within | None = None
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    about: str = ""
    written: tuple[tuple[str, str], ...] = ()

    def given(self, tensor: str) -> tuple[float, ...] | None:
        """The numbers of "q", "k" or "v" in the place of generated ones, None where they are generated."""
        return {"q": self.q_values, "k": self.k_values, "v": self.v_values}[tensor]

    @property
    def first(self) -> tuple[int, ...]:
        """Position of each entry's first new token, for the data: 0 but in later steps of a session."""
        return (0,) * self.batch if self.within is None else self.within.first
