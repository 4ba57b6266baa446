"""From the graph's arrays to a problem's tensors by role, and back.

A Problem, as the plain dict that crosses, names for each role ("query", "output", ...) a graph input or output and its
layout: "bnsh" is [batch, heads, rows, dim], "bsnh" [batch, rows, heads, dim] or, in three axes, [batch, rows,
heads * dim]. Roles may share an array: then `packed` tells how many heads that has, and `first` where the role's begin;
"bsnph" is [batch, rows, heads, part, dim] and "pbnsh" [part, batch, heads, rows, dim], a part for each role. In the
layout "scattered" `scattered` tells where each row lies: its inputs are copies, its outputs go back to where it says,
and the past keeps what no row of the present is put upon. Queries,
new keys and new values are given as the problem's `projection`, where it has one, makes them of the graph's inputs.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
from failure import Failure

OF_QUERY_HEADS = ("query", "output", "input", "turned")
OUTPUTS = ("output", "present_key", "present_value", "present_state", "turned")


def tensors(problem: Dict[str, Any], inputs: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """Inputs by role, views [batch, heads, rows, dim] of the graph's arrays.

    "cos", "sin", "q_gain", "k_gain" and "sink" are there where the problem has them, and each mask by its own name, all
    as they are.
    """
    found = {}
    for role, tensor in problem.items():
        if _is_tensor(tensor) and role not in OUTPUTS:
            found[role] = _rows(problem, role, tensor, inputs)
    if problem.get("rotary"):
        found["cos"], found["sin"] = _angles(problem["rotary"], inputs)
    if problem.get("norm"):
        found["q_gain"], found["k_gain"] = (inputs[problem["norm"][name]] for name in ("query", "key"))
    if problem.get("quantised"):
        found["k_scale"], found["v_scale"] = (inputs[problem["quantised"][name]] for name in ("key", "value"))
    if problem.get("sink"):
        found["sink"] = inputs[problem["sink"]]
    for mask in problem.get("masks", ()):
        content = mask.get("content")
        found[mask["name"]] = inputs[mask["name"]] if content is None else content
    return found


def _angles(rotary: Dict[str, Any], inputs: Dict[str, np.ndarray]) -> Tuple[np.ndarray, np.ndarray]:
    """Cosines and sines by position; where the operator has no caches, those of p / base ** (2 i / dim), in float32."""
    if not rotary.get("base"):
        return inputs[rotary["cos"]], inputs[rotary["sin"]]
    pairs = np.arange(rotary["dim"] // 2)
    positions = np.arange(int(np.max(rotary["positions"])) + 1)[:, None]
    angles = positions * rotary["base"] ** (-2.0 * pairs / rotary["dim"])
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _rows(
    problem: Dict[str, Any], role: str, tensor: Dict[str, Any], inputs: Dict[str, np.ndarray]
) -> np.ndarray:
    """A role as it is attended with: projected in float32 where the problem says so, and stored in its dtype."""
    array, heads = inputs[tensor["name"]], _heads(problem, role)
    projection = problem.get("projection") or {}
    weights, bias = (_columns(projection.get(name), role) for name in ("weights", "bias"))
    if weights is None and bias is None:
        return _split(array, tensor, heads)
    rows = _split(_wide(array), tensor, heads if weights is None else 1)
    width = heads * (problem["v_head_dim"] if role == "value" else problem["head_dim"])
    if weights is not None:
        columns = _wide(inputs[weights[0]][:, weights[1] : weights[1] + width])
        rows = _unpacked(rows[:, 0] @ columns, "bsnh", heads)
    if bias is not None:
        rows = rows + _wide(inputs[bias[0]][bias[1] : bias[1] + width]).reshape(heads, 1, -1)
    return _stored(rows, array.dtype)


def _wide(array: np.ndarray) -> np.ndarray:
    """In float32; bfloat16, which crosses as its bits in uint16, is widened by value."""
    if array.dtype == np.uint16:
        widened: np.ndarray = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return widened
    return array.astype(np.float32)


def _stored(rows: np.ndarray, dtype: Any) -> np.ndarray:
    """Float32 rounded to the dtype that it is stored in, to nearest, ties to even."""
    if dtype != np.uint16:
        return rows.astype(dtype)
    bits = np.ascontiguousarray(rows, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    # A NaN whose last bits carry over would become a number.
    return np.where(np.isnan(rows), np.uint32(0x7FC0), rounded).astype(np.uint16)


def _columns(columns: Any, role: str) -> Any:
    """Name and first column of weights or a bias that a role has, or None."""
    return None if not columns or columns.get(role) is None else (columns["name"], columns[role])


def graph_outputs(
    problem: Dict[str, Any],
    given: Dict[str, np.ndarray],
    outputs: List[Dict[str, Any]],
    inputs: Dict[str, np.ndarray],
) -> Dict[str, np.ndarray]:
    """Outputs by role, [batch, heads, rows, dim], under the graph's names, in its layouts. Raises Failure."""
    shapes = {output["name"]: tuple(output["shape"]) for output in outputs}
    wanted = {role: problem[role] for role in (*OUTPUTS, "scores") if problem.get(role) is not None}
    unknown = sorted(set(given) - set(wanted))
    if unknown:
        raise Failure("malformed", "it returned %s; the outputs are %s" % (", ".join(unknown), ", ".join(wanted)))
    found: Dict[str, np.ndarray] = {}
    for role, array in given.items():
        name, layout = wanted[role]["name"], wanted[role].get("layout", "bnsh")
        expected = _expected(problem, role, shapes[name])
        if array.shape != expected:
            raise Failure(
                "malformed", "output %s has shape %s, expected %s" % (role, list(array.shape), list(expected))
            )
        if layout == "scattered":
            found[name] = _scattered(array, wanted[role]["scattered"], _before(problem, role, inputs))
        elif layout == "pbnsh":
            whole = found.setdefault(name, np.zeros(shapes[name], array.dtype))
            whole[wanted[role]["first"] // _heads(problem, role)] = array
        else:
            found[name] = (array.transpose(0, 2, 1, 3) if layout == "bsnh" else array).reshape(shapes[name])
    return found


def _expected(problem: Dict[str, Any], role: str, shape: Tuple[int, ...]) -> Tuple[int, ...]:
    """What a role must be, [batch, heads, rows, dim], where its output has this shape."""
    layout, heads = problem[role].get("layout", "bnsh"), _heads(problem, role)
    if layout == "scattered":
        at = problem[role]["scattered"]
        dim = shape[-1] if at["page"] else shape[-1] // heads
        return (at["places"].shape[0], heads, at["places"].shape[1], dim)
    return shape[1:] if layout == "pbnsh" else _split_shape(shape, layout, heads)


def _before(problem: Dict[str, Any], role: str, inputs: Dict[str, np.ndarray]) -> Any:
    """The array that an output changes in place, or None."""
    past = problem.get(role.replace("present", "past")) if role.startswith("present") else None
    return inputs[past["name"]] if past else None


def _gathered(array: np.ndarray, at: Dict[str, Any], heads: int) -> np.ndarray:
    """Rows [batch, heads, rows, dim] of a scattered array; 0 for one that lies nowhere."""
    places = at["places"]
    rows = array.reshape((-1, heads, array.shape[-1] if at["page"] else array.shape[-1] // heads))[
        np.maximum(places, 0)
    ]
    rows[places < 0] = 0
    turned: np.ndarray = rows.transpose(0, 2, 1, 3)
    return turned


def _scattered(rows: np.ndarray, at: Dict[str, Any], before: Any) -> np.ndarray:
    """The array of an output whose rows lie scattered."""
    places = at["places"]
    whole = np.zeros(at["shape"], rows.dtype) if before is None else np.array(before)
    flat = whole.reshape((-1, rows.shape[1], rows.shape[3]))
    flat[places[places >= 0]] = rows.transpose(0, 2, 1, 3)[places >= 0]
    return whole


def _heads(problem: Dict[str, Any], role: str) -> int:
    heads: int = problem["heads"] if role in OF_QUERY_HEADS else problem["kv_heads"]
    if problem.get("kind") == "linear":
        heads = {"beta": problem["beta_heads"], "output": max(problem["heads"], problem["kv_heads"])}.get(role, heads)
    return heads


def _split(array: np.ndarray, tensor: Dict[str, Any], heads: int) -> np.ndarray:
    packed, first = tensor.get("packed", 0), tensor.get("first", 0)
    if tensor["layout"] == "scattered":
        whole = _gathered(array, tensor["scattered"], packed or heads)
    else:
        whole = _unpacked(array, tensor["layout"], packed or heads)
    return whole[:, first : first + heads] if packed else whole


def _unpacked(array: np.ndarray, layout: str, heads: int) -> np.ndarray:
    if layout == "bnsh":
        return array
    if layout in ("bsnph", "pbnsh"):
        parts = array.transpose(0, 3, 2, 1, 4) if layout == "bsnph" else array.transpose(1, 0, 2, 3, 4)
        return parts.reshape(parts.shape[0], parts.shape[1] * parts.shape[2], *parts.shape[3:])
    if array.ndim == 3:
        batch, rows, width = array.shape
        array = array.reshape(batch, rows, heads, width // heads)
    return array.transpose(0, 2, 1, 3)


def _split_shape(shape: Tuple[int, ...], layout: str, heads: int) -> Tuple[int, ...]:
    return _unpacked(np.empty(shape, np.uint8), layout, heads).shape


def _is_tensor(value: Any) -> bool:
    return isinstance(value, dict) and "name" in value and "layout" in value
