"""A model whose attention nodes are looked for: functions made part of the graph, every such node named by its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import inliner

from attncheck.graph import external, walk
from attncheck.graph.external import UnusableModel
from attncheck.graph.model_file import parsed
from attncheck.graph.read import READABLE

_MICROSOFT = "com.microsoft"
OPERATORS = frozenset(READABLE) | {
    ("", "RotaryEmbedding"),
    *(
        (_MICROSOFT, name)
        for name in (
            "Attention", "DecoderAttention", "DecoderMaskedSelfAttention",
            "GemmaRotaryEmbedding", "GroupQueryAttention", "LinearAttention", "LongformerAttention",
            "MultiHeadAttention", "PackedAttention", "PackedMultiHeadAttention", "PagedAttention", "QAttention",
            "QOrderedAttention", "RotaryEmbedding", "SparseAttention",
        )
    ),
}  # fmt: skip
"""Domain and name of what is looked for: what attncheck reads, and what it can so far only name."""

DEEPEST = 64
"""Calls of functions inside functions that are followed; ONNX allows no recursion."""


@dataclass(frozen=True)
class Site:
    """An attention node of the model.

    path    calls of functions and sub-graphs that lead to it, and its own name; its node carries it as its name
    opset   the version of its domain that the model imports
    """

    path: str
    node: onnx.NodeProto
    opset: int

    @property
    def op(self) -> str:
        """Domain and name, as messages show them."""
        return f"{self.node.domain or 'ai.onnx'}.{self.node.op_type}"

    @property
    def readable(self) -> bool:
        """Whether attncheck reads this operator."""
        return (self.node.domain, self.node.op_type) in READABLE


@dataclass(frozen=True)
class Source:
    """A model's structure, local functions inlined, external data left outside; and the attention nodes in it."""

    path: Path
    proto: onnx.ModelProto
    sites: tuple[Site, ...]


def load(path: Path, limit: int) -> Source:
    """Read the structure of the model in `path`, which may take `limit` bytes. Raises UnusableModel."""
    proto = parsed(path, limit)
    external.refuse_outside(path, proto)
    functions = {(it.domain, it.name, it.overload): it for it in proto.functions}
    paths = list(_paths(path, proto.graph.node, functions, "", 0))
    if functions:
        proto = _inlined(path, proto)
    nodes = [node for node in walk.below(proto.graph.node) if is_attention(node)]
    if [op for _, op in paths] != [node.op_type for node in nodes]:  # a function that could not be inlined is left
        paths = [(node.name or node.op_type, node.op_type) for node in nodes]
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    sites = []
    for node, name in zip(nodes, _distinct(name for name, _ in paths), strict=True):
        node.name = name
        sites.append(Site(name, node, opsets.get(node.domain, 1)))
    return Source(path, proto, tuple(sites))


def is_attention(node: onnx.NodeProto) -> bool:
    """Whether a node is what is looked for."""
    return (node.domain, node.op_type) in OPERATORS


def is_symbolic(proto: onnx.ModelProto) -> bool:
    """Whether a model's inputs have symbolic dimensions."""
    return any(dim.dim_param for value in proto.graph.input for dim in value.type.tensor_type.shape.dim)


def _paths(
    path: Path,
    nodes: Iterable[onnx.NodeProto],
    functions: Mapping[tuple[str, str, str], onnx.FunctionProto],
    above: str,
    depth: int,
) -> Iterator[tuple[str, str]]:
    """Path and operator of every attention node, in the order in which inlining leaves them."""
    if depth > DEEPEST:
        raise UnusableModel(f"{path}: its functions call each other more than {DEEPEST} deep")
    for index, node in enumerate(nodes):
        here = f"{above}{node.name or f'{node.op_type}_{index}'}"
        called = functions.get((node.domain, node.op_type, node.overload))
        if called is not None:
            yield from _paths(path, called.node, functions, f"{here}/", depth + 1)
            continue
        if is_attention(node):
            yield here, node.op_type
        for attribute, graph in walk.subgraphs(node):
            yield from _paths(path, graph.node, functions, f"{here}/{attribute}/", depth + 1)


def _inlined(path: Path, proto: onnx.ModelProto) -> onnx.ModelProto:
    try:
        inlined: onnx.ModelProto = inliner.inline_local_functions(proto)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        raise UnusableModel(f"{path}: its functions cannot be inlined: {' '.join(str(error).split())}") from error
    left = {(it.domain, it.name): it for it in inlined.functions}
    for node in walk.below(inlined.graph.node):
        function = left.get((node.domain, node.op_type))
        if function is not None and any(is_attention(inner) for inner in walk.below(function.node)):
            raise UnusableModel(f"{path}: its function {function.name} holds attention and cannot be inlined")
    return inlined


def _distinct(names: Iterable[str]) -> Iterator[str]:
    """Each name once: the second gets #2."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name}#{seen[name]}"
