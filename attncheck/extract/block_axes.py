"""The axes that most likely say a node whose keys lie, or are hidden, in blocks: PagedAttention, SparseAttention.

Which pages a sequence has, and which blocks a layout shows, follow from a scenario's seed. They are part of the
Problem, so that the proof of `language` finds whether the node has the same.
"""

from __future__ import annotations

import onnx

from attncheck.extract import attributes as at
from attncheck.graph.case import Case
from attncheck.graph.write.gqa import EPSILONS
from attncheck.problem import Problem
from attncheck.scenario.complete import Value

Axes = dict[str, Value]


def paged(node: onnx.NodeProto, case: Case, it: Problem) -> Axes:
    """The axes of a PagedAttention node beside its sizes."""
    told = at.numbers(node)
    page, width = case.inputs[node.input[3]].shape[1], case.inputs[node.input[7]].shape[1]
    axes: Axes = {"op": "paged", "page": page, "causal": told.get("is_causal", 1) == 1, "sink": it.sink is not None}
    axes |= at.number("scale", told) | at.softcap(told) | {"slot_mapping": at.input_of(node, 10) != ""}
    if told.get("local_window_size", -1) > 0:
        axes["window"] = int(told["local_window_size"])
    if width > -(-max(it.kv_len) // page):
        axes["capacity"] = width * page
    if it.norm is not None:
        axes["qk_norm"] = next((word for word, said in EPSILONS.items() if at.says(told, said)), "plain")
    return axes | _shared(node, case, it, cos=8)


def sparse(node: onnx.NodeProto, case: Case, it: Problem) -> Axes:
    """The axes of a SparseAttention node beside its sizes."""
    told = at.numbers(node)
    axes: Axes = {"op": "sparse", "sparse_block": int(told.get("sparse_block_size", 0))}
    axes |= at.number("scale", told) | {"sparse_layouts": case.inputs[node.input[5]].shape[0]}
    if it.past_capacity > max(it.kv_len):
        axes["capacity"] = it.past_capacity
    return axes | _shared(node, case, it, cos=9)


def _shared(node: onnx.NodeProto, case: Case, it: Problem, *, cos: int) -> Axes:
    """What both have; the place of the cosines."""
    told = at.numbers(node)
    axes: Axes = {"kv_heads": it.kv_heads, "packed": "qkv" if it.query.packed else "none"}
    if told.get("do_rotary", 0):
        axes["rotary"] = "interleaved" if told.get("rotary_interleaved", 0) else "half"
        axes["rotary_cache"] = "absent"
    if it.rotary is not None:
        axes |= {"rotary_dim": it.rotary.dim, "rotary_cache": case.inputs[node.input[cos]].shape[0]}
    return axes
