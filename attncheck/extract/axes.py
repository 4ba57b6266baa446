"""The axes that most likely say a node: operator by operator, the writing half read backwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray

from attncheck.extract import attributes as at
from attncheck.extract import block_axes, linear_axes, rotary_axes
from attncheck.graph.case import Case
from attncheck.graph.write.attention import PRECISIONS
from attncheck.graph.write.gqa import EPSILONS
from attncheck.graph.write.quantised import CACHES
from attncheck.problem import AnyProblem, LinearProblem, Mask, Problem, RotaryProblem
from attncheck.scenario.axes import AXES, SHIFT, SQUARE
from attncheck.scenario.complete import Value

Axes = dict[str, Value]
_ALWAYS = frozenset({"op", "dtype", "q_len", "past_len", "heads", "head_dim", "rotary"})
"""Axes that, once they are said of a node, are written also at their defaults: what a reader looks for first."""


def of(node: onnx.NodeProto, case: Case, it: AnyProblem, symbolic: bool) -> Axes | None:
    """The axes of `node`, whose Problem is `it`; those at their defaults are left out. None: no axes say it.

    symbolic   whether the model that the node is from has symbolic dimensions
    """
    if isinstance(it, RotaryProblem):
        axes = rotary_axes.of(node, case, it)
    elif isinstance(it, LinearProblem):
        axes = linear_axes.of(node, case, it)
    elif isinstance(it, Problem) and (rule := _OPERATORS.get((node.domain, node.op_type))) is not None:
        axes = _sizes(it) | rule(node, case, it)
    else:
        return None
    axes["dims"] = "symbolic" if symbolic else "static"
    return {name: axes[name] for name in AXES if name in axes and (name in _ALWAYS or axes[name] != AXES[name].default)}


def _sizes(it: Problem) -> Axes:
    """What every operator has."""
    given = it.past_key is not None
    axes: Axes = {
        "dtype": it.dtype,
        "batch": it.batch,
        "q_len": _lengths(it.q_len),
        "past_len": _lengths(it.past_len),
        "heads": it.heads,
        "head_dim": it.head_dim,
        "present": "asked" if it.present_key is not None else "absent",
        "past": "empty" if given and it.past_capacity == 0 else "auto",
    }
    if it.v_head_dim != it.head_dim:
        axes["v_head_dim"] = it.v_head_dim
    return axes | _bias(it)


def _gqa(node: onnx.NodeProto, case: Case, it: Problem) -> Axes:
    told = at.numbers(node)
    axes: Axes = {"op": "gqa", "kv_heads": it.kv_heads, "causal": told.get("causal", 1) == 1}
    axes |= at.number("scale", told) | at.softcap(told)
    if told.get("local_window_size", -1) > 0:
        axes["window"] = int(told["local_window_size"])
    if it.past_capacity > max(it.past_len):
        axes["capacity"] = it.capacity
    axes |= {"sink": it.sink is not None, "smooth": it.smooth, "packed": "qkv" if it.query.packed else "none"}
    if it.evicts is not None:
        axes |= {"window_cache": True, "capacity": it.past_capacity}
    if it.quantised is not None:
        axes["kv_cache"] = next(word for word, dtype in CACHES.items() if dtype == it.quantised.dtype)
        axes["kv_scales"] = "tensor" if case.inputs[it.quantised.key].size == 1 else "channel"
    if it.norm is not None:
        axes["qk_norm"] = next((word for word, said in EPSILONS.items() if at.says(told, said)), "plain")
    axes["query_seqlens"] = at.input_of(node, 16) != ""
    if it.scores is not None:
        axes["scores"] = it.scores.stage
    return axes | _rotary(node, case, it)


def _rotary(node: onnx.NodeProto, case: Case, it: Problem) -> Axes:
    told = at.numbers(node)
    axes: Axes = {}
    if told.get("do_rotary", 0):
        axes["rotary"] = "interleaved" if told.get("rotary_interleaved", 0) else "half"
        axes["rotary_cache"] = "absent"
    if it.rotary is not None:
        axes |= {"rotary_dim": it.rotary.dim, "rotary_cache": case.inputs[it.rotary.cos].shape[0]}
    if at.input_of(node, 9):
        axes.setdefault("rotary", "none")
        axes["positions"] = _positions(case.inputs[at.input_of(node, 9)], it.past_len, axes.get("rotary_cache", 0))
    return axes


def _positions(said: NDArray[np.generic], past_len: Sequence[int], cache: Value) -> str:
    """The word for what position_ids holds, as far as a word fits."""
    counted = np.array(past_len)[:, None] + np.arange(said.shape[-1])
    if len(said) != len(counted):
        return "one-row"
    last = counted.max()
    words = {"shifted": counted + SHIFT, "zero": np.zeros_like(counted), "negative": counted - last - 1}
    if isinstance(cache, int):
        words["beyond"] = counted - last + cache
    return next((word for word, positions in words.items() if np.array_equal(positions, said)), "explicit")


def _mha(node: onnx.NodeProto, case: Case, it: Problem) -> Axes:
    query, key = (case.inputs.get(at.input_of(node, place)) for place in (0, 1))
    axes: Axes = {"op": "mha"}
    if key is not None and key.ndim == 4:  # of cross attention, whatever its lengths
        axes |= {"layout": "bnsh", "kv_len": it.new_rows}
    together = "qkv" if query is not None and query.ndim == 5 else "kv" if key is not None and key.ndim == 5 else "none"
    axes |= {"packed": together, "qkv_bias": at.input_of(node, 3) != ""}
    if it.scores is not None:
        axes["scores"] = it.scores.stage
    return axes | _padded(node, case, it, mask=4, shared=8)


MERGED = "com.microsoft.Attention"
DECODER = "com.microsoft.DecoderMaskedMultiHeadAttention"
"""It has one form of a mask of keys, so that there is nothing to choose."""


def _decoder_mha(node: onnx.NodeProto, case: Case, it: Problem) -> Axes:
    axes: Axes = {"op": "decoder-mha", "packed": "qkv" if it.query.packed else "none"}
    axes |= {"qkv_bias": at.input_of(node, 10) != ""}
    if it.key.layout == "bnsh":  # of cross attention, whatever its lengths
        axes |= {"kv_len": it.new_rows, "present": "asked"}
    if it.scores is not None:
        axes["scores"] = it.scores.stage
    padded = _padded(node, case, it, mask=3, shared=7)
    if it.key.layout == "bnsh" and at.input_of(node, 3) and all(mask.kind != "integer" for mask in it.masks):
        padded |= {"kv_len": _lengths(it.visible[:, 0, 1].tolist()), "mask": "none"}
    return axes | {axis: value for axis, value in padded.items() if axis != "causal"}


def _ms_attention(node: onnx.NodeProto, case: Case, it: Problem) -> Axes:
    width = case.inputs[at.input_of(node, 0)].shape[-1]
    axes: Axes = {"op": "ms-attention", "input_dim": width, "qkv_bias": at.input_of(node, 2) != ""}
    if not at.input_of(node, 4):
        axes["present"] = "asked"
    if it.rotary is not None:
        axes |= {"rotary": it.rotary.style, "rotary_dim": it.rotary.dim}
    return axes | _padded(node, case, it, mask=3, shared=6)


def _padded(node: onnx.NodeProto, case: Case, it: Problem, *, mask: int, shared: int) -> Axes:
    """What operators say that know lengths by a mask alone; the places of the mask, and of a shared buffer's past."""
    told = at.numbers(node)
    axes: Axes = {"causal": told.get("unidirectional", 0) == 1} | at.number("scale", told)
    if it.new_rows != it.rows:
        axes["kv_len"] = it.new_rows
    if at.input_of(node, shared + 1 + (it.op == DECODER)) and it.op != MERGED:
        axes["beams"] = case.inputs[at.input_of(node, shared + 1 + (it.op == DECODER))].shape[1]
    if at.input_of(node, shared):
        axes |= {"past": "full"} if it.past_capacity == max(it.past_len) else {"capacity": it.past_capacity}
    return axes | (_key_mask(np.asarray(case.inputs[at.input_of(node, mask)]), it) if at.input_of(node, mask) else {})


def _key_mask(mask: NDArray[np.generic], it: Problem) -> Axes:
    """What a key mask says: lengths, padding on the left of the past, or a mask whose holes are drawn."""
    batch = it.batch
    if mask.shape in ((batch,), (3 * batch + 2,)):
        return _counts(mask[:batch], it) | ({"key_lengths": "offsets"} if len(mask) > batch else {})
    if mask.shape == (2 * batch,):
        ends, starts = np.asarray(mask[:batch], np.int64), np.asarray(mask[batch:], np.int64)
        if starts.any():
            return {"past_len": _lengths((max(it.past_len) - starts).tolist())}
        return _counts(ends, it) | {"key_lengths": "ends-and-starts"}
    if any(mask.kind == "integer" for mask in it.masks):
        holes = "keys" if (mask == 0).any() else "none"
        return {"mask": "BxT" if mask.ndim == 2 else "BxSxT", "holes": holes}
    if mask.ndim == 4:
        return {"mask": SQUARE, "holes": "keys"}
    return _runs(mask != 0, it)


def _counts(said: NDArray[np.generic], it: Problem) -> Axes:
    """Lengths without right padding, of the queries too where there are as many."""
    if set(said.tolist()) == {max(it.kv_len)}:
        return {"key_lengths": "counts"}
    return {"q_len" if it.new_rows == it.rows else "kv_len": _lengths(said.tolist())}


def _runs(kept: NDArray[np.bool_], it: Problem) -> Axes:
    """A mask [batch, keys] of one run of keys an entry: behind padding, before it, or neither of both."""
    first, count = kept.argmax(axis=-1), kept.sum(axis=-1)
    form: Axes = {"key_lengths": "keys"} if it.op == MERGED else {}
    if kept.ndim == 2 and first.any() and count.sum() == kept.size - first.sum():
        return {"past_len": _lengths((max(it.past_len) - first).tolist())} | form
    if kept.ndim == 2 and not first.any() and len(set(count.tolist())) > 1 and it.op != DECODER:
        return _counts(count, it) | {"key_lengths": "keys"}
    return {"mask": "BxT"}


def _attention(node: onnx.NodeProto, case: Case, it: Problem) -> Axes:
    told = at.numbers(node)
    axes: Axes = {"op": "attention", "kv_heads": it.kv_heads, "layout": it.query.layout}
    axes |= {"causal": told.get("is_causal", 0) == 1} | at.number("scale", told) | at.softcap(told)
    if told.get("left_window_size", -1) >= 0:
        axes["window"] = int(told["left_window_size"]) + 1
    if told.get("right_window_size", -1) >= 0:
        axes["window_right"] = int(told["right_window_size"])
    if at.input_of(node, 6):
        axes |= {"capacity": it.capacity, "kv_len": _lengths(it.kv_len), "past_len": 0}
    elif it.new_rows != it.rows:
        axes["kv_len"] = it.new_rows
    if it.scores is not None:
        axes["scores"] = it.scores.stage
    if it.masks and it.masks[0].slots not in (1, it.capacity):
        axes["mask_len"] = it.masks[0].slots
    if "softmax_precision" in told:
        words = {number: word for word, number in PRECISIONS.items()}
        axes["softmax_precision"] = words.get(int(told["softmax_precision"]), "default")
    return axes | {"opset": _opset(case)}


def _opset(case: Case) -> int:
    """The version of Attention that the model's opset means."""
    imports = onnx.load_model_from_string(case.model).opset_import
    version = next(entry.version for entry in imports if entry.domain == "")
    return int(onnx.defs.get_schema("Attention", version).since_version)


def _bias(it: Problem) -> Axes:
    """The shapes of what lies over the scores; a key_padding_mask, whose axes begin with the batch, is mha's own."""
    axes: Axes = {}
    for mask in it.masks:
        if mask.kind != "integer" and mask.content is None:
            axes["bias" if mask.kind == "additive" else "mask"] = _letters(mask, it)
    return axes


def _letters(mask: Mask, it: Problem) -> str:
    """A shape as the language names it: B, N, S, T where an axis is full, 1 where it broadcasts."""
    full = (("B", it.batch), ("N", it.heads), ("S", it.rows), ("T", mask.slots))
    letters = []
    for (letter, whole), size in zip(full[4 - len(mask.shape) :], mask.shape, strict=True):
        letters.append(letter if size == whole and (whole > 1 or letter in "ST") else "1")
    return "x".join(letters)


def _lengths(values: Sequence[int]) -> Value:
    return tuple(values) if len(set(values)) > 1 else values[0]


_OPERATORS: Mapping[tuple[str, str], Callable[[onnx.NodeProto, Case, Problem], Axes]] = {
    ("com.microsoft", "GroupQueryAttention"): _gqa,
    ("com.microsoft", "MultiHeadAttention"): _mha,
    ("com.microsoft", "DecoderMaskedMultiHeadAttention"): _decoder_mha,
    ("com.microsoft", "Attention"): _ms_attention,
    ("com.microsoft", "PagedAttention"): block_axes.paged,
    ("com.microsoft", "SparseAttention"): block_axes.sparse,
    ("", "Attention"): _attention,
}
