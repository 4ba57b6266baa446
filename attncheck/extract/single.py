"""An attention node with the tensors that it was given, as a model of that node alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from attncheck.extract.source import Site

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Single:
    """A model of one node, and what feeds it; arrays that the whole model holds stay inside."""

    proto: onnx.ModelProto
    feeds: Mapping[str, NDArray[np.generic]]


def single(site: Site, source: onnx.ModelProto, arrays: Mapping[str, NDArray[np.generic]], held: set[str]) -> Single:
    """The node of `site` alone.

    arrays   by the whole model's names: every input of the node
    held     those of them that stand in the model as initialisers; the first input is fed in any case
    """
    node = onnx.NodeProto()
    node.CopyFrom(site.node)
    names = _plain(name for name in (*node.input, *node.output) if name)
    for values in (node.input, node.output):
        for index, name in enumerate(values):
            values[index] = names.get(name, "")
    inside = [name for name in dict.fromkeys(site.node.input) if name in held and name != site.node.input[0]]
    fed = [name for name in dict.fromkeys(site.node.input) if name and name not in inside]
    proto = onnx.ModelProto(ir_version=source.ir_version, producer_name="attncheck")
    proto.opset_import.extend(entry for entry in source.opset_import if entry.domain in {"", node.domain})
    if all(entry.domain != node.domain for entry in proto.opset_import):
        proto.opset_import.append(helper.make_opsetid(node.domain, site.opset))
    proto.graph.name = "node"
    proto.graph.node.append(node)
    proto.graph.initializer.extend(numpy_helper.from_array(arrays[name], names[name]) for name in inside)
    proto.graph.input.extend(_value(names[name], arrays[name]) for name in fed)
    element = _element(arrays[site.node.input[0]])
    proto.graph.output.extend(helper.make_tensor_value_info(name, element, None) for name in node.output if name)
    return Single(proto, {names[name]: arrays[name] for name in fed})


def _value(name: str, array: NDArray[np.generic]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _element(array), list(array.shape))


def _element(array: NDArray[np.generic]) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def _plain(names: Iterable[str]) -> dict[str, str]:
    """Names without what a file name or a shell treats specially, still different from each other."""
    plain: dict[str, str] = {}
    for name in names:
        if name in plain:
            continue
        candidate = base = _UNSAFE.sub("_", name).strip("_") or "value"
        number = 2
        while candidate in plain.values():
            candidate, number = f"{base}_{number}", number + 1
        plain[name] = candidate
    return plain
