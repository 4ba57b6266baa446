"""NumPy arrays and ONNX graphs as Python text that a person can read, and that gives them back bit by bit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from attncheck.problem import Arrays

LITERAL_UP_TO = 1024
"""Elements of all inputs together that are still written out; more are read from a file."""

WIDTH = 100
_COMMA = re.compile(r"(?<=,) ")


def number(value: Any) -> str:
    """A number: the shortest text that gives the same one in its own dtype. Non-finite ones as NumPy's names."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    if math.isfinite(value):
        return repr(float(value)) if isinstance(value, float) else _short(value)
    return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"


def _short(value: np.floating[Any]) -> str:
    """A float16 or float32 in as few digits as its own width needs."""
    size = abs(float(value))
    return np.format_float_positional(value, trim="0") if 1e-4 <= size < 1e7 or size == 0.0 else str(value)


def array(values: NDArray[np.generic]) -> str:
    """An expression of an array: filled with one number where that is all it holds."""
    dtype = f"np.{values.dtype.name}" if values.dtype != np.bool_ else "bool"
    first = values.reshape(-1)[:1]
    if values.size > 1 and (values.view(_bits(values)) == first.view(_bits(first))).all():
        return f"np.full({_shape(values.shape)}, {number(first[0])}, {dtype})"
    flat = f"np.array([{', '.join(map(number, values.reshape(-1)))}], {dtype})"
    return flat if values.ndim == 1 else f"{flat}.reshape({_shape(values.shape)})"


def _bits(values: NDArray[np.generic]) -> np.dtype[Any]:
    return np.dtype(f"u{values.dtype.itemsize}")


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def literal(inputs: Arrays) -> bool:
    """Whether all of these arrays together are few enough to be written out; what one number fills counts as one."""
    return sum(1 if " np.full(" in f" {array(it)}" else it.size for it in inputs.values()) <= LITERAL_UP_TO


def arrays(inputs: Arrays, indent: str) -> str:
    """A dict display of arrays by name, each on lines of its own."""
    lines = ["{"]
    for name, values in inputs.items():
        lines += wrapped(f'"{name}": {array(values)},', indent + "    ")
    return "\n".join([*lines, indent + "}"])


def wrapped(text: str, indent: str) -> list[str]:
    """`text` broken behind commas where it is too long, further lines one step deeper."""
    lines, line = [], indent
    for part in _COMMA.split(text):
        if len(line) + len(part) + 1 > WIDTH and line.strip():
            lines.append(line)
            line = indent + "    "
        line += part if not line.strip() else f" {part}"
    return [*lines, line]


def model(content: bytes) -> str | None:
    """The body of a function that builds a model of plain nodes by onnx.helper and returns it.

    None where these calls would not give the same model: with constants, subgraphs or functions in it.
    """
    it = onnx.load_model_from_string(content)
    if it.graph.initializer or it.graph.sparse_initializer or it.functions or not all(map(_is_plain, it.graph.node)):
        return None
    names = [f"node_{index}" if len(it.graph.node) > 1 else "node" for index in range(len(it.graph.node))]
    lines = [line for name, node in zip(names, it.graph.node, strict=True) for line in _node(name, node)]
    for kind, values in (("inputs", it.graph.input), ("outputs", it.graph.output)):
        lines += [f"{kind} = [", *(f"    {_value(value)}," for value in values), "]"]
    nodes = ", ".join(names)
    opsets = [f'    helper.make_opsetid("{each.domain}", {each.version}),' for each in it.opset_import]
    lines += [
        "opsets = [",
        *opsets,
        "]",
        f'graph = helper.make_graph([{nodes}], "{it.graph.name}", inputs, outputs)',
        f"return helper.make_model(graph, ir_version={it.ir_version}, opset_imports=opsets)",
    ]
    body = "\n".join(lines)
    return body if _gives(body, it) else None


def _is_plain(node: onnx.NodeProto) -> bool:
    return all(isinstance(helper.get_attribute_value(it), bytes | float | int | list) for it in node.attribute)


def _node(name: str, node: onnx.NodeProto) -> list[str]:
    lines = [
        f"{name} = helper.make_node(",
        f'    "{node.op_type}",',
        f"    inputs={_names(node.input)},",
        f"    outputs={_names(node.output)},",
    ]
    lines += [f'    {key}="{value}",' for key, value in (("name", node.name), ("domain", node.domain)) if value]
    return [*lines, *(f"    {it.name}={_attribute(it)}," for it in node.attribute), ")"]


def _names(names: Any) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _attribute(it: onnx.AttributeProto) -> str:
    value = helper.get_attribute_value(it)
    if isinstance(value, bytes):
        return repr(value.decode())
    if isinstance(value, list):
        return "[" + ", ".join(number(np.float32(one)) if isinstance(one, float) else repr(one) for one in value) + "]"
    return number(np.float32(value)) if isinstance(value, float) else repr(value)


def _value(it: onnx.ValueInfoProto) -> str:
    tensor = it.type.tensor_type
    kind = TensorProto.DataType.Name(tensor.elem_type)
    if not tensor.HasField("shape"):
        return f'helper.make_tensor_value_info("{it.name}", TensorProto.{kind}, None)'
    dims = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim]
    shape = "[" + ", ".join(f'"{dim}"' if isinstance(dim, str) else str(dim) for dim in dims) + "]"
    return f'helper.make_tensor_value_info("{it.name}", TensorProto.{kind}, {shape})'


def _gives(body: str, wanted: onnx.ModelProto) -> bool:
    """Run the text, and see that the model is the same in all that a runtime looks at."""
    names: dict[str, Any] = {}
    text = "def build(helper, TensorProto):\n" + "\n".join(f"    {line}" for line in body.splitlines())
    try:
        exec(text, names)  # noqa: S102 - our own text, from a model that was parsed
        built = names["build"](helper, TensorProto)
    except (SyntaxError, TypeError, ValueError, AttributeError):
        return False
    return bool(_looked_at(built) == _looked_at(wanted))


def _looked_at(it: onnx.ModelProto) -> Mapping[str, Any]:
    graph = it.graph
    nodes = []
    for node in graph.node:
        bare = onnx.NodeProto()
        bare.CopyFrom(node)
        if not bare.domain:
            bare.ClearField("domain")  # said or not, it is the same
        nodes.append(bare.SerializeToString(deterministic=True))
    return {
        "nodes": nodes,
        "values": [value.SerializeToString(deterministic=True) for value in (*graph.input, *graph.output)],
        "versions": (it.ir_version, [(each.domain, each.version) for each in it.opset_import]),
    }
