"""Works for tests in more features than a scenario says: masks, sinks, packed roles, score outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from attncheck.problem import Mask, Problem, Scores, ScoreStage, split_heads
from attncheck.tensors.dtypes import narrow
from tests.device import Work

STAGES: tuple[ScoreStage, ...] = ("raw", "capped", "biased", "weights")


def masked(given: Work, array: NDArray[np.generic], slots: int | None = None) -> Work:
    """One mask more: boolean if `array` is, else additive; `slots` where its last axis does not say."""
    name = f"mask_{len(given.problem.masks)}"
    boolean = array.dtype == np.bool_
    kind: Any = "boolean" if boolean else "additive"
    stored = array if boolean else narrow(array.astype(np.float64), given.problem.dtype)
    reach = max(given.problem.kv_len) if slots is None and array.shape[-1] == 1 else slots or array.shape[-1]
    mask = Mask(name, kind, array.shape, reach)
    added = given.with_problem(masks=(*given.problem.masks, mask))
    return replace(added, inputs={**given.inputs, name: stored})


def sunk(given: Work, sink: NDArray[np.float64] | None, *, smooth: bool = False) -> Work:
    """With a sink for each head, or a smooth softmax, or both."""
    name = None if sink is None else "sink"
    inputs = dict(given.inputs) if sink is None else {**given.inputs, "sink": narrow(sink, given.problem.dtype)}
    return replace(given.with_problem(sink=name, smooth=smooth), inputs=inputs)


def scored(given: Work, stage: ScoreStage, slots: int | None = None) -> Work:
    """With a score output."""
    problem = given.problem
    count = max(problem.kv_len) if slots is None else slots
    shape = (problem.batch, problem.heads, problem.rows, count)
    output = {"name": "scores", "dtype": problem.dtype, "shape": shape}
    asked = given.with_problem(scores=Scores("scores", stage, count))
    return replace(asked, outputs=(*given.outputs, output))


ROLES = ("query", "key", "value")


def packed(given: Work, order: tuple[str, ...] = ROLES) -> Work:
    """Query, key and value in one array [batch, rows, (heads + 2 kv_heads) * dim], in the given order."""
    problem = given.problem
    whole = np.concatenate([given.inputs[name] for name in order], axis=-1)
    inputs = {name: array for name, array in given.inputs.items() if name not in ("key", "value")}
    held = {"query": problem.heads, "key": problem.kv_heads, "value": problem.kv_heads}
    firsts = np.cumsum([0, *(held[name] for name in order)])

    def role(first: int) -> Any:
        return replace(problem.query, name="query", packed=int(firsts[-1]), first=first)

    roles = {name: role(int(first)) for name, first in zip(order, firsts, strict=False)}
    return replace(given.with_problem(**roles), inputs={**inputs, "query": whole})


def packed_by_heads(given: Work, order: tuple[str, ...] = ROLES) -> Work:
    """Query, key and value in one array [batch, heads + 2 kv_heads, rows, dim]."""
    problem = given.problem
    held = {"query": problem.heads, "key": problem.kv_heads, "value": problem.kv_heads}
    parts = [split_heads(given.inputs[name], "bsnh", held[name]) for name in order]
    flat = packed(given, order)
    roles = {
        name: replace(getattr(flat.problem, name), layout="bnsh") for name in ("query", "key", "value")
    }  # fmt: skip
    inputs = {**flat.inputs, "query": np.ascontiguousarray(np.concatenate(parts, axis=1))}
    return replace(flat.with_problem(**roles), inputs=inputs)


@st.composite
def masks(draw: st.DrawFn, problem: Problem) -> tuple[NDArray[np.generic], int | None]:
    """A mask of any rank and broadcast: holes, empty rows, an end before the keys' end, -inf among numbers."""
    whole = (problem.batch, problem.heads, problem.rows, max(problem.kv_len))
    rank = draw(st.integers(1, 4))
    shape = [draw(st.sampled_from((1, size))) for size in whole[4 - rank : -1]]
    last = draw(st.sampled_from((1, whole[3], draw(st.integers(1, whole[3])))))
    shape.append(last)
    slots = draw(st.one_of(st.none(), st.integers(1, whole[3]))) if last == 1 else None
    generator = np.random.default_rng(draw(st.integers(0, 999)))
    hidden = generator.random(shape) < draw(st.sampled_from((0.0, 0.2, 0.9)))
    if draw(st.booleans()):  # a row that sees nothing
        hidden.reshape(-1, last)[generator.integers(0, max(1, hidden.size // last))] = True
    if draw(st.booleans()):
        return ~hidden, slots
    lowest = draw(st.sampled_from((-np.inf, -np.inf, -10000.0, -60000.0)))
    size = draw(st.sampled_from((0.1, 3.0, 40.0)))
    return np.where(hidden, lowest, size * generator.standard_normal(shape)), slots


@st.composite
def dressings(draw: st.DrawFn, given: Work) -> Work:
    """`given` with up to two masks, perhaps sinks, packed roles and a score output."""
    problem = given.problem
    for _ in range(draw(st.integers(0, 2))):
        given = masked(given, *draw(masks(problem)))
    size = draw(st.sampled_from((None, 0.5, 3.0, 50.0)))
    generator = np.random.default_rng(draw(st.integers(0, 999)))
    sink = None if size is None else size * generator.standard_normal(problem.heads)
    given = sunk(given, sink, smooth=draw(st.sampled_from((False, False, True))))
    given = draw(st.sampled_from((lambda it: it, packed, packed_by_heads)))(given)
    given = given.with_problem(empty_row=draw(st.sampled_from(("zero", "mean"))))
    stage = draw(st.sampled_from((None, *STAGES)))
    if stage is None:
        return given
    return scored(given, stage, draw(st.one_of(st.none(), st.integers(1, max(problem.kv_len) + 3))))


def with_nan_past(given: Work, where: slice | NDArray[np.bool_]) -> Work:
    """With past keys and values at these slots that are no numbers."""
    inputs = dict(given.inputs)
    for name in ("past_key", "past_value"):
        inputs[name] = inputs[name].copy()
        inputs[name][:, :, where] = np.nan
    return replace(given, inputs=inputs)


def padded(given: Work, more: int) -> Work:
    """With so many rows more in the arrays of all members, of which none means anything."""
    problem = given.problem
    rows = {"rows": problem.rows + more, "new_rows": problem.new_rows + more}
    visible = np.pad(problem.visible, ((0, 0), (0, more), (0, 0)))
    wide = {
        name: np.concatenate([array, array[:, -1:].repeat(more, axis=1)], axis=1) if name in ROLES else array
        for name, array in given.inputs.items()
    }
    output, *others = given.outputs
    batch, _, width = output["shape"]
    outputs = ({**output, "shape": (batch, rows["rows"], width)}, *others)
    return replace(given.with_problem(**rows, visible=visible), inputs=wide, outputs=outputs)


def alone(together: Work, like: Work) -> Work:
    """The first member's part of what all were given."""
    inputs = {}
    for name, array in like.inputs.items():
        part = together.inputs[name][tuple(slice(size) for size in array.shape)]
        inputs[name] = array if array.dtype.kind == "i" else np.ascontiguousarray(part)
    return replace(like, inputs=inputs)
