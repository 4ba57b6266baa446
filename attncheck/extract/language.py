"""A captured node in the scenario language: its axes, and the proof that the language says the same node.

The axes are a guess from the node and its Problem; what counts is the proof. A scenario is taken only when the graph
written for it has the node's operator, attributes, inputs by shape and dtype, outputs, and the same Problem but for
names. The values of large tensors, masks and biases among them, are not part of it: a scenario generates its own. A
mask that is a causal triangle is said by the operator's attribute (`masks`); of any other that hides or adds something,
a note says that only its shape is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from attncheck.extract import axes, masks
from attncheck.graph import read, write
from attncheck.graph.case import Case
from attncheck.problem import (
    AnyProblem,
    Blocks,
    Columns,
    Mask,
    Norm,
    Problem,
    Projection,
    Quantised,
    Rotary,
    Scattered,
    Scores,
    Tensor,
)
from attncheck.scenario import ScenarioErrors, from_command_line
from attncheck.scenario.axes import AXES, spell
from attncheck.scenario.complete import Value

Arrays = Mapping[str, NDArray[np.generic]]

_IDLE: Mapping[tuple[str, str], Mapping[str, float | bytes]] = {
    ("com.microsoft", "GroupQueryAttention"): {
        "softcap": 0.0, "local_window_size": -1, "do_rotary": 0, "rotary_interleaved": 0,
        "smooth_softmax": 0, "causal": 1, "qk_output": 0, "sliding_window_cache": 0,
    },
    ("com.microsoft", "MultiHeadAttention"): {"unidirectional": 0, "mask_filter_value": -10000.0},
    ("com.microsoft", "DecoderMaskedMultiHeadAttention"): {
        "past_present_share_buffer": 0, "output_qk": 0, "mask_filter_value": -10000.0,
    },
    ("com.microsoft", "Attention"): {
        "unidirectional": 0, "do_rotary": 0, "past_present_share_buffer": 0, "mask_filter_value": -10000.0,
    },
    ("", "Attention"): {
        "is_causal": 0, "softcap": 0.0, "qk_matmul_output_mode": 0, "left_window_size": -1, "right_window_size": -1,
    },
    ("com.microsoft", "PagedAttention"): {
        "softcap": 0.0, "local_window_size": -1, "is_causal": 1, "do_rotary": 0, "rotary_interleaved": 0,
        "rotary_offset": 0, "v_head_size": 0,
    },
    ("com.microsoft", "SparseAttention"): {"do_rotary": 0, "rotary_interleaved": 0},
    ("com.microsoft", "LinearAttention"): {"update_rule": b"gated_delta", "chunk_size": 64, "state_window": 0},
    ("", "LinearAttention"): {"update_rule": b"gated_delta", "chunk_size": 64},
    ("com.microsoft", "RotaryEmbedding"): {"interleaved": 0, "rotary_embedding_dim": 0, "scale": 1.0, "num_heads": 0,
        "is_packed_batching": 0},
    ("", "RotaryEmbedding"): {"interleaved": 0, "rotary_embedding_dim": 0, "num_heads": 0},
}  # fmt: skip
"""Attributes at the value that the text gives them when left out: the same as left out. A scale of 0 is told."""


_COLUMNS = {("com.microsoft", "GroupQueryAttention"): 5}
"""Operator -> its input of lengths [batch], which exporters also write [batch, 1] and ONNX Runtime takes so."""


@dataclass(frozen=True)
class Said:
    """What the scenario language says of a node.

    axes    none where it cannot say it
    reason  why it cannot
    notes   what the scenario has otherwise than the node, or does not keep
    """

    axes: Mapping[str, Value]
    reason: str = ""
    notes: tuple[str, ...] = ()


def said(case: Case, problem: AnyProblem, memory_limit: int, symbolic: bool) -> Said:
    """What says the node of `case`, whose Problem is `problem`.

    symbolic   whether the model that the node is from has symbolic dimensions
    """
    causal = _causal(case, problem)
    if causal is not None and isinstance(problem, Problem):
        axes, _ = _axes(causal, read.any_problem(causal.model, causal.inputs), memory_limit, symbolic)
        if axes:
            note = f"{problem.masks[0].name} is a causal triangle, said as causal: true, which gives the same result"
            shown = {**axes, "causal": True}  # a default, but what a reader looks for here
            return Said({name: shown[name] for name in AXES if name in shown}, notes=(note, *_notes(case)))
    axes, reason = _axes(case, problem, memory_limit, symbolic)
    return Said(axes, notes=(*_lost(case, problem), *_notes(case))) if axes else Said({}, reason)


def _causal(case: Case, problem: AnyProblem) -> Case | None:
    """`case` without its mask and causal instead, where that is the same but for the mask."""
    other = masks.as_causal(case, problem)
    if other is None or not isinstance(problem, Problem):
        return None
    its = read.any_problem(other.model, other.inputs)
    alike = isinstance(its, Problem) and not any(_meanings(replace(problem, masks=(), visible=its.visible), its))
    return other if alike else None


def _lost(case: Case, problem: AnyProblem) -> Iterator[str]:
    """What masks say of which only the shape is kept."""
    if isinstance(problem, Problem) and masks.speak(problem, case.inputs):
        names = " and ".join(mask.name for mask in problem.masks)
        yield f"of {names} only the shape is kept, not which keys it hides or what it adds; --tensors keeps the values"


def _notes(case: Case) -> Iterator[str]:
    """What is shaped otherwise, and means the same."""
    place = _COLUMNS.get((case.node.domain, case.node.op_type))
    array = case.inputs[name] if place is not None and (name := _at(case.node.input, place)) else None
    if array is not None and array.ndim == 2:
        yield f"{name} is {list(array.shape)} in the model, and {[array.size]} in the scenario"


def _axes(case: Case, problem: AnyProblem, memory_limit: int, symbolic: bool) -> tuple[Mapping[str, Value], str]:
    """The axes that say the node, or no axes and the reason why not."""
    node = _node(case)
    guess = axes.of(node, case, problem, symbolic)
    if guess is None:
        return {}, f"the scenario language has no {problem.op} as this node is used"
    text = " ".join(f"{axis}={spell(value)}" for axis, value in guess.items())
    try:
        written = write.build(from_command_line(text, memory_limit))
    except ScenarioErrors as wrong:
        return {}, f"the scenario language refuses it: {wrong.diagnostics[0].message}"
    differences = list(_differences(case, problem, written))
    return ({}, "the scenario language cannot say " + "; ".join(differences)) if differences else (guess, "")


def _differences(case: Case, problem: AnyProblem, written: Case) -> Iterator[str]:
    """What the graph written for the axes has otherwise than the node."""
    node, twin = _node(case), _node(written)
    if (node.domain, node.op_type) != (twin.domain, twin.op_type) or _since(case) != _since(written):
        yield f"{node.op_type} {_since(case)}"
        return
    yield from _attributes(node, twin)
    yield from _inputs(node, case.inputs, twin, written.inputs)
    for index in range(max(len(node.output), len(twin.output))):
        mine, other = _at(node.output, index), _at(twin.output, index)
        if bool(mine) != bool(other):
            yield f"the output {mine} as it is asked for" if mine else f"{node.op_type} without its output {index}"
    yield from _meanings(problem, read.any_problem(written.model, written.inputs))


def _attributes(node: onnx.NodeProto, twin: onnx.NodeProto) -> Iterator[str]:
    mine, others = _attribute_values(node), _attribute_values(twin)
    for name in dict.fromkeys((*mine, *others)):
        if mine.get(name) != others.get(name):
            yield f"{name}={mine[name]}" if name in mine else f"{node.op_type} without {name}"


def _attribute_values(node: onnx.NodeProto) -> dict[str, Any]:
    idle = _IDLE.get((node.domain, node.op_type), {})
    values = {it.name: onnx.helper.get_attribute_value(it) for it in node.attribute}
    return {name: value for name, value in values.items() if idle.get(name) != value}


def _inputs(node: onnx.NodeProto, arrays: Arrays, twin: onnx.NodeProto, others: Arrays) -> Iterator[str]:
    """Inputs, by place, that are there on one side only or look otherwise."""
    for index in range(max(len(node.input), len(twin.input))):
        mine, other = _at(node.input, index), _at(twin.input, index)
        if bool(mine) != bool(other):
            yield f"the input {mine}" if mine else f"{node.op_type} without its input {index}"
        elif mine and _looks(_flat(node, index, arrays[mine])) != _looks(others[other]):
            yield f"{mine} as {_told(arrays[mine])} (it would be {_told(others[other])})"


def _flat(node: onnx.NodeProto, index: int, array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Lengths in a column [batch, 1] as [batch]; anything else as it is."""
    column = _COLUMNS.get((node.domain, node.op_type)) == index and array.ndim == 2 and array.shape[1] == 1
    return array[:, 0] if column else array


def _looks(array: NDArray[np.generic]) -> tuple[str, tuple[int, ...]]:
    """Dtype and shape; a single length may have any rank, as operators take it."""
    single = array.dtype.kind == "i" and array.size == 1
    return array.dtype.str, () if single else array.shape


def _told(array: NDArray[np.generic]) -> str:
    return f"{array.dtype} {list(array.shape)}"


def _at(names: Sequence[str], index: int) -> str:
    return names[index] if index < len(names) else ""


def _meanings(mine: AnyProblem, other: AnyProblem) -> Iterator[str]:
    """Fields of the two Problems that differ, names of tensors aside."""
    if type(mine) is not type(other):
        yield mine.op
        return
    for it in fields(mine):
        if not _same(getattr(mine, it.name), getattr(other, it.name)):
            yield _WORDS.get(it.name, it.name)


_WORDS = {
    "visible": "which keys each query sees here",
    "past_len": "these lengths of the past",
    "new_len": "these numbers of new tokens",
    "masks": "this mask",
    "past_key": "where the past keys lie",
    "past_value": "where the past values lie",
    "present_key": "where the present keys lie",
    "present_value": "where the present values lie",
    "rotary": "these rotary positions",
    "invalid": "what its operator's text forbids",
}


_NAMES: Mapping[type, tuple[str, ...]] = {
    Tensor: ("name",),
    Mask: ("name",),
    Scores: ("name",),
    Rotary: ("cos", "sin"),
    Norm: ("query", "key"),
    Quantised: ("key", "value"),
    Columns: ("name",),
    Projection: (),
    Blocks: (),
    Scattered: (),
}
"""Kinds of which fields are compared one by one, and those fields that only name tensors of the graph."""


def _same(mine: object, other: object) -> bool:
    if isinstance(mine, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(np.asarray(mine), np.asarray(other))
    if type(mine) is not type(other):
        return False
    if isinstance(mine, tuple) and isinstance(other, tuple):
        return len(mine) == len(other) and all(_same(one, its) for one, its in zip(mine, other, strict=True))
    named = _NAMES.get(type(mine))
    if named is None:
        return bool(mine == other)
    return all(
        _same(getattr(mine, it.name), getattr(other, it.name))
        for it in fields(mine)  # type: ignore[arg-type]
        if it.name not in named
    )


def _node(case: Case) -> onnx.NodeProto:
    graph = onnx.load_model_from_string(case.model).graph
    node: onnx.NodeProto = next(it for it in graph.node if it.op_type != "Constant")
    return node


def _since(case: Case) -> int:
    """The version of the operator that the model's opset means."""
    proto = onnx.load_model_from_string(case.model)
    node = _node(case)
    version = next((entry.version for entry in proto.opset_import if entry.domain == node.domain), 1)
    if node.domain:
        return int(version)
    return int(onnx.defs.get_schema(node.op_type, version).since_version)
