"""Attention that a model spells out, MatMul, something, Softmax, MatMul: found, and told as a case would say it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import onnx
from onnx import numpy_helper

from attncheck.extract import einsum
from attncheck.graph import walk
from attncheck.graph.model_file import PRODUCTS
from attncheck.scenario.axes import spell
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
    softcap                   what scores are capped by, by a Tanh: 0.0 for none, None where no constant says it
    query, key, value         names of the two factors of the first product and of the second's right one
    """

    before: onnx.NodeProto
    softmax: onnx.NodeProto
    behind: onnx.NodeProto
    masked: bool
    softcap: float | None = 0.0

    @property
    def axis(self) -> int:
        """The axis of the scores that the softmax is over, which is attention's where it is the last."""
        return next((it.i for it in self.softmax.attribute if it.name == "axis"), -1)

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
    ranks, numbers = dict(_ranks(graph)), dict(_numbers(graph))
    found = []
    for node in graph.node:
        if node.op_type != "Softmax":
            continue
        before, between = _product_before(node, makers)
        behind = _product_behind(node, readers)
        if before is None or behind is None:
            continue
        masked = any(it.op_type in _MASKS for it in between)
        it = Pattern(before, node, behind, masked, _softcap(between, readers, numbers))
        if is_over_keys(it, next((ranks[name] for name in it.operands if name in ranks), None)):
            found.append(it)
    return tuple(found)


def inside(graph: onnx.GraphProto, above: str = "") -> dict[str, Pattern]:
    """Every spelt-out attention in the sub-graphs of a graph, by the path of its softmax, as that of nodes is told."""
    found: dict[str, Pattern] = {}
    for index, node in enumerate(graph.node):
        for attribute, inner in walk.subgraphs(node):
            here = f"{above}{node.name or f'{node.op_type}_{index}'}/{attribute}/"
            found |= {f"{here}{it.softmax.name or it.softmax.output[0]}": it for it in find(inner)}
            found |= inside(inner, here)
    return found


def is_over_keys(it: Pattern, rank: int | None) -> bool:
    """Whether the softmax is over the last axis of scores of `rank` axes; with None, whether it may be."""
    return it.axis == -1 or (it.axis >= 0 if rank is None else it.axis % rank == rank - 1)


def _ranks(graph: onnx.GraphProto) -> Iterator[tuple[str, int]]:
    """Tensors whose number of axes the graph itself says."""
    for value in (*graph.input, *graph.value_info):
        if value.type.tensor_type.HasField("shape"):
            yield value.name, len(value.type.tensor_type.shape.dim)
    for node in graph.node:
        if node.op_type == "Transpose":
            yield from ((node.output[0], len(it.ints)) for it in node.attribute if it.name == "perm")


def _numbers(graph: onnx.GraphProto) -> Iterator[tuple[str, float]]:
    """Constants of one element, whose data is not external."""
    tensors = [(tensor.name, tensor) for tensor in graph.initializer]
    tensors += [
        (node.output[0], it.t) for node in graph.node if node.op_type == "Constant" for it in node.attribute
        if it.name == "value"
    ]  # fmt: skip
    for name, tensor in tensors:
        if math.prod(tensor.dims) == 1 and tensor.data_location != onnx.TensorProto.EXTERNAL:
            yield name, float(numpy_helper.to_array(tensor).reshape(-1)[0])


def _softcap(
    between: Iterable[onnx.NodeProto], readers: Mapping[str, Sequence[onnx.NodeProto]], numbers: Mapping[str, float]
) -> float | None:
    """What the Tanh among the nodes before a softmax is multiplied by: 0.0 without one, None where that is not seen."""
    tanh = next((node for node in between if node.op_type == "Tanh"), None)
    if tanh is None:
        return 0.0
    for node in readers.get(tanh.output[0], ()):
        factors = [numbers[name] for name in node.input if name in numbers]
        if node.op_type == "Mul" and factors and factors[0] > 0.0:
            return factors[0]
    return None


def _product_before(
    softmax: onnx.NodeProto, makers: Mapping[str, onnx.NodeProto]
) -> tuple[onnx.NodeProto | None, list[onnx.NodeProto]]:
    """The nearest product whose result becomes the scores, and the nodes on the way."""
    layer, between = [softmax], list[onnx.NodeProto]()
    for _ in range(FARTHEST):
        above = list(_makers(layer, makers))
        product = next((node for node in above if node.op_type in PRODUCTS and len(node.input) > 1), None)
        if product is not None:
            return product, between
        layer = [node for node in above if node.op_type in _BETWEEN]
        between += layer
    return None, []


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
    axes the first counts as heads. A softcap that no constant says leaves no case.
    """
    sizes = _sizes(it, shapes)
    if sizes is None or dtype not in get_args(DType):
        return ""
    batch, heads, rows, dim, keys, value_dim = sizes
    if 0 in (batch, heads, rows, dim, keys, value_dim) or it.softcap is None:
        return ""
    words = [f"op=attention dtype={dtype} batch={batch} heads={heads} head_dim={dim} q_len={rows}"]
    words += [f"v_head_dim={value_dim}"] if value_dim != dim else []
    words += [f"kv_len={keys}"] if keys != rows else []
    words += [f"softcap={spell(it.softcap)}"] if it.softcap else []
    words += ["causal=false"] + (["bias=1x1xSxT"] if it.masked else [])
    return " ".join(words)


def _sizes(it: Pattern, shapes: Shapes) -> tuple[int, int, int, int, int, int] | None:
    """Batch, heads, q_len, head_dim, kv_len and v_head_dim, or None where the shapes are not attention's."""
    query, key, value = (shapes.get(name, ()) for name in it.operands)
    equations = [einsum.equation(node) for node in (it.before, it.behind)]
    if any(equations):
        return einsum.sizes(equations[0], equations[1], query, key, value)
    if not len(query) == len(key) == len(value) or len(query) not in (3, 4):
        return None
    batch, heads = (query[0], query[1]) if len(query) == 4 else (1, query[0])
    rows, dim, keys, value_dim = query[-2], query[-1], value[-2], value[-1]
    return (batch, heads, rows, dim, keys, value_dim) if dim in key[-2:] and keys in key[-2:] else None
