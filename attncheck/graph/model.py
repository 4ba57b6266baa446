"""Building blocks of an ONNX model: named typed values around one attention node, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from attncheck.graph.case import Output
from attncheck.tensors import dtypes

IR_VERSION = 3
OPSET = 7
"""The lowest IR and ai.onnx opset that ONNX Runtime promises to load; com.microsoft attention needs nothing newer."""

MICROSOFT = "com.microsoft"
IR_OF_OPSET = {23: 11, 24: 12, 25: 13, 27: 13}
"""The IR version that came with each ai.onnx opset: the lowest that a runtime which knows the opset must load."""


def single_node_model(
    op: str,
    inputs: Sequence[tuple[str, NDArray[np.generic] | None]],
    outputs: Sequence[Output | None],
    attributes: Mapping[str, Any],
    opset: int = 0,
) -> bytes:
    """A serialised model of one node, of com.microsoft or with `opset` of ai.onnx.

    An input without an array, and an output that is None, is left out, as ONNX writes it: "".
    Raises onnx.checker.ValidationError when the model would not be valid ONNX.
    """
    node = helper.make_node(
        op,
        _without_tail([name if array is not None else "" for name, array in inputs]),
        _without_tail([output.name if output is not None else "" for output in outputs]),
        name=op,
        domain="" if opset else MICROSOFT,
        **attributes,
    )
    graph = helper.make_graph(
        [node],
        "attncheck",
        [_value(name, array.dtype, array.shape) for name, array in inputs if array is not None],
        [_value(it.name, dtypes.dtype(it.dtype).storage, it.shape) for it in outputs if it is not None],
    )
    model = helper.make_model(
        graph,
        producer_name="attncheck",
        ir_version=IR_OF_OPSET[opset] if opset else IR_VERSION,
        opset_imports=_imports(opset),
    )
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def _imports(opset: int) -> list[onnx.OperatorSetIdProto]:
    if opset:
        return [helper.make_opsetid("", opset)]
    return [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]


def _without_tail(names: list[str]) -> list[str]:
    while names and not names[-1]:
        names.pop()
    return names


def _value(name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> onnx.ValueInfoProto:
    """bfloat16 travels as its bits in uint16, which no operator here takes for itself."""
    element = TensorProto.BFLOAT16 if dtype == np.uint16 else helper.np_dtype_to_tensor_dtype(dtype)
    return helper.make_tensor_value_info(name, element, list(shape))


def symbolic(model: bytes) -> bytes:
    """`model` with names for its batch and its lengths, as exporters leave them; heads and widths keep numbers.

    Each tensor has names of its own, but for the batch: nothing may be concluded from two lengths of one name.
    """
    proto = onnx.load_model_from_string(model)
    for value in (*proto.graph.input, *proto.graph.output):
        dims = value.type.tensor_type.shape.dim
        for axis in _open_axes(value.name, len(dims)):
            dims[axis].dim_param = "batch" if axis == 0 and len(dims) > 2 else f"{value.name}_{axis}"
    onnx.checker.check_model(proto)
    return bytes(proto.SerializeToString(deterministic=True))


def _open_axes(name: str, rank: int) -> tuple[int, ...]:
    """The axes of a tensor that depend on the batch or on lengths."""
    if name in _PAGES:
        return (0,)
    if name in _OVER_SCORES:
        return tuple(range(rank)) if rank < 4 else (0, 2, 3)
    return {3: (0, 1), 4: (0, 2), 5: (0, 1)}.get(rank, (0,) if rank else ())


_OVER_SCORES = {"attn_mask", "attention_bias", "key_padding_mask", "mask_index", "output_qk", "qk", "qk_matmul_output"}
"""Tensors whose last axis is a length."""
_PAGES = {"key_cache", "value_cache", "key_cache_out", "value_cache_out"}
"""Tensors whose first axis alone counts what there is of something."""
