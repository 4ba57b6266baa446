"""An If whose condition is known, replaced by the branch that it takes: what stands in it can then be looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import onnx
from onnx import helper

from attncheck.graph import walk

BRANCHES = ("else_branch", "then_branch")


def around(graph: onnx.GraphProto, wanted: Callable[[onnx.NodeProto], bool]) -> list[onnx.NodeProto]:
    """The If nodes of `graph` itself that hold a wanted node at any depth."""
    return [node for node in graph.node if _holds(node, wanted)]


def towards(graph: onnx.GraphProto, wanted: Callable[[onnx.NodeProto], bool]) -> dict[str, bool]:
    """By its condition, the branch of each If of `graph` itself in which a wanted node stands; of both, the first."""
    return {
        node.input[0]: any(wanted(inner) for name, it in walk.subgraphs(node) if name == BRANCHES[True]
                           for inner in walk.below(it.node))
        for node in around(graph, wanted)
    }  # fmt: skip


def settle(graph: onnx.GraphProto, taken: Mapping[str, bool], wanted: Callable[[onnx.NodeProto], bool]) -> None:
    """Replace in `graph` every If that holds a wanted node by the branch that its condition takes."""
    nodes = []
    for index, node in enumerate(graph.node):
        if not _holds(node, wanted):
            nodes.append(node)
            continue
        branch = next(it for name, it in walk.subgraphs(node) if name == BRANCHES[taken[node.input[0]]])
        nodes += _spliced(graph, node, branch, f"{node.name or 'If'}_{index}/")
    kept = [_copy(node) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def _holds(node: onnx.NodeProto, wanted: Callable[[onnx.NodeProto], bool]) -> bool:
    return (node.domain, node.op_type) == ("", "If") and any(wanted(inner) for inner in walk.below([node]))


def _spliced(
    graph: onnx.GraphProto, node: onnx.NodeProto, branch: onnx.GraphProto, prefix: str
) -> list[onnx.NodeProto]:
    """The branch's nodes with names of their own; its initialisers go to `graph`, its outputs take the If's names."""
    own = [tensor.name for tensor in branch.initializer]
    own += [name for inner in branch.node for name in inner.output if name]
    renamed = {name: prefix + name for name in own}
    for tensor in branch.initializer:
        moved = graph.initializer.add()
        moved.CopyFrom(tensor)
        moved.name = renamed[tensor.name]
    nodes = [_renamed(inner, renamed) for inner in branch.node]
    pairs = zip(branch.output, node.output, strict=True)
    return nodes + [
        helper.make_node("Identity", [renamed.get(inner.name, inner.name)], [outer]) for inner, outer in pairs if outer
    ]


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy of `node` with values renamed, also where its sub-graphs read them."""
    copy = _copy(node)
    _rename([copy], names)
    return copy


def _rename(nodes: Iterable[onnx.NodeProto], names: Mapping[str, str]) -> None:
    for node in nodes:
        for values in (node.input, node.output):
            for index, name in enumerate(values):
                values[index] = names.get(name, name)
        for _, graph in walk.subgraphs(node):
            for value in graph.output:
                value.name = names.get(value.name, value.name)
            _rename(graph.node, names)


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy
