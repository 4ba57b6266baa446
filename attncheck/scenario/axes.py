"""The axes of the scenario language: the one definition of each.

The pydantic models, the JSON Schema, the docs, `--case`, `--set` and the rule that an operator must have the axis are
all derived from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import get_args

from attncheck.scenario import steps as session
from attncheck.scenario.model import (
    Beta,
    DataKind,
    Decay,
    Dims,
    DType,
    Holes,
    Kernel,
    KeyLengths,
    KVCache,
    KVScales,
    Layout,
    Op,
    Packed,
    Past,
    PastState,
    Positions,
    Precision,
    QkNorm,
    RotaryStyle,
    Stage,
    UpdateRule,
)
from attncheck.scenario.values import (
    Boolean,
    Broadcast,
    Choice,
    Integer,
    Number,
    NumberList,
    PerBatch,
    Positive,
    Steps,
    Values,
)

BATCH_LIMIT = 65_536
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
"""Names of scenarios and tags: no character that a shell, a glob or a case id treats specially."""
SHIFT = 3
"""How far `positions: shifted` lies behind the implicit positions."""
BIASES = tuple("x".join(axes) for rank in (2, 3, 4) for axes in product(*((letter, "1") for letter in "BNST"[-rank:])))
"""Every shape over the scores [batch, heads, queries, keys] that broadcasts from the right, of rank 2 to 4."""
ROTARY_DIMS = (32, 64, 128)
"""The dims that may turn in com.microsoft Attention: its rotary_embedding_dim is "limited to" these."""
SQUARE = "Bx1xMxM"
"""The shape of a mask_index of com.microsoft Attention over all tokens that there may be, as queries and as keys."""
ROOM = 3
"""How many tokens more than there are such a mask speaks of."""
KEY_MASKS = ("BxT", "BxSxT", SQUARE)
"""The shapes of MultiHeadAttention's key_padding_mask, which begin with the batch whatever their rank, and that one."""


DENSE: tuple[Op, ...] = ("gqa", "mha", "decoder-mha", "ms-attention", "attention")
"""The operators that attend to all keys but those that masks, windows and causality hide."""
ATTENTIONS: tuple[Op, ...] = (*DENSE, "sparse", "paged")
"""The operators that attend."""
ROTARIES: tuple[Op, ...] = ("rotary", "ms-rotary")
"""The operators that turn rows by their positions, and nothing else."""
LINEARS: tuple[Op, ...] = ("linear", "ms-linear")
"""The operators of linear attention: a state takes the place of keys and values."""


@dataclass(frozen=True)
class Axis:
    """One axis: what it may be, what it is when left out, what it means.

    default       the value when left out; None where it follows from other axes or from outside
    otherwise     the default in words, where `default` is None
    ops           the operators that have it; empty: all. On the others it stays at its default
    """

    name: str
    values: Values
    meaning: str
    unit: str = ""
    default: int | float | bool | str | None = None
    otherwise: str = ""
    ops: tuple[Op, ...] = ()

    @property
    def default_text(self) -> str:
        """The default as the docs show it."""
        if self.default is None:
            return self.otherwise
        return f"`{str(self.default).lower() if isinstance(self.default, bool) else self.default}`"


AXES: dict[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis(
            "op",
            Choice(get_args(Op)),
            "the operator: `com.microsoft.GroupQueryAttention`, "
            "`com.microsoft.MultiHeadAttention` with the KV heads repeated, "
            "`com.microsoft.DecoderMaskedMultiHeadAttention` (`decoder-mha`) and `com.microsoft.Attention` likewise, "
            "which projects its input by itself (`ms-attention`), `ai.onnx.Attention`, "
            "`com.microsoft.SparseAttention`, `com.microsoft.PagedAttention`, "
            "RotaryEmbedding alone, of ai.onnx (`rotary`) or com.microsoft (`ms-rotary`), or LinearAttention likewise "
            "(`linear`, `ms-linear`)",
            default="gqa",
        ),
        Axis(
            "dtype",
            Choice(get_args(DType)),
            "element type of every floating-point input and output; paged has no float32, and is float16 when left out",
            default="float32",
        ),
        Axis(
            "batch",
            Integer(1, BATCH_LIMIT),
            "independent sequences in one call",
            "sequences",
            otherwise="length of the lists in `q_len` and `past_len`, else `beams`",
        ),
        Axis(
            "q_len",
            PerBatch(0),
            "new tokens of each batch entry: rows of query, key and value. 0: an idle entry, with `query_seqlens` "
            "or on paged",
            "tokens",
            default=1,
        ),
        Axis(
            "past_len",
            PerBatch(0),
            "tokens already in the KV cache; 0 everywhere: prefill. On rotary the position of the first row",
            "tokens",
            default=0,
            ops=(*ATTENTIONS, *ROTARIES),
        ),
        Axis(
            "capacity",
            Integer(1, word="exact"),
            "length of the KV buffers, at least kv_len; `exact`: no longer than needed. On mha, decoder-mha and "
            "ms-attention past and present are one buffer, of which past_sequence_length is past. On attention K and V "
            "are a cache that the caller keeps, and nonpad_kv_seqlen says the lengths. On paged the pages that a "
            "sequence may have hold so many",
            "tokens",
            default="exact",
            ops=ATTENTIONS,
        ),
        Axis(
            "kv_len",
            PerBatch(0, word="auto"),
            "keys of each batch entry, in place of past_len + q_len: cross attention, or with `capacity` a cache that "
            "holds fewer keys than there are queries; `auto`: past_len + q_len",
            "tokens",
            default="auto",
            ops=("mha", "decoder-mha", "attention"),
        ),
        Axis("heads", Integer(1), "query heads", "heads", default=4),
        Axis(
            "kv_heads",
            Integer(1),
            "key/value heads; divides `heads`, or on ms-linear is a multiple of it",
            "heads",
            otherwise="`heads`",
            ops=(*ATTENTIONS, *LINEARS),
        ),
        Axis("head_dim", Integer(1), "width of a head", "elements", default=16),
        Axis(
            "v_head_dim",
            Integer(1),
            "width of a head of values and of the output",
            "elements",
            otherwise="`head_dim`",
            ops=("mha", "ms-attention", "attention", *LINEARS),
        ),
        Axis(
            "scale",
            Number("default"),
            "factor on q·k; `default`: 1/sqrt(head_dim), the operator's own. On com.microsoft's operators and linear 0 "
            "stands for the default",
            default="default",
            ops=(*ATTENTIONS, *LINEARS),
        ),
        Axis(
            "softcap",
            Positive("none"),
            "score becomes softcap · tanh(score / softcap), before the softmax",
            default="none",
            ops=("gqa", "attention", "paged"),
        ),
        Axis(
            "softmax_precision",
            Choice(("default", *get_args(Precision))),
            "what the softmax is to be computed in; `default`: what the tensors are in",
            default="default",
            ops=("attention",),
        ),
        Axis(
            "window",
            Integer(1, word="none"),
            "keys a query sees up to its own, that included",
            "tokens",
            default="none",
            ops=("gqa", "attention", "paged"),
        ),
        Axis(
            "window_right",
            Integer(0, word="none"),
            "keys behind its own that a query sees where it is not causal",
            "tokens",
            default="none",
            ops=("attention",),
        ),
        Axis(
            "causal",
            Boolean(),
            "a query sees no later key; on decoder-mha there is none",
            default=True,
            ops=("gqa", "mha", "ms-attention", "attention", "paged"),
        ),
        Axis(
            "bias",
            Broadcast(BIASES),
            "an additive array over the scores, of this shape (B batch, N heads, S queries, T keys)",
            default="none",
            ops=DENSE,
        ),
        Axis(
            "mask",
            Broadcast((*BIASES, *KEY_MASKS)),
            "a mask that says which keys take part, of this shape: boolean on attention; on mha and "
            "ms-attention the key_padding_mask or mask_index, `BxT` or `BxSxT`, on "
            f"ms-attention also `{SQUARE}`, M being {ROOM} more than the keys: rows of the past, and what lies behind "
            "the keys, are not read; on decoder-mha `BxT`",
            default="none",
            ops=("mha", "decoder-mha", "ms-attention", "attention"),
        ),
        Axis(
            "key_lengths",
            Choice(get_args(KeyLengths)),
            "how key_padding_mask or mask_index says lengths: `counts`, [batch]; `offsets`, [3 * batch + 2], counts, "
            "and where each entry's queries and keys begin; `ends-and-starts`, [2 * batch], on ms-attention; `keys`, "
            "[batch, keys]; `auto`: not at all where all lengths are the same, else the shortest form that can",
            default="auto",
            ops=("mha", "ms-attention"),
        ),
        Axis(
            "mask_len",
            Integer(1, word="full"),
            "keys that `bias` or `mask` speaks for, from the first on; the others are hidden. `full`: all",
            "tokens",
            default="full",
            ops=("attention",),
        ),
        Axis(
            "holes",
            Choice(get_args(Holes)),
            "what `bias` (by -inf) or `mask` hides: `keys` about a third of the keys, but no query's own, or not the "
            "first where a row is for all queries; the `first-row`, `middle-row` or `last-row` of queries; or `entry`, "
            "all of batch entry 0",
            default="none",
            ops=DENSE,
        ),
        Axis(
            "sink",
            Boolean(),
            "a score for each head that joins the softmax and has no value",
            default=False,
            ops=("gqa", "paged"),
        ),
        Axis("smooth", Boolean(), "smooth softmax: as a sink of 0 for every head", default=False, ops=("gqa",)),
        Axis(
            "scores",
            Choice(("none", *get_args(Stage))),
            "a further output with the scores: `raw` scale · q·k, `capped` after softcap, `biased` after bias and "
            "masks, `weights` after the softmax; gqa has `biased` and `weights`, mha and decoder-mha have `biased`",
            default="none",
            ops=("gqa", "mha", "decoder-mha", "attention"),
        ),
        Axis(
            "present",
            Choice(("asked", "absent")),
            "whether the graph asks for the present buffers; ms-attention has them only beside a past, "
            "decoder-mha not in cross attention",
            default="asked",
            ops=(*DENSE, "paged"),
        ),
        Axis(
            "past",
            Choice(get_args(Past)),
            "`auto`: past buffers are given where they have slots; `empty`: given with no slot; `full`, on mha, "
            "decoder-mha and ms-attention: one buffer for past and present that the past fills, which the operator "
            "forbids",
            default="auto",
            ops=DENSE,
        ),
        Axis(
            "packed",
            Choice(get_args(Packed)),
            "what shares one tensor: `qkv`, query, key and value, head after head on gqa, sparse, paged and "
            "decoder-mha, [batch, rows, heads, 3, dim] on mha; `kv`, key and value of mha, [batch, rows, heads, 2, "
            "dim]",
            default="none",
            ops=("gqa", "mha", "decoder-mha", "sparse", "paged"),
        ),
        Axis(
            "qkv_bias",
            Boolean(),
            "the bias of the input projection is added to queries, new keys and new values",
            default=False,
            ops=("mha", "decoder-mha", "ms-attention"),
        ),
        Axis(
            "input_dim",
            Integer(1),
            "width of the rows that ms-attention projects",
            "elements",
            otherwise="`heads` · `head_dim`",
            ops=("ms-attention",),
        ),
        Axis(
            "beams",
            Integer(1, 64),
            "batch entries that are beams of one sequence, and so follow each other: a past token is read from any of "
            "them, as cache_indirection says; it needs a `capacity`",
            "entries",
            default=1,
            ops=("mha", "decoder-mha"),
        ),
        Axis(
            "query_seqlens",
            Boolean(),
            "the new tokens of each entry are said by this input, so that `q_len` may differ after a past",
            default=False,
            ops=("gqa",),
        ),
        Axis(
            "qk_norm",
            Choice(("none", *get_args(QkNorm))),
            "RMS normalisation of each head of queries and new keys before rotary: `plain` with the operator's "
            "epsilon, `epsilon` with one of the graph's own, `epsilons` with one for each of the two beside it (gqa)",
            default="none",
            ops=("gqa", "paged"),
        ),
        Axis(
            "window_cache",
            Boolean(),
            "the KV buffers are `capacity` long, by default `window`, and hold the last keys only: the operator evicts "
            "the others (`sliding_window_cache`)",
            default=False,
            ops=("gqa",),
        ),
        Axis(
            "kv_cache",
            Choice(("same", *get_args(KVCache))),
            "what past and present hold: `same`, numbers of the dtype, or integers, two to a byte with `int4`",
            default="same",
            ops=("gqa",),
        ),
        Axis(
            "kv_scales",
            Choice(get_args(KVScales)),
            "whether one scale of integers is for the whole `tensor`, or each `channel` of each KV head has its own",
            default="tensor",
            ops=("gqa",),
        ),
        Axis(
            "sparse_block",
            Integer(16, 128),
            "tokens of a block, 16, 32, 64 or 128: a block of queries sees its own block of keys and about two "
            "thirds of those before it",
            "tokens",
            default=16,
            ops=("sparse",),
        ),
        Axis(
            "sparse_layouts",
            Integer(1, 64),
            "how many block masks there are; heads take them in turn. It divides `heads`",
            "layouts",
            default=1,
            ops=("sparse",),
        ),
        Axis(
            "page",
            Integer(1, 65_536),
            "tokens of a page of the cache (its block_size); which pages a sequence has follows no order",
            "tokens",
            default=16,
            ops=("paged",),
        ),
        Axis(
            "slot_mapping",
            Boolean(),
            "the slot of the cache in which each new token is stored is said by this input, as the table has it",
            default=False,
            ops=("paged",),
        ),
        Axis(
            "layout",
            Choice(get_args(Layout)),
            "`bsnh`: 3-D tensors [batch, rows, heads · dim]; `bnsh`: 4-D tensors [batch, heads, rows, dim], on "
            "mha key and value of cross attention alone",
            default="bsnh",
            ops=("mha", "attention", *ROTARIES),
        ),
        Axis(
            "opset",
            Integer(23, 25),
            "version of ai.onnx Attention; 24 has `capacity` and `mask_len`, 25 has windows",
            otherwise="the lowest that has what the case needs",
            ops=("attention",),
        ),
        Axis(
            "rotary",
            Choice(("none", *get_args(RotaryStyle))),
            "rotary embedding of queries and new keys: "
            "`half` pairs d with d + rotary_dim/2, `interleaved` pairs 2d with 2d + 1; on rotary and ms-rotary `half` "
            "when left out. On ms-attention `half`, by angles that the operator computes",
            default="none",
            ops=("gqa", "ms-attention", "sparse", "paged", *ROTARIES),
        ),
        Axis(
            "rotary_dim",
            Integer(2),
            "leading elements of a head that turn; even, at most head_dim",
            "elements",
            otherwise="`head_dim`",
        ),
        Axis(
            "rotary_cache",
            Integer(1, word="absent"),
            "rows of the cos and sin caches, beyond the last position; `absent`: neither is given, which the "
            "operator forbids",
            "rows",
            otherwise="as many as there are positions",
        ),
        Axis(
            "positions",
            Choice(get_args(Positions)),
            "rotary positions: `implicit`, counted by the operator, or on rotary said by caches with a row for every "
            "token, on ms-rotary by the first alone; `explicit`, the same as position_ids; "
            f"`shifted`, position_ids {SHIFT} further on; `zero`, all 0; `scattered`, each token at any row of the "
            "caches. Forbidden, so that a backend must refuse them, are `negative` and `beyond`, the last one before "
            "or behind the rows of the caches, and `one-row`, one row of position_ids [1, rows] for several entries; "
            "of one entry that is what `explicit` writes",
            default="implicit",
            ops=("gqa", *ROTARIES),
        ),
        Axis(
            "packed_batch",
            Boolean(),
            "the rows of all batch entries follow each other in one (is_packed_batching)",
            default=False,
            ops=("ms-rotary",),
        ),
        Axis(
            "update_rule",
            Choice(get_args(UpdateRule)),
            "how a token changes the state: `linear` adds its key and value, `gated` lets the state decay first, "
            "`delta` adds beta times what the state lacks under the key, `gated-delta` both",
            default="gated-delta",
            ops=LINEARS,
        ),
        Axis(
            "decay",
            Choice(get_args(Decay)),
            "one decay for each KV head, or for each dim of its keys",
            default="by-head",
            ops=LINEARS,
        ),
        Axis(
            "beta",
            Choice(get_args(Beta)),
            "one update rate for each KV head, or one that all share",
            default="by-head",
            ops=LINEARS,
        ),
        Axis(
            "past_state",
            Choice(get_args(PastState)),
            "the state before the first token: not an input, an input of zeros, or of numbers",
            default="absent",
            ops=LINEARS,
        ),
        Axis(
            "dims",
            Choice(get_args(Dims)),
            "dimensions of the graph's inputs and outputs: `static` numbers, or `symbolic` names for batch and lengths",
            default="static",
        ),
        Axis(
            "steps",
            Steps(),
            "a session: calls one after the other, each with the present of the one before as its past, or its state; "
            "`past_len` is the past of the first. On sparse and paged the buffers are as long as the last call needs, "
            "or `capacity`; what turns alone goes on in its positions",
            otherwise="one call",
        ),
        Axis("data", Choice(get_args(DataKind)), "kind of numbers in the inputs", default="normal"),
        *(
            Axis(
                f"{tensor}_values",
                NumberList("generated"),
                f"the {name} in the place of generated ones: token by token from the oldest, past included; of each "
                "token by batch entry, head and dim; repeated from the first number when they run out",
                default="generated",
                ops=() if tensor == "q" else (*ATTENTIONS, *LINEARS),
            )
            for tensor, name in (("q", "queries"), ("k", "keys"), ("v", "values"))
        ),
        Axis(
            "bias_values",
            NumberList("generated"),
            "the numbers of `bias` in the place of generated ones: query by query; of each query by batch entry, head "
            "and key, as far as the shape has these; repeated from the first number when they run out. What `holes` "
            "hides stays hidden",
            default="generated",
            ops=DENSE,
        ),
        Axis(
            "sink_values",
            NumberList("generated"),
            "the scores of `sink` in the place of generated ones, head by head; repeated from the first number when "
            "they run out",
            default="generated",
            ops=("gqa", "paged"),
        ),
        Axis("seed", Integer(0, 2**32 - 1), "seed of the inputs", default=0),
        Axis(
            "kernel",
            Choice(get_args(Kernel)),
            "attncheck's own kernel path; `auto` runs both and compares them",
            otherwise="the command line's `--kernel`",
            ops=ATTENTIONS,
        ),
    )
}


def spell(value: object) -> str:
    """The one spelling of an axis value, in ids and on the command line.

    `3`, `0.25`, `true`, `3+1+5`, `half`; the steps of a session as `5-1x6-4a2.speculative`.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        written = repr(value)
        # "-0" would be read as an integer, which has no negative zero.
        return written if written == "-0.0" else written.removesuffix(".0").replace("e+", "e")
    if isinstance(value, (list, tuple)) and any(isinstance(item, (dict, session.Written)) for item in value):
        return session.spelled(value)
    if isinstance(value, (list, tuple)):
        return "+".join(spell(item) for item in value)
    return str(value)
