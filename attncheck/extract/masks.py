"""What the masks of a captured node say, of which the scenario language keeps the shape alone.

A mask whose values are a causal triangle is what the operator's own attribute says: the node with the attribute in the
place of the mask gives the same result. It does so where each query sees the same keys, at least one, nothing is added
to their scores, and the two Problems are alike otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
from numpy.typing import NDArray

from attncheck.graph import read
from attncheck.graph.case import Case
from attncheck.problem import AnyProblem, Mask, Problem
from attncheck.tensors.dtypes import dtype, widen

Arrays = Mapping[str, NDArray[np.generic]]
Bool = NDArray[np.bool_]

_CAUSAL: Mapping[tuple[str, str], tuple[int, str]] = {
    ("", "Attention"): (3, "is_causal"),
    ("com.microsoft", "Attention"): (5, "unidirectional"),
    ("com.microsoft", "MultiHeadAttention"): (5, "unidirectional"),
}
"""Operator -> its input over the scores, and its attribute that says causal."""


def hides(array: NDArray[np.generic], name: str) -> Bool:
    """Where an additive mask in the dtype called `name` hides a key: -inf, or the lowest number, as exporters write it.

    Beside a score that is seen, exp of either is 0.
    """
    return np.asarray(widen(array, name) <= -dtype(name).largest)


def over_scores(node: onnx.NodeProto, arrays: Arrays) -> bytes:
    """What tells apart the masks of nodes that are alike otherwise: the keys they hide, whether they add anything."""
    place, _ = _CAUSAL.get((node.domain, node.op_type), (0, ""))
    if not place or len(node.input) <= place or not node.input[place]:
        return b""
    array = arrays[node.input[place]]
    if array.dtype == np.bool_:
        return array.tobytes()
    name = "bfloat16" if array.dtype == np.uint16 else str(array.dtype)
    hidden = hides(array, name)
    return hidden.tobytes() + bytes([bool((~hidden & (widen(array, name) != 0.0)).any())])


def speak(problem: AnyProblem, inputs: Arrays) -> bool:
    """Whether masks that are inputs hide a key that the node itself shows, or add anything to a score."""
    if not isinstance(problem, Problem) or not any(mask.content is None for mask in problem.masks):
        return False
    seen, added = _seen(problem, inputs)
    return added or not np.array_equal(seen, np.broadcast_to(_shown(problem), seen.shape))


def as_causal(case: Case, problem: AnyProblem) -> Case | None:
    """`case` with its operator's attribute for causal in the place of its one mask; None where that is not the same."""
    place, attribute = _CAUSAL.get((case.node.domain, case.node.op_type), (0, ""))
    if not attribute or not isinstance(problem, Problem) or len(problem.masks) != 1 or problem.scores is not None:
        return None
    names = list(case.node.input)
    if len(names) <= place or names[place] != problem.masks[0].name or not speak(problem, case.inputs):
        return None
    other = _without(case, place, attribute)
    try:
        causal = read.any_problem(other.model, other.inputs)
    except read.Unreadable:
        return None
    seen, added = _seen(problem, case.inputs)
    if not isinstance(causal, Problem) or causal.invalid or added or not seen.any(axis=-1).all():
        return None
    return other if np.array_equal(seen, np.broadcast_to(_shown(causal), seen.shape)) else None


def _without(case: Case, place: int, attribute: str) -> Case:
    proto = onnx.load_model_from_string(case.model)
    node = next(it for it in proto.graph.node if it.op_type != "Constant")
    name = node.input[place]
    node.input[place] = ""
    while not node.input[-1]:
        del node.input[-1]
    for kept in [it for it in node.attribute if it.name == attribute]:
        node.attribute.remove(kept)
    node.attribute.append(onnx.helper.make_attribute(attribute, 1))
    for values in (proto.graph.input, proto.graph.initializer):
        for value in [it for it in values if it.name == name]:
            values.remove(value)
    inputs = {other: array for other, array in case.inputs.items() if other != name}
    return replace(case, model=proto.SerializeToString(deterministic=True), inputs=inputs)


def _shown(problem: Problem) -> Bool:
    """The keys that each query sees but for masks, [batch, 1, rows, slots]."""
    slots = np.arange(problem.capacity)
    low, high = problem.visible[:, None, :, :1], problem.visible[:, None, :, 1:]
    return np.asarray((low <= slots) & (slots < high))


def _seen(problem: Problem, inputs: Arrays) -> tuple[Bool, bool]:
    """The keys that each query sees, [batch, heads or 1, rows, slots], and whether a mask adds to a score."""
    seen, added = _shown(problem), False
    for mask in problem.masks:
        array = mask.array(inputs)
        if mask.kind == "additive":
            hidden = hides(array, problem.dtype)
            added = added or bool((~hidden & (widen(array, problem.dtype) != 0.0)).any())
        else:
            hidden = ~array.astype(np.bool_)
        seen = seen & _over_slots(~hidden, mask, problem.capacity)
    return seen, added


def _over_slots(kept: Bool, mask: Mask, slots: int) -> Bool:
    """[.., rows, slots]: a mask of one column is for all that it speaks for; behind those, keys are hidden."""
    spoken = np.broadcast_to(kept, (*kept.shape[:-1], mask.slots)) if kept.shape[-1] == 1 else kept
    behind = [(0, 0)] * (kept.ndim - 1) + [(0, max(0, slots - spoken.shape[-1]))]
    return np.pad(spoken[..., :slots], behind)
