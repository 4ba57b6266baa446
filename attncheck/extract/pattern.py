"""Attention that a model spells out, MatMul, something, Softmax, MatMul: found, and told as a case would say it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import onnx

from attncheck.graph.model_file import PRODUCTS
from attncheck.scenario.model import DType

Shapes = Mapping[str, tuple[int, ...]]

_MASKS = frozenset({"Add", "Sub", "Where", "Max", "Min"})
_BETWEEN = _MASKS | {"Mul", "Div", "Cast", "Identity", "Clip", "Tanh", "Reshape", "Squeeze", "Unsqueeze", "Transpose"}
_BEHIND = frozenset({"Cast", "Identity", "Dropout", "Where", "Mul", "IsNaN", "Reshape", "Transpose"})
FARTHEST = 12
"""Nodes that may stand between a product and the softmax."""


@dataclass(frozen=True)
class Pattern:
    """The nodes of one spelt-out attention.

    before, softmax, behind   the nodes, in order
    masked                    whether something is added to the scores, or chosen instead of them
    query, key, value         names of the two factors of the first product and of the second's right one
    """

    before: onnx.NodeProto
    softmax: onnx.NodeProto
    behind: onnx.NodeProto
    masked: bool

    @property
    def operands(self) -> tuple[str, str, str]:
        """Query, key and value as the products take them."""
        return self.before.input[0], self.before.input[1], self.behind.input[1]


def find(graph: onnx.GraphProto) -> tuple[Pattern, ...]:
    """Every spelt-out attention among the nodes of the graph itself."""
    makers = {name: node for node in graph.node for name in node.output if name}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    found = []
    for node in graph.node:
        if node.op_type != "Softmax":
            continue
        before, masked = _product_before(node, makers)
        behind = _product_behind(node, readers)
        if before is not None and behind is not None:
            found.append(Pattern(before, node, behind, masked))
    return tuple(found)


def _product_before(
    softmax: onnx.NodeProto, makers: Mapping[str, onnx.NodeProto]
) -> tuple[onnx.NodeProto | None, bool]:
    """The nearest product whose result becomes the scores, and whether a mask comes in on the way."""
    layer, masked = [softmax], False
    for _ in range(FARTHEST):
        above = list(_makers(layer, makers))
        product = next((node for node in above if node.op_type in PRODUCTS and len(node.input) > 1), None)
        if product is not None:
            return product, masked
        layer = [node for node in above if node.op_type in _BETWEEN]
        masked = masked or any(node.op_type in _MASKS for node in layer)
    return None, False


def _makers(nodes: Iterable[onnx.NodeProto], makers: Mapping[str, onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield from (makers[name] for name in node.input if name in makers)


def _product_behind(
    softmax: onnx.NodeProto, readers: Mapping[str, Sequence[onnx.NodeProto]]
) -> onnx.NodeProto | None:
    """The nearest product whose left factor the weights are."""
    names = [softmax.output[0]]
    for _ in range(FARTHEST):
        below = [(name, node) for name in names for node in readers.get(name, ())]
        for name, node in below:
            if node.op_type in PRODUCTS and len(node.input) > 1 and node.input[0] == name:
                return node
        names = [node.output[0] for _, node in below if node.op_type in _BEHIND]
    return None


def shapes_wanted(patterns: Iterable[Pattern]) -> tuple[str, ...]:
    """The tensors whose shapes `case` needs."""
    return tuple(name for it in patterns for name in it.operands)


def case(it: Pattern, shapes: Shapes, dtype: str) -> str:
    """What `--case` takes for one ai.onnx Attention of the same sizes, or "" where the shapes are not attention's.

    The products are [(batch,) heads, q_len, head_dim] x [.., head_dim, kv_len] and [.., kv_len, v_head_dim]; of three
    axes the first counts as heads.
    """
    query, key, value = (shapes.get(name, ()) for name in it.operands)
    if not len(query) == len(key) == len(value) or len(query) not in (3, 4) or it.before.op_type == "Einsum":
        return ""
    batch, heads = (query[0], query[1]) if len(query) == 4 else (1, query[0])
    rows, dim, keys, value_dim = query[-2], query[-1], value[-2], value[-1]
    if dim not in key[-2:] or keys not in key[-2:] or dtype not in get_args(DType):
        return ""
    if 0 in (batch, heads, rows, dim, keys, value_dim):
        return ""
    words = [f"op=attention dtype={dtype} batch={batch} heads={heads} head_dim={dim} q_len={rows}"]
    words += [f"v_head_dim={value_dim}"] if value_dim != dim else []
    words += [f"kv_len={keys}"] if keys != rows else []
    words += ["causal=false"] + (["bias=1x1xSxT"] if it.masked else [])
    return " ".join(words)
