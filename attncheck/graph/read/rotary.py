"""Reads RotaryEmbedding of ai.onnx (23) and of com.microsoft.

Both turn [batch, rows, heads * dim] or [batch, heads, rows, dim]. They differ in the order of their inputs and in what
says the positions: ai.onnx has position_ids [batch, rows], or none and a row of angles for every token in caches
[batch, rows, dim / 2]; com.microsoft has position_ids [batch, rows], or [1], the position of each entry's first row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import Layout, Rotary, RotaryProblem, Tensor

_ATTRIBUTES = ("interleaved", "num_heads", "rotary_embedding_dim")
_MORE_OF_MICROSOFT = ("is_packed_batching", "scale")


@dataclass(frozen=True)
class _Inputs:
    """Where an operator has its inputs."""

    cos: int
    sin: int
    positions: int


_AI_ONNX = _Inputs(cos=1, sin=2, positions=3)
_MICROSOFT = _Inputs(cos=2, sin=3, positions=1)


@dataclass(frozen=True)
class _Rows:
    """The input's shape [batch, heads, rows, head_dim], and how many leading dims turn."""

    batch: int
    heads: int
    rows: int
    head_dim: int
    turning: int


def read(node: Node) -> RotaryProblem:
    """The Problem of an ai.onnx RotaryEmbedding node."""
    node.refuse_attributes(_ATTRIBUTES)
    return _problem(node, _AI_ONNX)


def read_microsoft(node: Node) -> RotaryProblem:
    """The Problem of a com.microsoft RotaryEmbedding node. Raises Unreadable for a scale: no text says of what.

    With `is_packed_batching` the entries of a batch follow each other in one: their positions say the same of them.
    """
    node.refuse_attributes((*_ATTRIBUTES, *_MORE_OF_MICROSOFT))
    scale = node.attribute("scale", 1.0)
    if scale not in (0.0, 1.0):
        raise Unreadable(f"{node.op} with scale {scale:g} is not read by attncheck: no text says what it multiplies")
    return _problem(node, _MICROSOFT)


def _problem(node: Node, inputs: _Inputs) -> RotaryProblem:
    name, array = node.required(0)
    columns = node.required(inputs.cos)[1].shape[-1]
    it = _rows(node, array, columns)
    if inputs is _MICROSOFT and it.turning < 2 * columns == it.head_dim:
        raise Unreadable(f"{node.op} with caches as wide as the head is not read by attncheck: no text says what turns")
    layout: Layout = "bnsh" if array.ndim == 4 else "bsnh"
    return RotaryProblem(
        op=node.op,
        dtype=node.dtype(0),
        batch=it.batch,
        rows=it.rows,
        heads=it.heads,
        head_dim=it.head_dim,
        rotary=Rotary(
            style="interleaved" if node.attribute("interleaved", 0) else "half",
            dim=it.turning,
            cos=node.required(inputs.cos)[0],
            sin=node.required(inputs.sin)[0],
            positions=_positions(node, inputs, it),
        ),
        input=Tensor(name, layout),
        turned=Tensor(node.output(0) or "output", layout),
        invalid=_invalid(node, inputs, it),
    )


def _rows(node: Node, array: NDArray[np.generic], columns: int) -> _Rows:
    """Without num_heads the caches say how wide a head of com.microsoft is: "(max_sequence_length, head_size / 2)"."""
    turning = node.attribute("rotary_embedding_dim", 0)
    if array.ndim == 4:
        batch, heads, rows, head_dim = array.shape
    elif array.ndim == 3:
        batch, rows, width = array.shape
        heads = node.attribute("num_heads", 0) or max(1, width // (2 * columns))
        head_dim = node.head_dim(0, width, heads)
    else:
        raise Unreadable(f"{node.op} of an input of {array.ndim} axes is not read by attncheck: 3 and 4 are")
    return _Rows(batch, heads, rows, head_dim, turning or head_dim)


def _positions(node: Node, inputs: _Inputs, it: _Rows) -> NDArray[np.int32]:
    """The cache row of each row, [batch, rows]; caches of a row for each token are counted through."""
    said = node.array(inputs.positions)
    steps = np.arange(it.rows)
    if said is None:
        positions = np.arange(it.batch)[:, None] * it.rows + steps
    elif said.shape == (it.batch, it.rows):
        positions = np.asarray(said, np.int64)
    else:
        first = np.asarray(said, np.int64).reshape(-1)[:1]
        positions = np.broadcast_to(first + steps, (it.batch, it.rows))
    return positions.astype(np.int32)


def _invalid(node: Node, inputs: _Inputs, it: _Rows) -> str:
    """Why the operator's text forbids the node, or nothing."""
    cos, sin = node.required(inputs.cos)[1], node.required(inputs.sin)[1]
    if node.required(0)[1].ndim == 3 and inputs is _AI_ONNX and not node.attribute("num_heads", 0):
        return "num_heads must be given with an input of three axes"
    if inputs is _MICROSOFT and node.attribute("rotary_embedding_dim", 0) and not node.attribute("num_heads", 0):
        return "rotary_embedding_dim must be used with num_heads"
    if it.turning % 2 or it.turning > it.head_dim:
        return f"{it.turning} dims cannot turn in pairs in a head of {it.head_dim}"
    if cos.shape != sin.shape or 2 * cos.shape[-1] != it.turning:
        return f"cos_cache {list(cos.shape)} and sin_cache {list(sin.shape)} must have {it.turning // 2} columns"
    return _misplaced(node, inputs, it, cos.shape)


def _misplaced(node: Node, inputs: _Inputs, it: _Rows, cache: tuple[int, ...]) -> str:
    """What is wrong with the positions, or nothing."""
    said = node.array(inputs.positions)
    if said is None:
        by_token = (it.batch, it.rows, cache[-1])
        return (
            "" if cache == by_token else f"without position_ids the caches must be {list(by_token)}, not {list(cache)}"
        )
    if len(cache) != 2:
        return f"with position_ids the caches must have two axes, not {list(cache)}"
    if said.shape != (it.batch, it.rows) and not (inputs is _MICROSOFT and said.shape == (1,)):
        return f"position_ids must be {[it.batch, it.rows]}, not {list(said.shape)}"
    positions = _positions(node, inputs, it)
    if positions.size and (positions.min() < 0 or positions.max() >= cache[0]):
        outside = positions.max() if positions.max() >= cache[0] else positions.min()
        return f"position {outside} lies outside of the {cache[0]} rows of cos_cache"
    return ""
