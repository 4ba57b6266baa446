"""The reading half: an ONNX model with its inputs becomes a Problem. One file an operator.

Only small integer inputs (lengths, masks) are looked at; the large tensors are named, not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import onnx

from attncheck.graph.read import attention, decoder_mha, gqa, linear, mha, ms_attention, paged, rotary, sparse
from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import AnyProblem, Arrays, Problem

__all__ = ["READABLE", "READERS", "Reader", "Unreadable", "any_problem", "problem"]


@dataclass(frozen=True)
class Reader:
    """How an operator is read, and how many inputs and outputs of it are known: one more is refused, not passed over.

    hints   attributes that may say anything, and why no number follows from them
    """

    read: Callable[[Node], AnyProblem]
    inputs: int
    outputs: int
    hints: Mapping[str, str] = field(default_factory=dict)


_CHUNKS = {"chunk_size": "\"tuning hint; does not affect output correctness\""}
_PACKED = {"is_packed_batching": "position_ids say of every row where it stands, whoever's it is"}

READERS: dict[tuple[str, str], Reader] = {
    ("com.microsoft", "GroupQueryAttention"): Reader(gqa.read, 17, 4),
    ("com.microsoft", "MultiHeadAttention"): Reader(mha.read, 10, 4),
    ("com.microsoft", "SparseAttention"): Reader(sparse.read, 11, 3),
    ("com.microsoft", "PagedAttention"): Reader(paged.read, 17, 3),
    ("com.microsoft", "Attention"): Reader(ms_attention.read, 7, 2),
    ("com.microsoft", "DecoderMaskedMultiHeadAttention"): Reader(decoder_mha.read, 11, 4),
    ("", "Attention"): Reader(attention.read, 7, 4),
    ("", "RotaryEmbedding"): Reader(rotary.read, 4, 1),
    ("", "LinearAttention"): Reader(linear.read, 6, 2, _CHUNKS),
    ("com.microsoft", "LinearAttention"): Reader(linear.read, 6, 2, _CHUNKS),
    ("com.microsoft", "RotaryEmbedding"): Reader(rotary.read_microsoft, 4, 1, _PACKED),
}
"""Domain and name of an operator -> its reader."""

READABLE = tuple(READERS)
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
    found = [node for node in graph.node if (node.domain, node.op_type) in READERS]
    if len(found) != 1:
        known = ", ".join(f"{domain or 'ai.onnx'}.{op}" for domain, op in READERS)
        present = ", ".join(f"{node.domain or 'ai.onnx'}.{node.op_type}" for node in graph.node) or "no node"
        raise Unreadable(f"the graph must hold exactly one attention node of {known}; it holds {present}")
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    types |= {value.name: value.type.tensor_type.elem_type for value in graph.input}
    node = Node(found[0], inputs, types, opsets.get(found[0].domain, 1))
    reader = READERS[found[0].domain, found[0].op_type]
    node.refuse_beyond(reader.inputs, reader.outputs)
    return reader.read(node)
