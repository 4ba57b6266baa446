"""A model that leaves arrays on a device, as its outputs: the way to it that every provider of ONNX Runtime has."""

from __future__ import annotations

import numpy as np
from onnx import helper

from attncheck.problem import Arrays

OPSET, IR_VERSION = 13, 8
"""As old as the oldest ONNX Runtime's."""


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
