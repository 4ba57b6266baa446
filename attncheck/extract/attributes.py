"""What a node says in words of the scenario language: its attributes as axes, its inputs by place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from attncheck.scenario.complete import Value


def numbers(node: onnx.NodeProto) -> Mapping[str, float]:
    """The attributes of a node by name."""
    return {it.name: onnx.helper.get_attribute_value(it) for it in node.attribute}


def input_of(node: onnx.NodeProto, index: int) -> str:
    """The name of an input by its place, "" where it is not given."""
    return node.input[index] if index < len(node.input) else ""


def number(name: str, told: Mapping[str, float]) -> dict[str, Value]:
    """An attribute as the axis of the same name, where it is said."""
    return {name: _shortest(told[name])} if name in told else {}


def softcap(told: Mapping[str, float]) -> dict[str, Value]:
    """A softcap of 0 is how operators say that there is none."""
    return number("softcap", told) if told.get("softcap", 0.0) else {}


def says(told: Mapping[str, float], said: Mapping[str, float]) -> bool:
    """Whether the epsilons of a node are these."""
    return {name: value for name, value in told.items() if name.endswith("epsilon")} == said


def _shortest(value: float) -> float:
    """The shortest number that float32, in which attributes are kept, holds as the same."""
    return float(str(np.float32(value)))
