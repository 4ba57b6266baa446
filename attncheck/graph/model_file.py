"""A user's own ONNX file that is one attention node: read with its external data, or refused in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import numpy_helper

from attncheck.graph import external, walk
from attncheck.graph.external import UnusableModel
from attncheck.graph.read import READABLE

__all__ = ["ModelFile", "UnusableModel", "load", "parsed", "stored", "usable"]

MOST_NAMED = 5
"""Operators named of a graph that holds something else."""

PRODUCTS = frozenset({"MatMul", "FusedMatMul", "Gemm", "Einsum", "TransposeMatMul"})
"""Operators that multiply matrices, of which attention that is spelt out has two."""


@dataclass(frozen=True)
class ModelFile:
    """A model of one attention node.

    model      its bytes, external data inside
    opset      the version of the node's domain that it imports
    graph      the graph; `inputs`: those of its inputs that must be fed, in order
    constants  arrays that the graph itself holds, by name, bfloat16 as its bits
    """

    path: Path
    model: bytes
    opset: int
    graph: onnx.GraphProto
    node: onnx.NodeProto
    inputs: tuple[onnx.ValueInfoProto, ...]
    constants: Mapping[str, NDArray[np.generic]]


def load(path: Path, limit: int) -> ModelFile:
    """Read `path`, unless it and its external data take more than `limit` bytes. Raises UnusableModel.

    External data is read from the model's folder and below it, never from anywhere else.
    """
    proto = parsed(path, limit)
    _attention(path, proto)
    external.load(path, proto, limit)
    return usable(path, proto)


def parsed(path: Path, limit: int) -> onnx.ModelProto:
    """The model in `path`, its external data left outside. Raises UnusableModel."""
    try:
        external.refuse_large(path, path.stat().st_size, limit)
        proto = onnx.load_model(path, load_external_data=False)
    except OSError as error:
        raise UnusableModel(f"{path} cannot be read: {error.strerror}") from error
    except DecodeError as error:
        raise UnusableModel(f"{path} is not an ONNX model: {error}") from error
    if not proto.graph.node:
        raise UnusableModel(f"{path} is not an ONNX model with a graph: it holds no node")
    _spell_standard_domain(proto)
    return proto


def usable(path: Path, proto: onnx.ModelProto) -> ModelFile:
    """A model that holds all of its data as one that can be run as a case. Raises UnusableModel."""
    node = _attention(path, proto)
    _check(path, proto)
    _refuse_unasked_outputs(path, proto.graph, node)
    constants = dict(_constants(proto.graph))
    inputs = tuple(value for value in proto.graph.input if value.name not in constants)
    opset = next((entry.version for entry in proto.opset_import if entry.domain == node.domain), 1)
    return ModelFile(path, proto.SerializeToString(deterministic=True), opset, proto.graph, node, inputs, constants)


def _spell_standard_domain(proto: onnx.ModelProto) -> None:
    """The domain ai.onnx as "", its other spelling: what reads graphs knows only this one."""
    imports = [entry for scope in (proto, *proto.functions) for entry in scope.opset_import]
    for named in (*walk.nodes(proto), *imports):
        if named.domain == "ai.onnx":
            named.domain = ""


def _attention(path: Path, proto: onnx.ModelProto) -> onnx.NodeProto:
    """The one node of the graph, beside constants."""
    nodes = [node for node in proto.graph.node if node.op_type != "Constant"]
    found = [node for node in nodes if _is_read(node)]
    if len(nodes) == 1 and found:
        node: onnx.NodeProto = found[0]
        return node
    known = ", ".join(_name(*key) for key in READABLE)
    names = list(dict.fromkeys(_name(node.domain, node.op_type) for node in nodes))
    held = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
    inside = "" if found else _inside(proto)
    if inside:
        said = f"holds {inside}; its graph holds {held}"
    elif not found:
        said = f"holds no attention node that attncheck reads; it holds {held}"
    elif len(found) > 1:
        said = f"holds {len(found)} attention nodes"
    else:
        said = f"holds an attention node among others ({held})"
    hint = f"; `attncheck extract {path}` takes it apart" if found or inside else ""
    raise UnusableModel(f"{path} {said}. Give a model of one node, any of {known}, beside constants{hint}")


def _is_read(node: onnx.NodeProto) -> bool:
    return (node.domain, node.op_type) in READABLE


def _inside(proto: onnx.ModelProto) -> str:
    """Where a model without an attention node in its graph may have attention all the same, or nothing."""
    if any(_is_read(node) for function in proto.functions for node in walk.below(function.node)):
        return "its attention in a local function"
    around = (outer for outer in proto.graph.node for _ in walk.subgraphs(outer))
    holder = next((outer for outer in around if any(_is_read(node) for node in walk.below([outer]))), None)
    if holder is not None:
        return f"its attention inside of {holder.op_type}"
    ops = [node.op_type for node in walk.nodes(proto)]
    if "Softmax" in ops and sum(op in PRODUCTS for op in ops) > 1:
        return "no attention node that attncheck reads, but a Softmax and products, which may be attention spelt out"
    return ""


def _check(path: Path, proto: onnx.ModelProto) -> None:
    """Hold the model against ONNX's checker, but let inputs and outputs go without a shape, as every runtime does."""
    shaped = onnx.ModelProto()
    shaped.CopyFrom(proto)
    for value in (*shaped.graph.input, *shaped.graph.output):
        if not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(shaped)
    except onnx.checker.ValidationError as error:
        raise UnusableModel(f"{path} is not valid ONNX: {' '.join(str(error).split())}") from error


def _name(domain: str, op: str) -> str:
    return f"{domain or 'ai.onnx'}.{op}"


def _refuse_unasked_outputs(path: Path, graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    asked, given = {value.name for value in graph.output}, {name for name in node.output if name}
    for name in sorted(asked - given):
        raise UnusableModel(f"{path}: the output {name} of the graph is none of its attention node")
    for name in sorted(given - asked):
        raise UnusableModel(
            f"{path}: {_name(node.domain, node.op_type)} gives {name}, which is no output of the graph; every output "
            "is compared: make it one, or leave it out of the node"
        )


def _constants(graph: onnx.GraphProto) -> Iterator[tuple[str, NDArray[np.generic]]]:
    for tensor in graph.initializer:
        yield tensor.name, stored(numpy_helper.to_array(tensor))
    for node in graph.node:
        if node.op_type == "Constant":
            yield node.output[0], stored(numpy_helper.to_array(_value(node)))


def _value(node: onnx.NodeProto) -> onnx.TensorProto:
    attribute: onnx.AttributeProto = node.attribute[0]
    if attribute.name != "value":
        raise UnusableModel(f"the Constant {node.output[0]} with {attribute.name} is not read by attncheck: value is")
    tensor: onnx.TensorProto = attribute.t
    return tensor


def stored(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """bfloat16 as its bits, as attncheck keeps it; any other array as it is."""
    plain = np.asarray(array)
    return plain.view(np.uint16) if plain.dtype.name == "bfloat16" else plain
