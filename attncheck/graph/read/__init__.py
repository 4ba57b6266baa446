"""The reading half: an ONNX model with its inputs becomes a Problem. One file an operator.

Only small integer inputs (lengths, masks) are looked at; the large tensors are named, not touched.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from attncheck.graph.read import attention, decoder_mha, gqa, linear, mha, ms_attention, paged, rotary, sparse
from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import AnyProblem, Arrays, Problem

__all__ = ["READABLE", "Unreadable", "any_problem", "problem"]

_READERS: dict[tuple[str, str], Callable[[Node], AnyProblem]] = {
    ("com.microsoft", "GroupQueryAttention"): gqa.read,
    ("com.microsoft", "MultiHeadAttention"): mha.read,
    ("com.microsoft", "SparseAttention"): sparse.read,
    ("com.microsoft", "PagedAttention"): paged.read,
    ("com.microsoft", "Attention"): ms_attention.read,
    ("com.microsoft", "DecoderMaskedMultiHeadAttention"): decoder_mha.read,
    ("", "Attention"): attention.read,
    ("", "RotaryEmbedding"): rotary.read,
    ("", "LinearAttention"): linear.read,
    ("com.microsoft", "LinearAttention"): linear.read,
    ("com.microsoft", "RotaryEmbedding"): rotary.read_microsoft,
}

READABLE = tuple(_READERS)
"""Domain and name of every operator that is read."""


def problem(model: bytes, inputs: Arrays) -> Problem:
    """Read the one node of `model`, which is attention. As `any_problem`, and raises Unreadable for other kinds."""
    found = any_problem(model, inputs)
    if not isinstance(found, Problem):
        raise Unreadable(f"{found.op} does not attend: it is a problem of another kind, {found.kind}")
    return found


def any_problem(model: bytes, inputs: Arrays) -> AnyProblem:
    """Read the one node of `model` that is known here. Raises Unreadable when there is none, or it uses what is not."""
    proto = onnx.load_model_from_string(model)
    graph = proto.graph
    found = [node for node in graph.node if (node.domain, node.op_type) in _READERS]
    if len(found) != 1:
        known = ", ".join(f"{domain or 'ai.onnx'}.{op}" for domain, op in _READERS)
        present = ", ".join(f"{node.domain or 'ai.onnx'}.{node.op_type}" for node in graph.node) or "no node"
        raise Unreadable(f"the graph must hold exactly one attention node of {known}; it holds {present}")
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    types |= {value.name: value.type.tensor_type.elem_type for value in graph.input}
    node = Node(found[0], inputs, types, opsets.get(found[0].domain, 1))
    return _READERS[found[0].domain, found[0].op_type](node)
