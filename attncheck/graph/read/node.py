"""An ONNX node beside the arrays that are fed to it: inputs by position, attributes by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from attncheck.problem import Arrays, Tensor

_DTYPES = {
    int(onnx.TensorProto.FLOAT): "float32",
    int(onnx.TensorProto.FLOAT16): "float16",
    int(onnx.TensorProto.BFLOAT16): "bfloat16",
}


class Unreadable(Exception):
    """The graph asks for something that attncheck's reading half does not know. The message says what."""


class Node:
    """Typed access to one node; nothing here knows an operator.

    op       domain and name, as messages show them
    opset    the version of its domain that the model imports
    """

    def __init__(self, proto: onnx.NodeProto, arrays: Arrays, types: Mapping[str, int], opset: int = 1) -> None:
        self.op = f"{proto.domain or 'ai.onnx'}.{proto.op_type}"
        self.opset = opset
        self._types = types
        self._inputs = tuple(proto.input)
        self._outputs = tuple(proto.output)
        self._attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in proto.attribute}
        self._arrays = arrays

    def name(self, index: int) -> str | None:
        """The graph name at input `index`, None where it is left out."""
        return self._inputs[index] if index < len(self._inputs) and self._inputs[index] else None

    def output(self, index: int) -> str | None:
        """The graph name at output `index`, None where it is not asked for."""
        return self._outputs[index] if index < len(self._outputs) and self._outputs[index] else None

    def array(self, index: int) -> NDArray[np.generic] | None:
        """The array at input `index`, None where it is left out."""
        name = self.name(index)
        return None if name is None else self._arrays[name]

    def given(self, index: int) -> Tensor | None:
        """Input `index` as [batch, heads, rows, dim], None where it is left out."""
        name = self.name(index)
        return None if name is None else Tensor(name, "bnsh")

    def asked(self, index: int) -> Tensor | None:
        """Output `index` as [batch, heads, rows, dim], None where it is not asked for."""
        name = self.output(index)
        return None if name is None else Tensor(name, "bnsh")

    def dtype(self, index: int) -> str:
        """The ONNX name of the float type at input `index`. Raises Unreadable for a type that attncheck lacks."""
        name, array = self.required(index)
        known = self._types.get(name, onnx.TensorProto.UNDEFINED)
        if known == onnx.TensorProto.UNDEFINED:
            known = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        if known not in _DTYPES:
            word = onnx.TensorProto.DataType.Name(known).lower()
            raise Unreadable(f"{self.op} in {word} is not read by attncheck: {', '.join(_DTYPES.values())} are")
        return _DTYPES[known]

    def required(self, index: int) -> tuple[str, NDArray[np.generic]]:
        """Name and array at an input that must be there. Raises Unreadable."""
        name = self.name(index)
        if name is None:
            raise Unreadable(f"{self.op} without its input {index} is not read by attncheck")
        return name, self._arrays[name]

    def attribute(self, name: str, default: Any) -> Any:
        """The attribute's value, or `default`."""
        return self._attributes.get(name, default)

    def scale(self, head_dim: int) -> float:
        """The attribute scale where 0 stands for the default, 1 / sqrt(head_dim)."""
        scale: float = self.attribute("scale", 0.0)
        return scale or 1.0 / math.sqrt(head_dim)

    def head_dim(self, index: int, columns: int, heads: int, beside: int = 0) -> int:
        """How many of the `columns` of input `index` each head has. Raises Unreadable where not all have as many.

        heads, beside   of the role itself, and of the roles that share the columns with it
        """
        if heads < 1 or columns % (heads + beside):
            name, array = self.required(index)
            count = f"{heads} heads" + (f" and {beside} of keys and values" if beside else "")
            raise Unreadable(
                f"{self.op} with {count} does not take {name} of shape {list(array.shape)}: its {columns} columns "
                "cannot be shared out among so many heads"
            )
        return columns // (heads + beside)

    def refuse_beyond(self, inputs: int, outputs: int) -> None:
        """Raise Unreadable when an input or output is given behind those that attncheck knows."""
        for word, names, known in (("input", self._inputs, inputs), ("output", self._outputs, outputs)):
            more = [name for name in names[known:] if name]
            if more:
                raise Unreadable(
                    f"{self.op} with {word} {names.index(more[0])}, {more[0]}, is not read by attncheck {_known()}: it "
                    f"knows {known} of them"
                )

    def refuse_inputs(self, indices: dict[int, str]) -> None:
        """Raise Unreadable when an input that attncheck does not know yet is given."""
        given = [word for index, word in indices.items() if self.name(index) is not None]
        if given:
            raise Unreadable(f"{self.op} with the input {given[0]} is not read by attncheck {_known()}")

    def refuse_attributes(self, known: Sequence[str]) -> None:
        """Raise Unreadable when an attribute outside of `known` is set."""
        unknown = [name for name in self._attributes if name not in known]
        if unknown:
            raise Unreadable(f"{self.op} with the attribute {unknown[0]} is not read by attncheck {_known()}")


def _known() -> str:
    from attncheck import __version__

    return __version__
