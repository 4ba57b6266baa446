"""What each operator can say: the rules that depend on `op`, and those between features of some operators only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from attncheck.scenario.axes import AXES, KEY_MASKS, LINEARS, ROTARIES, SQUARE, Axis, spell
from attncheck.scenario.complete import LENGTHS, Complete, Impossible, Value
from attncheck.scenario.diagnostics import Mistake, listed

TEXTS = {
    "gqa": "GroupQueryAttention",
    "mha": "MultiHeadAttention",
    "decoder-mha": "DecoderMaskedMultiHeadAttention",
    "ms-attention": "com.microsoft Attention",
    "attention": "ai.onnx Attention",
    "rotary": "ai.onnx RotaryEmbedding",
    "ms-rotary": "com.microsoft RotaryEmbedding",
    "linear": "ai.onnx LinearAttention",
    "ms-linear": "com.microsoft LinearAttention",
    "sparse": "SparseAttention",
    "paged": "PagedAttention",
}
"""The name of each operator in messages."""

BLOCKS = (16, 32, 64, 128)
"""Tokens that a block of SparseAttention may have."""
MASKED = {"mha": "key_padding_mask", "decoder-mha": "mask_index", "ms-attention": "mask_index"}
"""Operators that say ragged lengths with a mask of keys, and its name."""

Rule = Callable[[Complete], Iterator[Impossible]]


def _operator(case: Complete) -> str:
    return str(case.values["op"])


def _foreign(axis: Axis, case: Complete) -> Iterator[Impossible]:
    op = _operator(case)
    if op in axis.ops or not _departs(case, axis.name):
        return
    off = f"or `{axis.name}: {spell(axis.default)}`" if axis.default is not None else "or leave it out"
    hint = f"use `op: {listed(axis.ops)[1:]}, {off}; in a matrix, exclude the combination"
    yield Impossible(Mistake.FOREIGN, (axis.name, "op"), f"`{axis.name}` does not exist on {op} ({TEXTS[op]})", hint)


def _beside(axis: Axis) -> tuple[str, ...]:
    """What it takes to know the value of an axis: each step of a session has lengths of its own."""
    return ("batch", *LENGTHS) if axis.name in LENGTHS else ()


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
    op = _operator(case)
    if case.values["causal"] is True:
        if op == "mha" and case.cross:
            message = "MultiHeadAttention's text does not say which keys a causal query of cross attention sees"
            yield Impossible(Mistake.WINDOW, ("kv_len", "causal"), message, "add `causal: false`")
        return
    if op == "gqa" and case.has("window"):
        message = "GroupQueryAttention has a window only where it is causal"
        yield Impossible(Mistake.WINDOW, ("causal", "window"), message, "use `causal: true`, or `window: none`")


def _ragged(case: Complete) -> Iterator[Impossible]:
    op = _operator(case)
    if not case.lists_fit or op in (*ROTARIES, *LINEARS, "decoder-mha", "paged"):
        return
    queries = case.values["q_len"]
    told = op == "gqa" and case.values["query_seqlens"] is True
    if _differ(queries) and not told and (op == "attention" or case.largest("past_len") > 0):
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
            if _differ(case.values[axis]):
                message = f"{axis} may differ over the batch only where the cache is the caller's (nonpad_kv_seqlen)"
                yield Impossible(Mistake.RAGGED, (axis,), message, "add a `capacity`, or use one length for all")


def _differ(value: Value) -> bool:
    """Whether the lengths over the batch differ."""
    return isinstance(value, tuple) and len(set(value)) > 1


def _told(case: Complete) -> Iterator[Impossible]:
    """What query_seqlens needs: past buffers. Of present it says by itself that every chunk fits, padding included."""
    if case.values["query_seqlens"] is not True or not case.lists_fit:
        return
    if case.values["window_cache"] is True:
        return
    capacity, longest = case.values["capacity"], case.largest("past_len")
    if longest == 0 and capacity == "exact" and case.values["past"] != "empty":
        message = "`query_seqlens` needs past buffers, but there is no past"
        hint = "add a `past_len`, a `capacity`, or `past: empty`"
        yield Impossible(Mistake.BUFFERS, ("query_seqlens",), message, hint)


def _quantised(case: Complete) -> Iterator[Impossible]:
    """What buffers of integers need: a past whose type says so, and two elements for each byte."""
    kind = case.values["kv_cache"]
    if kind == "same":
        if case.has("kv_scales"):
            message = "`kv_scales` without `kv_cache` has no effect"
            yield Impossible(Mistake.BUFFERS, ("kv_scales",), message, "add `kv_cache: int8`")
        return
    no_past = case.lists_fit and case.largest("past_len") == 0 and not case.has("capacity")
    if no_past and case.values["window_cache"] is not True:
        message = f"`kv_cache: {kind}` needs past buffers with slots, but there is no past"
        yield Impossible(Mistake.BUFFERS, ("kv_cache",), message, "add a `past_len`, or a `capacity`")
    if kind == "int4" and case.integer("head_dim") % 2:
        message = f"`kv_cache: int4` packs two elements into a byte, but head_dim is {case.integer('head_dim')}"
        yield Impossible(Mistake.BUFFERS, ("kv_cache", "head_dim"), message, "use an even head_dim")


def _sparse(case: Complete) -> Iterator[Impossible]:
    """What SparseAttention asks of its block masks."""
    if _operator(case) != "sparse":
        return
    block, layouts, heads = (case.integer(axis) for axis in ("sparse_block", "sparse_layouts", "heads"))
    if block not in BLOCKS:
        message = f"a sparse_block of {block} is none of the operator's"
        yield Impossible(Mistake.HEADS, ("sparse_block",), message, f"use {listed(tuple(map(str, BLOCKS)))}")
    if heads % layouts:
        message = f"heads must be a multiple of sparse_layouts: {heads} / {layouts} leaves {heads % layouts}"
        yield Impossible(Mistake.HEADS, ("sparse_layouts", "heads"), message, "use a divisor of heads")


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
    op = _operator(case)
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


def _window_cache(case: Complete) -> Iterator[Impossible]:
    """What a cache of the window's keys needs: a window, room for it, and no feature whose shape nobody states."""
    if case.values["window_cache"] is not True:
        return
    window, capacity = case.values["window"], case.values["capacity"]
    if not isinstance(window, int):
        message = "`window_cache` without a `window` keeps no key"
        yield Impossible(Mistake.WINDOW, ("window_cache", "window"), message, "add a `window`")
    elif isinstance(capacity, int) and capacity < window:
        message = f"a window_cache of {capacity} slots is smaller than its window of {window}"
        yield Impossible(Mistake.CAPACITY, ("capacity", "window"), message, f"capacity: {window} or more, or `exact`")
    if case.has("scores"):
        message = "`scores` with `window_cache`: no text says over which keys they are given"
        yield Impossible(Mistake.BUFFERS, ("scores", "window_cache"), message, "remove one of the two")
    if case.values["past"] == "empty":
        message = "`window_cache` needs past buffers with room for the window"
        yield Impossible(Mistake.BUFFERS, ("past", "window_cache"), message, "use `past: auto`")


def _cross(case: Complete) -> Iterator[Impossible]:
    if not case.cross:
        return
    if case.largest("past_len") > 0:
        message = "`kv_len` stands in place of past_len + q_len, so there is no `past_len` beside it"
        yield Impossible(Mistake.BUFFERS, ("kv_len", "past_len"), message, "remove one of the two")
    if min(case.lengths("kv_len")) == 0 and not (_operator(case) == "attention" and case.has("capacity")):
        message = "a kv_len of 0 can be said of a cache only"
        yield Impossible(
            Mistake.BUFFERS, ("kv_len",), message, "use `op: attention` with a `capacity`, or 1 key or more"
        )


def _buffers(case: Complete) -> Iterator[Impossible]:
    if case.values["past"] == "full":
        yield from _full(case)
    if _operator(case) in MASKED and case.has("capacity") and case.cross:
        op = _operator(case)
        message = f"a buffer that past and present of {op} share holds past_len + q_len keys, so there is no `kv_len`"
        yield Impossible(Mistake.BUFFERS, ("capacity", "kv_len"), message, "use `past_len`, or `capacity: exact`")
    if case.values["past"] != "empty":
        return
    for axis, off in (("past_len", 0), ("capacity", "exact"), ("kv_len", "auto")):
        value = case.values[axis]
        if value != off and not (isinstance(value, tuple) and set(value) == {0}):
            message = f"`past: empty` is a past without a slot, but `{axis}` is {spell(value)}"
            yield Impossible(Mistake.BUFFERS, ("past", axis), message, f"use `{axis}: {off}`, or `past: auto`")


def _full(case: Complete) -> Iterator[Impossible]:
    if _operator(case) not in MASKED:
        message = f"`past: full` does not exist on {_operator(case)} ({TEXTS[_operator(case)]})"
        yield Impossible(Mistake.FOREIGN, ("past", "op"), message, "use `op: mha`, or `past: auto`")
    elif case.largest("past_len") == 0:
        message = "`past: full` needs a past that fills the buffer, but there is no `past_len`"
        yield Impossible(Mistake.BUFFERS, ("past",), message, "add a `past_len`, or use `past: auto`")
    elif case.has("capacity"):
        message = "`past: full` is a buffer of past_len slots, so there is no `capacity` beside it"
        yield Impossible(Mistake.BUFFERS, ("past", "capacity"), message, "remove one of the two")


def _opset(case: Complete) -> Iterator[Impossible]:
    lowest = case.lowest_opset
    if _operator(case) == "attention" and case.integer("opset") < lowest:
        axes = ("window", "window_right") if lowest == 25 else ("capacity", "mask_len")
        wanted = next(axis for axis in axes if case.has(axis))
        message = f"ai.onnx Attention has `{wanted}` from opset {lowest} on, not in {case.integer('opset')}"
        yield Impossible(Mistake.FOREIGN, ("opset", wanted), message, f"opset: {lowest}, or leave it out")


def _shapes(case: Complete) -> Iterator[Impossible]:
    op, bias, mask = _operator(case), str(case.values["bias"]), str(case.values["mask"])
    if op in ("gqa", *MASKED) and bias != "none" and not (bias.count("x") == 3 and bias.endswith("SxT")):
        allowed = listed(("BxNxSxT", "Bx1xSxT", "1xNxSxT", "1x1xSxT"))
        message = f"`bias` on {op} ({TEXTS[op]}) must be {allowed}, not `{bias}`"
        yield Impossible(Mistake.MASK, ("bias", "op"), message, "its last two axes are always full")
    masks = tuple(it for it in KEY_MASKS if it != SQUARE or op == "ms-attention")
    if mask != "none" and (mask not in masks if op in MASKED else mask in KEY_MASKS):
        if op in MASKED:
            message = f"`mask` on {op} ({TEXTS[op]}) must be {listed(masks)}, not `{mask}`"
            yield Impossible(Mistake.MASK, ("mask", "op"), message, f"its {MASKED[op]} begins with the batch")
        elif op == "attention":
            message = f"`mask: {mask}` is a key_padding_mask, which only mha (MultiHeadAttention) has"
            yield Impossible(Mistake.MASK, ("mask", "op"), message, "did you mean `Bx1x1xT` or `Bx1xSxT`?")
    if op == "attention" and bias != "none" and mask != "none":
        message = "ai.onnx Attention has one attn_mask: it is additive (`bias`) or boolean (`mask`)"
        yield Impossible(Mistake.MASK, ("mask", "bias"), message, "remove one of the two")
    if op in MASKED and mask != "none" and _lengths_are_masked(case):
        message = f"{TEXTS[op]} says ragged lengths with its {MASKED[op]}, so there is none left for `mask`"
        yield Impossible(Mistake.MASK, ("mask", "past_len", "q_len"), message, "use one length for all")


def _key_lengths(case: Complete) -> Iterator[Impossible]:
    """Which forms of a mask can say the lengths: one mask at a time; counts are of keys that begin with the first."""
    form, op = case.values["key_lengths"], _operator(case)
    if form == "auto":
        return
    if case.has("mask"):
        message = f"`key_lengths: {form}` and `mask` are both the {MASKED.get(op, 'mask')}, of which {op} has one"
        yield Impossible(Mistake.MASK, ("key_lengths", "mask"), message, "remove one of the two")
    if form == "ends-and-starts" and op == "mha":
        message = "`key_lengths: ends-and-starts` does not exist on mha (MultiHeadAttention)"
        yield Impossible(Mistake.FOREIGN, ("key_lengths", "op"), message, "use `op: ms-attention`, or another form")
    if form in ("counts", "offsets") and _differ(case.values["past_len"]):
        message = f"`key_lengths: {form}` cannot say a past_len that differs: it is padded on the left, before its keys"
        hint = "use `key_lengths: keys`, or one past_len for all"
        yield Impossible(Mistake.MASK, ("key_lengths", "past_len"), message, hint)


def _lengths_are_masked(case: Complete) -> bool:
    return any(_differ(case.values[axis]) for axis in LENGTHS)


_NEEDS = {"keys": "T", "first-row": "S", "middle-row": "S", "last-row": "S", "entry": "B"}


def _holes(case: Complete) -> Iterator[Impossible]:
    holes = str(case.values["holes"])
    if holes == "none":
        return
    bias, mask = str(case.values["bias"]), str(case.values["mask"])
    shape = (mask if mask != "none" else bias).replace(SQUARE, "Bx1xSxT")
    if shape == "none":
        message = "`holes` without `bias` or `mask` has no effect"
        yield Impossible(Mistake.MASK, ("holes",), message, "add `bias: BxNxSxT`, or another shape")
    elif _operator(case) in MASKED and _lengths_are_masked(case):
        message = (
            f"`holes` with ragged lengths can leave a query of {_operator(case)} without a key: no text says what that "
            "gives"
        )
        yield Impossible(Mistake.MASK, ("holes", "past_len", "q_len"), message, "use one length for all")
    elif _NEEDS[holes] not in shape:
        axis = "mask" if mask != "none" else "bias"
        message = f"`holes: {holes}` needs a `{axis}` whose {_NEEDS[holes]} is full, not `{shape}`"
        yield Impossible(Mistake.MASK, ("holes", axis), message, f"like `{axis}: {_widened(shape, _NEEDS[holes])}`")


def _widened(shape: str, letter: str) -> str:
    """The nearest shape with the axis of `letter` full."""
    axes = shape.split("x")
    if len(axes) < "TSNB".index(letter) + 1:
        axes = ["1"] * ("TSNB".index(letter) + 1 - len(axes)) + axes
    axes[-1 - "TSNB".index(letter)] = letter
    return "x".join(axes)


def _mask_len(case: Complete) -> Iterator[Impossible]:
    length = case.values["mask_len"]
    if not isinstance(length, int) or not case.lists_fit:
        return
    bias, mask, capacity = str(case.values["bias"]), str(case.values["mask"]), case.values["capacity"]
    if "T" not in bias + mask:
        message = "`mask_len` needs a `bias` or `mask` whose T is full"
        yield Impossible(Mistake.MASK, ("mask_len", "mask", "bias"), message, "like `bias: SxT`")
    most = capacity if isinstance(capacity, int) else case.longest
    if length > most:
        message = f"a mask_len of {length} is more than the {most} keys that there are"
        yield Impossible(Mistake.MASK, ("mask_len",), message, f"at most {most}, or `full`")
    elif isinstance(capacity, int) and length < case.longest:
        message = f"a mask_len of {length} is less than the longest kv_len, {case.longest}, which the operator forbids"
        yield Impossible(Mistake.MASK, ("mask_len",), message, f"at least {case.longest}, or `full`")


def _sink(case: Complete) -> Iterator[Impossible]:
    if case.values["sink"] is True and case.values["smooth"] is True:
        message = "a sink takes the place of the 0 that smooth softmax adds: no text says what both mean"
        yield Impossible(Mistake.MASK, ("smooth", "sink"), message, "keep one of the two")


def _packed(case: Complete) -> Iterator[Impossible]:
    packed, op = case.values["packed"], _operator(case)
    if packed == "none":
        return
    if op != "mha" and packed == "kv":
        message = f"{op} ({TEXTS[op]}) packs query, key and value, not key and value alone"
        yield Impossible(Mistake.FOREIGN, ("packed", "op"), message, "use `packed: qkv`, or `op: mha`")
    if op == "decoder-mha" and case.cross:
        message = "decoder-mha (DecoderMaskedMultiHeadAttention) packs new keys, of which cross attention has none"
        yield Impossible(Mistake.BUFFERS, ("packed", "kv_len"), message, "use `packed: none`, or `kv_len: auto`")
    if op == "mha" and packed == "qkv" and case.cross:
        message = "one tensor of query, key and value has as many keys as queries, so there is no `kv_len` beside it"
        yield Impossible(Mistake.BUFFERS, ("packed", "kv_len"), message, "use `packed: kv`, or `kv_len: auto`")
    if op == "mha" and case.values["v_head_dim"] != case.values["head_dim"]:
        message = "key and value that share a tensor have one width"
        yield Impossible(Mistake.HEADS, ("packed", "v_head_dim"), message, "remove `v_head_dim`, or use `packed: none`")


def _layout(case: Complete) -> Iterator[Impossible]:
    """4-D keys and values, which MultiHeadAttention calls past_key and past_value, are for cross attention alone."""
    if _operator(case) != "mha" or case.values["layout"] == "bsnh":
        return
    if not case.cross:
        message = "`layout: bnsh` of mha is for key and value of cross attention"
        yield Impossible(Mistake.BUFFERS, ("layout", "kv_len"), message, "add a `kv_len`, or use `layout: bsnh`")
    elif case.values["packed"] != "none":
        message = "key and value that share a tensor have five axes, so there is no `layout: bnsh` beside `packed`"
        yield Impossible(Mistake.BUFFERS, ("layout", "packed"), message, "remove one of the two")
    elif case.values["v_head_dim"] != case.values["head_dim"]:
        message = "key and value in `layout: bnsh` have one width on mha (MultiHeadAttention)"
        yield Impossible(Mistake.HEADS, ("layout", "v_head_dim"), message, "remove `v_head_dim`, or use `layout: bsnh`")


def _one_token(case: Complete) -> Iterator[Impossible]:
    """What DecoderMaskedMultiHeadAttention asks: one new token, and a mask that is the same for all heads."""
    if _operator(case) != "decoder-mha":
        return
    if case.lists_fit and set(case.lengths("q_len")) != {1}:
        message = "DecoderMaskedMultiHeadAttention takes one new token of each entry"
        yield Impossible(Mistake.RAGGED, ("q_len", "op"), message, "use `q_len: 1`, or `op: mha`")
    if case.values["mask"] == "BxSxT":
        message = "DecoderMaskedMultiHeadAttention's mask_index is [batch, keys]"
        yield Impossible(Mistake.MASK, ("mask", "op"), message, "use `mask: BxT`, or `op: mha`")


def _beams(case: Complete) -> Iterator[Impossible]:
    """What beams need: whole sequences of them, of one length, and a buffer that past and present share."""
    beams = case.integer("beams")
    if beams == 1 or not case.lists_fit:
        return
    if case.batch % beams:
        message = f"a batch of {case.batch} is no whole number of sequences of {beams} beams"
        yield Impossible(Mistake.BATCH, ("beams", "batch"), message, f"batch: {beams}, or a multiple of it")
    if not case.has("capacity") or case.cross:
        message = "`beams` are of a past in the buffer that it shares with the present"
        yield Impossible(Mistake.BUFFERS, ("beams", "capacity"), message, "add a `capacity`, and a `past_len`")
    elif case.largest("past_len") == 0:
        message = "`beams` without a past have nothing to read of each other"
        yield Impossible(Mistake.BUFFERS, ("past_len", "beams"), message, "add a `past_len`")
    if _differ(case.values["past_len"]):
        message = "the beams of a sequence have one past_len: a token that one of them reads is at its place in all"
        yield Impossible(Mistake.RAGGED, ("past_len", "beams"), message, "use one past_len for all")
    if case.session:
        message = "`beams` of a session would be chosen anew at each step"
        yield Impossible(Mistake.STEPS, ("beams", "steps"), message, "use one call")


PROJECTED_DATA = ("normal", "uniform", "one-hot")
"""Kinds of data that mean something in rows that are projected before they are compared."""


def _merged(case: Complete) -> Iterator[Impossible]:
    """What com.microsoft Attention asks of its past."""
    if _operator(case) != "ms-attention":
        return
    past = case.largest("past_len") > 0 or case.has("capacity") or case.values["past"] != "auto"
    if past and case.values["v_head_dim"] != case.values["head_dim"]:
        message = "com.microsoft Attention keeps past keys and values in one tensor, so that they have one width"
        yield Impossible(Mistake.HEADS, ("v_head_dim", "past_len"), message, "remove `v_head_dim`, or the past")
    if past and case.values["present"] == "absent":
        message = "past and present of com.microsoft Attention shall be used together, by its text"
        yield Impossible(Mistake.BUFFERS, ("present", "past_len"), message, "use `present: asked`")


def _given(case: Complete) -> Iterator[Impossible]:
    """Numbers of an array need the array."""
    for axis, of, add in (("bias_values", "bias", "bias: BxNxSxT"), ("sink_values", "sink", "sink: true")):
        if axis in case.written and case.has(axis) and not case.has(of):
            message = f"`{axis}` without `{of}` has no effect"
            yield Impossible(Mistake.MASK, (axis,), message, f"add `{add}`")


def _projected(case: Complete) -> Iterator[Impossible]:
    """What com.microsoft Attention's input can hold: rows before they are projected."""
    if _operator(case) != "ms-attention":
        return
    for axis in ("q_values", "k_values", "v_values"):
        if axis in case.written and case.has(axis):
            message = f"`{axis}` cannot be said of ms-attention, which makes queries, keys and values by itself"
            yield Impossible(Mistake.FOREIGN, (axis, "op"), message, "leave it out, or use `op: mha`")
    if case.values["data"] not in PROJECTED_DATA:
        message = f"`data: {case.values['data']}` shapes queries and keys, which ms-attention makes by itself"
        yield Impossible(Mistake.FOREIGN, ("data", "op"), message, f"use {listed(PROJECTED_DATA)}")


def _stages(case: Complete) -> Iterator[Impossible]:
    op = _operator(case)
    if op in ("mha", "decoder-mha") and case.values["scores"] in ("raw", "capped", "weights"):
        message = f"{op} ({TEXTS[op]}) gives `biased` scores, not `{case.values['scores']}`"
        yield Impossible(Mistake.FOREIGN, ("scores", "op"), message, "its output qk comes before the softmax")
    if _operator(case) == "gqa" and case.values["scores"] in ("raw", "capped"):
        message = f"gqa (GroupQueryAttention) gives `biased` scores or `weights`, not `{case.values['scores']}`"
        yield Impossible(Mistake.FOREIGN, ("scores", "op"), message, "its qk_output is before or after the softmax")


_SIZES = ("batch", *LENGTHS)
RULES: tuple[tuple[tuple[str, ...], Rule], ...] = (
    *((("op", axis.name, *_beside(axis)), partial(_foreign, axis)) for axis in AXES.values() if axis.ops),
    (("op", "causal", "window", "kv_len"), _causality),
    (("op", "capacity", "query_seqlens", *_SIZES), _ragged),
    (("kv_cache", "kv_scales", "window_cache", "capacity", "head_dim", *_SIZES), _quantised),
    (("op", "sparse_block", "sparse_layouts", "heads"), _sparse),
    (("op", "query_seqlens", *_SIZES), _idle),
    (("window_cache", "window", "capacity", "scores", "past"), _window_cache),
    (("query_seqlens", "window_cache", "past", "capacity", *_SIZES), _told),
    (("op", "capacity", *_SIZES), _cross),
    (("op", "past", "capacity", *_SIZES), _buffers),
    (("op", "opset", "capacity", "mask_len", "window", "window_right"), _opset),
    (("op", "bias", "mask", *_SIZES), _shapes),
    (("op", "mask", "key_lengths", *_SIZES), _key_lengths),
    (("op", "holes", "bias", "mask", *_SIZES), _holes),
    (("mask_len", "bias", "mask", "capacity", *_SIZES), _mask_len),
    (("sink", "smooth"), _sink),
    (("op", "scores"), _stages),
    (("op", "packed", "kv_len", "v_head_dim", "head_dim"), _packed),
    (("op", "layout", "packed", "kv_len", "v_head_dim", "head_dim"), _layout),
    (("op", "past", "capacity", "present", "v_head_dim", "head_dim", *_SIZES), _merged),
    (("bias_values", "bias", "sink_values", "sink"), _given),
    (("op", "data", "q_values", "k_values", "v_values"), _projected),
    (("op", "mask", *_SIZES), _one_token),
    (("op", "beams", "capacity", "steps", *_SIZES), _beams),
)
"""The axes that a rule looks at, beside those that they follow from, and the rule."""
