"""What each operator has and takes: the axes that it lacks, its lengths, and what single ones ask."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from attncheck.scenario.axes import AXES, LINEARS, ROTARIES, Axis, spell
from attncheck.scenario.complete import LENGTHS, SIZES, TEXTS, Complete, Impossible, Rules
from attncheck.scenario.diagnostics import Mistake, listed

BLOCKS = (16, 32, 64, 128)
"""Tokens that a block of SparseAttention may have."""


def _foreign(axis: Axis, case: Complete) -> Iterator[Impossible]:
    op = case.op
    if op in axis.ops or not _departs(case, axis.name):
        return
    off = f"or `{axis.name}: {spell(axis.default)}`" if axis.default is not None else "or leave it out"
    hint = f"use `op: {listed(axis.ops)[1:]}, {off}; in a matrix, exclude the combination"
    yield Impossible(Mistake.FOREIGN, (axis.name, "op"), f"`{axis.name}` does not exist on {op} ({TEXTS[op]})", hint)


def _beside(axis: Axis) -> tuple[str, ...]:
    """What it takes to know the value of an axis: each step of a session has lengths of its own."""
    return SIZES if axis.name in LENGTHS else ()


_SAME = {"v_head_dim": "head_dim", "kv_heads": "heads"}
"""Axes that change nothing where they are as others are."""


def _departs(case: Complete, axis: str) -> bool:
    """Whether a foreign axis is set to something that changes the case."""
    if axis in _SAME:
        return case.values[axis] != case.values[_SAME[axis]]
    if axis == "input_dim":
        return axis in case.written and case.values[axis] != case.integer("heads") * case.integer("head_dim")
    return axis in case.written if AXES[axis].default is None else case.has(axis)


def _causality(case: Complete) -> Iterator[Impossible]:
    op = case.op
    if case.values["causal"] is True:
        if op == "mha" and case.cross:
            message = "MultiHeadAttention's text does not say which keys a causal query of cross attention sees"
            yield Impossible(Mistake.WINDOW, ("kv_len", "causal"), message, "add `causal: false`")
        return
    if op == "gqa" and case.has("window"):
        message = "GroupQueryAttention has a window only where it is causal"
        yield Impossible(Mistake.WINDOW, ("causal", "window"), message, "use `causal: true`, or `window: none`")


def _ragged(case: Complete) -> Iterator[Impossible]:
    op = case.op
    if not case.lists_fit or op in (*ROTARIES, *LINEARS, "decoder-mha", "paged"):
        return
    told = op == "gqa" and case.values["query_seqlens"] is True
    if case.differs("q_len") and not told and (op == "attention" or case.largest("past_len") > 0):
        where, why = {
            "gqa": (
                "may differ over the batch only where every past_len is 0",
                "GroupQueryAttention is told the total lengths only, and takes q_len = min(rows, kv_len)",
            ),
            "mha": (
                "may differ over the batch only where every past_len is 0",
                "MultiHeadAttention's key padding mask cannot hold a past before new keys of different lengths",
            ),
            "ms-attention": (
                "may differ over the batch only where every past_len is 0",
                "com.microsoft Attention's mask_index cannot hold a past before new keys of different lengths",
            ),
            "attention": ("may not differ over the batch", "ai.onnx Attention computes every query row"),
            "sparse": (
                "may differ over the batch only where every past_len is 0",
                "SparseAttention is told the total lengths only",
            ),
        }[op]
        hint = "use one q_len for all" + ("" if op == "attention" else ", or `past_len: 0`")
        if op == "gqa":
            hint += ", or add `query_seqlens: true`"
        yield Impossible(Mistake.RAGGED, ("q_len", "past_len"), f"q_len {where}: {why}", hint)
    if op == "attention" and not case.has("capacity"):
        for axis in ("past_len", "kv_len"):
            if case.differs(axis):
                message = f"{axis} may differ over the batch only where the cache is the caller's (nonpad_kv_seqlen)"
                yield Impossible(Mistake.RAGGED, (axis,), message, "add a `capacity`, or use one length for all")


_NEVER_IDLE: dict[str, str] = {
    "gqa": "seqlens_k holds the tokens less one, and says of each entry that has any that its last rows are new",
    "sparse": "key_total_sequence_lengths says of each entry that its last rows are new",
    "mha": "a mask of keys says which keys count, and after a past every entry has as many new ones",
    "ms-attention": "a mask of keys says which keys count, and after a past every entry has as many new ones",
    "decoder-mha": "DecoderMaskedMultiHeadAttention takes one new token of each entry",
    "attention": "ai.onnx Attention computes every query row",
    **dict.fromkeys(ROTARIES, "every row of RotaryEmbedding is turned"),
    **dict.fromkeys(LINEARS, "every row of LinearAttention is a token"),
}
"""Why an operator has no entry without a new token, where it has not."""


def _idle(case: Complete) -> Iterator[Impossible]:
    """Entries without a new token: query_seqlens says them where there is a past, pages do, and a mask in a prompt."""
    if not case.lists_fit or 0 not in case.lengths("q_len"):
        return
    op = case.op
    masked = op in ("mha", "ms-attention") and case.largest("past_len") == 0
    if case.values["query_seqlens"] is not True and op != "paged" and not masked:
        message = f"an entry without a new token cannot be said here: {_NEVER_IDLE[op]}"
        hint = "use `op: gqa` with `query_seqlens: true`, `op: paged`, a prompt on mha or ms-attention, or 1 or more"
        yield Impossible(Mistake.RAGGED, ("q_len", "op"), message, hint)
    elif case.largest("q_len") == 0:
        message = "no entry has a new token"
        yield Impossible(Mistake.RAGGED, ("q_len",), message, "give one of them a q_len of 1 or more")
    elif op == "paged" or masked:
        return
    elif 0 in map(sum, zip(case.lengths("q_len"), case.lengths("past_len"), strict=True)):
        message = "an entry with a q_len of 0 and no past has no key at all, which the operator forbids"
        yield Impossible(Mistake.RAGGED, ("q_len", "past_len"), message, "give it a past_len of 1 or more")


def _opset(case: Complete) -> Iterator[Impossible]:
    lowest = case.lowest_opset
    if case.op == "attention" and case.integer("opset") < lowest:
        axes = ("window", "window_right") if lowest == 25 else ("capacity", "mask_len")
        wanted = next(axis for axis in axes if case.has(axis))
        message = f"ai.onnx Attention has `{wanted}` from opset {lowest} on, not in {case.integer('opset')}"
        yield Impossible(Mistake.FOREIGN, ("opset", wanted), message, f"opset: {lowest}, or leave it out")


def _sparse(case: Complete) -> Iterator[Impossible]:
    """What SparseAttention asks of its block masks."""
    if case.op != "sparse":
        return
    block, layouts, heads = (case.integer(axis) for axis in ("sparse_block", "sparse_layouts", "heads"))
    if block not in BLOCKS:
        message = f"a sparse_block of {block} is none of the operator's"
        yield Impossible(Mistake.HEADS, ("sparse_block",), message, f"use {listed(tuple(map(str, BLOCKS)))}")
    if heads % layouts:
        message = f"heads must be a multiple of sparse_layouts: {heads} / {layouts} leaves {heads % layouts}"
        yield Impossible(Mistake.HEADS, ("sparse_layouts", "heads"), message, "use a divisor of heads")


def _one_token(case: Complete) -> Iterator[Impossible]:
    """What DecoderMaskedMultiHeadAttention asks: one new token, and a mask that is the same for all heads."""
    if case.op != "decoder-mha":
        return
    if case.lists_fit and set(case.lengths("q_len")) != {1}:
        message = "DecoderMaskedMultiHeadAttention takes one new token of each entry"
        yield Impossible(Mistake.RAGGED, ("q_len", "op"), message, "use `q_len: 1`, or `op: mha`")
    if case.values["mask"] == "BxSxT":
        message = "DecoderMaskedMultiHeadAttention's mask_index is [batch, keys]"
        yield Impossible(Mistake.MASK, ("mask", "op"), message, "use `mask: BxT`, or `op: mha`")


PROJECTED_DATA = ("normal", "uniform", "one-hot")
"""Kinds of data that mean something in rows that are projected before they are compared."""


def _merged(case: Complete) -> Iterator[Impossible]:
    """What com.microsoft Attention asks of its past."""
    if case.op != "ms-attention":
        return
    past = case.largest("past_len") > 0 or case.has("capacity") or case.values["past"] != "auto"
    if past and case.values["v_head_dim"] != case.values["head_dim"]:
        message = "com.microsoft Attention keeps past keys and values in one tensor, so that they have one width"
        yield Impossible(Mistake.HEADS, ("v_head_dim", "past_len"), message, "remove `v_head_dim`, or the past")
    if past and case.values["present"] == "absent":
        message = "past and present of com.microsoft Attention shall be used together, by its text"
        yield Impossible(Mistake.BUFFERS, ("present", "past_len"), message, "use `present: asked`")


def _projected(case: Complete) -> Iterator[Impossible]:
    """What com.microsoft Attention's input can hold: rows before they are projected."""
    if case.op != "ms-attention":
        return
    for axis in ("q_values", "k_values", "v_values"):
        if axis in case.written and case.has(axis):
            message = f"`{axis}` cannot be said of ms-attention, which makes queries, keys and values by itself"
            yield Impossible(Mistake.FOREIGN, (axis, "op"), message, "leave it out, or use `op: mha`")
    if case.values["data"] not in PROJECTED_DATA:
        message = f"`data: {case.values['data']}` shapes queries and keys, which ms-attention makes by itself"
        yield Impossible(Mistake.FOREIGN, ("data", "op"), message, f"use {listed(PROJECTED_DATA)}")


RULES: Rules = (
    *((("op", axis.name, *_beside(axis)), partial(_foreign, axis)) for axis in AXES.values() if axis.ops),
    (("op", "causal", "window", "kv_len"), _causality),
    (("op", "capacity", "query_seqlens", *SIZES), _ragged),
    (("op", "query_seqlens", *SIZES), _idle),
    (("op", "opset", "capacity", "mask_len", "window", "window_right"), _opset),
    (("op", "sparse_block", "sparse_layouts", "heads"), _sparse),
    (("op", "mask", *SIZES), _one_token),
    (("op", "past", "capacity", "present", "v_head_dim", "head_dim", *SIZES), _merged),
    (("op", "data", "q_values", "k_values", "v_values"), _projected),
)
