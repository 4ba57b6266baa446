"""The reading half: an ONNX model with its inputs becomes a Problem. One file an operator.

Only small integer inputs (lengths, masks) are looked at; the large tensors are named, not touched.
"""

from __future__ import annotations

import onnx

from attncheck.graph.read import attention, gqa, mha
from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import Arrays, Problem

__all__ = ["READABLE", "Unreadable", "problem"]

_READERS = {
    ("com.microsoft", "GroupQueryAttention"): gqa.read,
    ("com.microsoft", "MultiHeadAttention"): mha.read,
    ("", "Attention"): attention.read,
}

READABLE = tuple(_READERS)
"""Domain and name of every operator that is read."""


def problem(model: bytes, inputs: Arrays) -> Problem:
    """Read the one attention node of `model`. Raises Unreadable when there is none, or it uses what we do not know."""
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
