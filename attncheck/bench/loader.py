"""Models that only move arrays, as every provider of ONNX Runtime can: onto a device to stay, and back from it."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from attncheck.problem import Arrays

OPSET, IR_VERSION = 13, 8
"""As old as the oldest ONNX Runtime's."""


def waiter() -> bytes:
    """One number through an Identity: it is back when the device has done all that it was asked for before."""
    number = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("number", "same")]
    graph = helper.make_graph([helper.make_node("Identity", ["number"], ["same"])], "waiter", number[:1], number[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    serialized: bytes = model.SerializeToString()
    return serialized


def loader(inputs: Arrays) -> bytes:
    """An Identity for each array of floats; lengths and positions, which providers read on the host, are not in it."""
    floats = {name: array for name, array in inputs.items() if array.dtype in (np.float32, np.float16)}
    given, left, nodes = [], [], []
    for number, (name, array) in enumerate(floats.items()):
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        given.append(helper.make_tensor_value_info(name, element, array.shape))
        left.append(helper.make_tensor_value_info(f"left_{number}", element, array.shape))
        nodes.append(helper.make_node("Identity", [name], [f"left_{number}"]))
    graph = helper.make_graph(nodes, "loader", given, left)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    serialized: bytes = model.SerializeToString()
    return serialized
