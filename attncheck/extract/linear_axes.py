"""The axes that most likely say a node of LinearAttention: its writing half read backwards."""

from __future__ import annotations

import onnx

from attncheck.extract import attributes as at
from attncheck.graph.case import Case
from attncheck.problem import LinearProblem
from attncheck.scenario.complete import Value

_OPS = {"": "linear", "com.microsoft": "ms-linear"}
"""Domain -> the operator as scenarios call it."""


def of(node: onnx.NodeProto, case: Case, it: LinearProblem) -> dict[str, Value]:
    """The axes of `node`, whose problem is `it`."""
    rule = {(False, False): "linear", (True, False): "gated", (False, True): "delta", (True, True): "gated-delta"}
    axes: dict[str, Value] = {
        "op": _OPS[node.domain],
        "dtype": it.dtype,
        "batch": it.batch,
        "q_len": it.rows,
        "heads": it.heads,
        "kv_heads": it.kv_heads,
        "head_dim": it.head_dim,
        "update_rule": rule[it.decay is not None, it.delta],
        "decay": "by-head" if it.decay_dim == 1 else "by-dim",
        "beta": "by-head" if it.beta is None or it.beta_heads == it.kv_heads else "shared",
    }
    if it.v_head_dim != it.head_dim:
        axes["v_head_dim"] = it.v_head_dim
    if it.past_state is not None:
        axes["past_state"] = "given" if case.inputs[it.past_state.name].any() else "zeros"
    return axes | at.number("scale", at.numbers(node))
