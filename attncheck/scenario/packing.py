"""Which tensors share an array, and in which order their axes lie."""

from __future__ import annotations

from collections.abc import Iterator

from attncheck.scenario.complete import TEXTS, Complete, Impossible, Rules
from attncheck.scenario.diagnostics import Mistake


def _packed(case: Complete) -> Iterator[Impossible]:
    packed, op = case.values["packed"], case.op
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
    if case.op != "mha" or case.values["layout"] == "bsnh":
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


RULES: Rules = (
    (("op", "packed", "kv_len", "v_head_dim", "head_dim"), _packed),
    (("op", "layout", "packed", "kv_len", "v_head_dim", "head_dim"), _layout),
)
