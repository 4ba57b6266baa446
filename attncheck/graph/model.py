"""Building blocks of an ONNX model: named typed values around one attention node, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from attncheck.graph.case import Output
from attncheck.tensors import dtypes

IR_VERSION = 3
OPSET = 7
"""The lowest IR and ai.onnx opset that ONNX Runtime promises to load; com.microsoft attention needs nothing newer."""

MICROSOFT = "com.microsoft"


def single_node_model(
    op: str,
    inputs: Sequence[tuple[str, NDArray[np.generic] | None]],
    outputs: Sequence[Output],
    attributes: Mapping[str, Any],
) -> bytes:
    """A serialised model of one com.microsoft node. An input without an array is left out, as ONNX writes it: "".

    Raises onnx.checker.ValidationError when the model would not be valid ONNX.
    """
    names = [name if array is not None else "" for name, array in inputs]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(op, names, [output.name for output in outputs], name=op, domain=MICROSOFT, **attributes)
    graph = helper.make_graph(
        [node],
        "attncheck",
        [_value(name, array.dtype, array.shape) for name, array in inputs if array is not None],
        [_value(output.name, dtypes.dtype(output.dtype).storage, output.shape) for output in outputs],
    )
    model = helper.make_model(
        graph,
        producer_name="attncheck",
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)],
    )
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def _value(name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), list(shape))
