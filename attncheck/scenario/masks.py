"""What joins the scores: biases, masks with their holes, sinks; and which scores are given out."""

from __future__ import annotations

from collections.abc import Iterator

from attncheck.scenario.axes import KEY_MASKS, SQUARE
from attncheck.scenario.complete import LENGTHS, MASKED, SIZES, TEXTS, Complete, Impossible, Rules
from attncheck.scenario.diagnostics import Mistake, listed


def _shapes(case: Complete) -> Iterator[Impossible]:
    op, bias, mask = case.op, str(case.values["bias"]), str(case.values["mask"])
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
    form, op = case.values["key_lengths"], case.op
    if form == "auto":
        return
    if case.has("mask"):
        message = f"`key_lengths: {form}` and `mask` are both the {MASKED.get(op, 'mask')}, of which {op} has one"
        yield Impossible(Mistake.MASK, ("key_lengths", "mask"), message, "remove one of the two")
    if form == "ends-and-starts" and op == "mha":
        message = "`key_lengths: ends-and-starts` does not exist on mha (MultiHeadAttention)"
        yield Impossible(Mistake.FOREIGN, ("key_lengths", "op"), message, "use `op: ms-attention`, or another form")
    if form in ("counts", "offsets") and case.differs("past_len"):
        message = f"`key_lengths: {form}` cannot say a past_len that differs: it is padded on the left, before its keys"
        hint = "use `key_lengths: keys`, or one past_len for all"
        yield Impossible(Mistake.MASK, ("key_lengths", "past_len"), message, hint)


def _lengths_are_masked(case: Complete) -> bool:
    return any(case.differs(axis) for axis in LENGTHS)


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
    elif case.op in MASKED and _lengths_are_masked(case):
        message = (
            f"`holes` with ragged lengths can leave a query of {case.op} without a key: no text says what that "
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


def _stages(case: Complete) -> Iterator[Impossible]:
    op = case.op
    if op in ("mha", "decoder-mha") and case.values["scores"] in ("raw", "capped", "weights"):
        message = f"{op} ({TEXTS[op]}) gives `biased` scores, not `{case.values['scores']}`"
        yield Impossible(Mistake.FOREIGN, ("scores", "op"), message, "its output qk comes before the softmax")
    if case.op == "gqa" and case.values["scores"] in ("raw", "capped"):
        message = f"gqa (GroupQueryAttention) gives `biased` scores or `weights`, not `{case.values['scores']}`"
        yield Impossible(Mistake.FOREIGN, ("scores", "op"), message, "its qk_output is before or after the softmax")


def _given(case: Complete) -> Iterator[Impossible]:
    """Numbers of an array need the array."""
    for axis, of, add in (("bias_values", "bias", "bias: BxNxSxT"), ("sink_values", "sink", "sink: true")):
        if axis in case.written and case.has(axis) and not case.has(of):
            message = f"`{axis}` without `{of}` has no effect"
            yield Impossible(Mistake.MASK, (axis,), message, f"add `{add}`")


RULES: Rules = (
    (("op", "bias", "mask", *SIZES), _shapes),
    (("op", "mask", "key_lengths", *SIZES), _key_lengths),
    (("op", "holes", "bias", "mask", *SIZES), _holes),
    (("mask_len", "bias", "mask", "capacity", *SIZES), _mask_len),
    (("sink", "smooth"), _sink),
    (("op", "scores"), _stages),
    (("bias_values", "bias", "sink_values", "sink"), _given),
)
