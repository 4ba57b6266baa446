"""The node tests of the operators of ai.onnx that are read, as the installed onnx package generates them, as cases."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from attncheck.graph.case import Case, GivenModel, Output, digest

OPERATORS = frozenset({"Attention", "LinearAttention", "RotaryEmbedding"})
"""Operators of ai.onnx whose tests are taken; a test that spells an operator out in others ("expanded") is not."""

SUITE = f"onnx-{onnx.__version__}"
"""What the ids of the cases begin with."""


@cache
def vectors() -> tuple[Case, ...]:
    """Every test as a case, in the package's order; `published` holds the outputs that the test expects.

    Takes some seconds: the package can only generate the tests of all operators together.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other operators' generators overflow on purpose
        from onnx.backend.test.loader import load_model_tests

        tests = load_model_tests(kind="node")
    return tuple(case for test in tests if _is_wanted(test.model) for case in _cases(test))


def _is_wanted(model: onnx.ModelProto | None) -> bool:
    if model is None or len(model.graph.node) != 1:
        return False
    (node,) = model.graph.node
    return node.domain in {"", "ai.onnx"} and node.op_type in OPERATORS


def _cases(test: Any) -> Iterator[Case]:
    """One case for each set of data of a test; there is one such set everywhere so far."""
    name = test.name.removeprefix("test_")
    for index, (inputs, outputs) in enumerate(test.data_sets):
        suffix = f":data={index}" if len(test.data_sets) > 1 else ""
        yield _case(f"{SUITE}::{name}{suffix}", test.model, inputs, outputs)


def _case(address: str, model: onnx.ModelProto, inputs: Sequence[Any], outputs: Sequence[Any]) -> Case:
    arrays = _by_name(model.graph.input, inputs)
    published = _by_name(model.graph.output, outputs)
    opset = next(it.version for it in model.opset_import if it.domain in {"", "ai.onnx"})
    about = f"the official test of {model.graph.node[0].op_type} {opset}, with the inputs that it brings"
    written = model.SerializeToString(deterministic=True)
    return Case(
        id=address,
        origin=GivenModel(address, f"onnx {onnx.__version__}, onnx.backend.test", about),
        model=written,
        inputs=arrays,
        outputs=tuple(Output(it.name, _dtype(it), published[it.name].shape) for it in model.graph.output),
        digest=digest(written, arrays),
        published=published,
    )


def _by_name(values: Sequence[onnx.ValueInfoProto], arrays: Sequence[Any]) -> Mapping[str, NDArray[np.generic]]:
    """The arrays by the graph's names, bfloat16 as its bits, as attncheck keeps it."""
    plain = {value.name: np.asarray(array) for value, array in zip(values, arrays, strict=True)}
    return {name: it.view(np.uint16) if it.dtype.name == "bfloat16" else it for name, it in plain.items()}


def _dtype(value: onnx.ValueInfoProto) -> str:
    name: str = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()
    return "float32" if name == "float" else name
