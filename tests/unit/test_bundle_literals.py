"""Arrays and models as text: what a script says must be what ran, element by element and node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from hypothesis.extra.numpy import arrays as drawn
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from attncheck import shipped
from attncheck.bundle import literals
from attncheck.bundle.runtimes import model_text
from attncheck.graph.session import session
from attncheck.scenario import Scenario, load
from attncheck.scenario.select import SET_APART

DTYPES = [np.float32, np.float16, np.float64, np.int32, np.int64, np.uint16, np.uint8, np.bool_]
SHIPPED = [case for case in load([shipped.scenarios_dir()]) if not set(SET_APART) & set(case.tags)]


def read(text: str) -> NDArray[Any]:
    found: NDArray[Any] = eval(text, {"np": np})
    return found


@given(st.sampled_from(DTYPES).flatmap(lambda dtype: drawn(dtype, array_shapes(min_dims=0, min_side=0))))
def test_an_array_comes_back_from_its_text_with_every_bit_but_those_of_a_nan(array: NDArray[Any]) -> None:
    again = read(literals.array(array))
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    nan = np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)
    assert np.array_equal(nan, np.isnan(again) if array.dtype.kind == "f" else nan)
    assert array[~nan].tobytes() == again[~nan].tobytes()


def test_what_one_number_fills_is_written_as_that_number_and_a_negative_zero_is_none_of_many_zeros() -> None:
    assert literals.array(np.full((2, 3), 1.5, np.float16)) == "np.full((2, 3), 1.5, np.float16)"
    assert "-0.0" in literals.array(np.array([0.0, -0.0], np.float32))


def test_inputs_are_literal_up_to_a_number_of_elements_that_one_number_does_not_fill() -> None:
    filled = np.zeros((100, 100), np.float32)
    counted = np.arange(literals.LITERAL_UP_TO - 1, dtype=np.float32)
    assert literals.literal({"a": filled, "b": counted})
    assert not literals.literal({"a": counted, "b": counted})


def test_long_lines_are_broken_behind_commas_and_say_the_same() -> None:
    array = np.linspace(0.0, 1.0, 300, dtype=np.float32)
    text = literals.arrays({"x": array}, "")
    assert max(map(len, text.splitlines())) <= literals.WIDTH + 10
    assert np.array_equal(eval(text, {"np": np})["x"], array)


@pytest.mark.parametrize("case", SHIPPED[:: max(1, len(SHIPPED) // 150)], ids=lambda case: case.id)
def test_the_model_of_every_shipped_case_is_said_by_helper_calls_that_give_it_again(case: Scenario) -> None:
    for one in session(case).cases:
        body = literals.model(one.model)
        assert body is not None
        names: dict[str, Any] = {}
        lines = ["def build(helper, TensorProto):", *(f"    {line}" for line in body.splitlines())]
        exec("\n".join(lines), names)
        built = names["build"](helper, TensorProto)
        onnx.checker.check_model(built)
        wanted = onnx.load_model_from_string(one.model)
        assert [helper.printable_node(it) for it in built.graph.node] == [
            helper.printable_node(it) for it in wanted.graph.node
        ]
        assert list(built.graph.input) == list(wanted.graph.input)
        assert list(built.graph.output) == list(wanted.graph.output)
        assert list(built.opset_import) == list(wanted.opset_import)


def test_a_model_with_constants_is_read_from_its_file() -> None:
    node = helper.make_node("Add", ["x", "c"], ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    constant = numpy_helper.from_array(np.ones(1, np.float32), "c")
    graph = helper.make_graph([node], "g", values[:1], values[1:], [constant])
    content = helper.make_model(graph).SerializeToString()
    assert literals.model(content) is None
    assert "model.onnx" in model_text.function(content)
    assert "helper" not in model_text.function(content)
