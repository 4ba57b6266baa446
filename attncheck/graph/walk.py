"""The nodes of a model at any depth: its graph, sub-graphs of control flow, local functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Every node, those of local functions behind those of the graph."""
    yield from below(proto.graph.node)
    for function in proto.functions:
        yield from below(function.node)


def below(several: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """`several` and the nodes of their sub-graphs, each before its own."""
    for node in several:
        yield node
        for _, graph in subgraphs(node):
            yield from below(graph.node)


def subgraphs(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """The sub-graphs of a node, with the attribute that holds each."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        for graph in attribute.graphs:
            yield attribute.name, graph


def read_by(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads, also from inside its sub-graphs; names defined there may be among them."""
    yield from (name for name in node.input if name)
    for _, graph in subgraphs(node):
        yield from (value.name for value in graph.output)
        for inner in graph.node:
            yield from read_by(inner)
