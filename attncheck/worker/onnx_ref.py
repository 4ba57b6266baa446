"""ONNX's reference evaluator as a worker's runtime."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import numpy as np
import onnx
import onnx.defs
from onnx.reference import ReferenceEvaluator

BFLOAT16 = onnx.TensorProto.BFLOAT16


class Prepared:
    """A parsed model with its evaluator."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.evaluator = ReferenceEvaluator(model)
        self.kernels = sorted({node.op_type for node in model.graph.node})
        self.types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}


class Runtime:
    """Evaluates ONNX models, node after node, in NumPy."""

    def __init__(self) -> None:
        self.hello = {
            "versions": {"onnx": onnx.__version__, "numpy": np.__version__},
            "device": {"opset": onnx.defs.onnx_opset_version()},
        }

    def prepare(self, payload: Dict[str, Any]) -> Prepared:
        """payload: {"model": bytes}."""
        return Prepared(onnx.load_from_string(payload["model"]))

    def run(self, prepared: Prepared, inputs: Dict[str, np.ndarray]) -> Tuple[Dict[str, np.ndarray], Dict[str, Any]]:
        """Outputs by the graph's names."""
        # The model itself may hold some of the arrays, and then does not take them.
        taken = prepared.types.items()
        given = {name: _as_declared(inputs[name], element) for name, element in taken if name in inputs}
        values = prepared.evaluator.run(None, given)
        outputs = {name: _stored(np.asarray(value)) for name, value in zip(prepared.evaluator.output_names, values)}
        return outputs, {"provider": "onnx.reference", "kernels": prepared.kernels}

    def release(self, prepared: Prepared) -> None:
        """Let the model go."""
        del prepared.evaluator


def start(options: Dict[str, Any]) -> Runtime:  # noqa: ARG001  every runtime starts so
    """There are no options."""
    return Runtime()


def _as_declared(array: np.ndarray, element: Any) -> np.ndarray:
    """bfloat16 crosses as its bits in uint16; the evaluator wants the type itself."""
    if element != BFLOAT16:
        return array
    import ml_dtypes

    return array.view(ml_dtypes.bfloat16)


def _stored(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array
