"""A kernel in float64 whose steps can be replaced: the outputs of a Recipe.

It has values only, no bounds, and differs from the oracle in one thing besides: where it is told to read a slot that
nobody filled, it reads what stands there, the past buffer's poison or NaN, as a kernel on a device would.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.buffers import kept
from attncheck.oracle.masks import cover, overlays
from attncheck.oracle.projection import projected
from attncheck.oracle.quantised import scale_of
from attncheck.oracle.wrong.recipe import Bool, Float, Recipe, Results, Tile
from attncheck.problem import Arrays, Problem, Tensor, joined, role_heads
from attncheck.tensors.dtypes import dtype, widen

BLOCK = 1 << 19
"""Scores in flight at once: bounds the memory whatever the shape."""


@dataclass(frozen=True)
class Operands:
    """What is attended with and to: q [batch, heads, rows, head_dim], keys, values [batch, kv_heads, capacity, dim]."""

    q: Float
    keys: Float
    values: Float


class Workshop:
    """Computes many recipes of one Problem; most of them share the operands of a right kernel, which are made once."""

    def __init__(self, problem: Problem, inputs: Arrays) -> None:
        self.right = Recipe(problem, inputs)
        self._operands = _operands(self.right)

    def compute(self, recipe: Recipe) -> dict[str, Float]:
        """As `compute`."""
        return _outputs(recipe, self._operands if _same_operands(recipe, self.right) else _operands(recipe))


def compute(recipe: Recipe) -> dict[str, Float]:
    """Every output of the graph by its name, float64, in its own shape; what nobody stated may be NaN."""
    return _outputs(recipe, _operands(recipe))


def _same_operands(one: Recipe, other: Recipe) -> bool:
    """Whether nothing was replaced but what comes after the operands."""
    later = ("visible", "scale", "softcap", "beams")
    steps = ("inputs", "normalise", "quantise", "turn_q", "turn_k", "arrange")
    return all(getattr(one, step) is getattr(other, step) for step in steps) and all(
        getattr(one.problem, field.name) is getattr(other.problem, field.name)
        for field in fields(Problem)
        if field.name not in later
    )


def _operands(recipe: Recipe) -> Operands:
    problem = recipe.problem
    q = _projected(recipe, "query", problem.query, problem.heads, problem.head_dim)
    new_k = _projected(recipe, "key", problem.key, problem.kv_heads, problem.head_dim)
    if problem.norm is not None:
        q_gain, k_gain = (widen(recipe.inputs[it], problem.dtype) for it in (problem.norm.query, problem.norm.key))
        q = recipe.normalise(q, q_gain, problem.norm.query_epsilon)
        new_k = recipe.normalise(new_k, k_gain, problem.norm.key_epsilon)
    if problem.rotary is not None:
        q = recipe.turn_q(q, problem.rotary, recipe.inputs, problem.dtype)
        new_k = recipe.turn_k(new_k, problem.rotary, recipe.inputs, problem.dtype)
    new_v = _projected(recipe, "value", problem.value, problem.kv_heads, problem.v_head_dim)
    k_scale, v_scale = _scales(recipe)
    keys = recipe.arrange(problem, _present(recipe, problem.past_key, new_k, k_scale))
    return Operands(q, keys, recipe.arrange(problem, _present(recipe, problem.past_value, new_v, v_scale)))


def _scales(recipe: Recipe) -> tuple[Float, Float]:
    """What integers in the buffers are multiplied by; 1 where there are none."""
    held = recipe.problem.quantised
    if held is None:
        return np.ones(1), np.ones(1)
    return scale_of(recipe.inputs[held.key]), scale_of(recipe.inputs[held.value])


def _held(recipe: Recipe, slots: Float, scale: Float) -> Float:
    """What the present buffers hold of all slots: integers where there are such."""
    rows = kept(recipe.problem, slots)
    return rows if recipe.problem.quantised is None else np.rint(rows / scale)


def _outputs(recipe: Recipe, operands: Operands) -> dict[str, Float]:
    problem = recipe.problem
    with np.errstate(invalid="ignore", over="ignore"):
        keys, values = problem.as_read(operands.keys), problem.as_read(operands.values)
        output, scores = _attend(recipe, operands.q, keys, values)
        results = recipe.finish(problem, Results(output, operands.keys, operands.values, scores))
    named = (
        (problem.output, results.output),
        (problem.present_key, _held(recipe, results.present_key, _scales(recipe)[0])),
        (problem.present_value, _held(recipe, results.present_value, _scales(recipe)[1])),
    )
    heads: dict[str, list[Float]] = {}
    tensors: dict[str, Tensor] = {}
    for tensor, array in named:
        if tensor is not None:
            heads.setdefault(tensor.name, []).append(array)
            tensors[tensor.name] = tensor
    found = {
        name: joined(np.concatenate(arrays, axis=1), tensors[name], _before(recipe, name))
        for name, arrays in heads.items()
    }
    if problem.scores is not None and results.scores is not None:
        found[problem.scores.name] = results.scores
    return found


def _before(recipe: Recipe, name: str) -> Float | None:
    """What the array of an output held, of those that are changed in place."""
    problem = recipe.problem
    pairs = ((problem.present_key, problem.past_key), (problem.present_value, problem.past_value))
    pasts = {present.name: past.name for present, past in pairs if present is not None and past is not None}
    return widen(recipe.inputs[pasts[name]], problem.cache_dtype) if problem.paged and name in pasts else None


def _projected(recipe: Recipe, role: str, tensor: Tensor, heads: int, dim: int) -> Float:
    return projected(recipe.problem, role, tensor, recipe.inputs, heads, dim).values


def _present(recipe: Recipe, past: Tensor | None, new: Float, scale: Float) -> Float:
    """The past buffer as it is, the new rows written behind each entry's past, NaN where there is neither."""
    problem = recipe.problem
    batch, heads, _, dim = new.shape
    whole = np.full((batch, heads, problem.capacity, dim), np.nan)
    if past is not None:
        rows = widen(role_heads(recipe.inputs[past.name], past, heads), problem.cache_dtype) * scale
        for member, first in enumerate(problem.past_first):
            room = max(0, min(problem.past_capacity, problem.capacity - first))
            whole[member, :, first : first + room] = rows[member, :, :room]
    if problem.quantised is not None:
        new = recipe.quantise(new, scale, problem.quantised.dtype)
    lengths = np.array([problem.past_len, problem.new_len]).T
    for past_len, new_len in np.unique(lengths, axis=0):
        members = np.flatnonzero((lengths == (past_len, new_len)).all(axis=1))
        room = max(0, min(new_len, problem.capacity - past_len))
        whole[members, :, past_len : past_len + room] = new[members, :, :room]
    return whole


def _attend(recipe: Recipe, q: Float, keys: Float, values: Float) -> tuple[Float, Float | None]:
    """[batch, heads, rows, v_head_dim], and the score output where there is one; rows that mean nothing are 0."""
    problem = recipe.problem
    if recipe.kv_head is not None:
        keys, values = keys[:, recipe.kv_head], values[:, recipe.kv_head]
    batch, heads, rows, dim = q.shape
    grouped = q.reshape(batch, keys.shape[1], -1, rows, dim)
    sinks = _sinks(recipe).reshape(*grouped.shape[1:3], 1, -1)
    output = np.zeros((*grouped.shape[:-1], problem.v_head_dim))
    scores = None if problem.scores is None else np.zeros((*grouped.shape[:-1], problem.scores.slots))
    for members, part in recipe.parts or _blocks(problem):
        low, high = _reach(problem, members, part)
        # A kernel that keeps too little may have nothing where the row looks.
        high = min(high, keys.shape[2])
        if low >= high:
            continue
        dims = slice(recipe.score_dims)
        raw = _scores(problem, grouped[members, :, :, part, dims], keys[members, :, low:high, dims])
        capped = problem.softcap * np.tanh(raw / problem.softcap) if problem.softcap else raw
        tile, hidden = _tile(recipe, capped, sinks, members, part, low)
        weights = recipe.weights(tile)
        output[members, :, :, part] = _sum(weights, tile.shown, values[members, :, low:high])
        if scores is not None and problem.scores is not None:
            stages = {"raw": raw, "capped": capped, "biased": hidden, "weights": weights}
            last = min(high, problem.scores.slots)
            scores[members, :, :, part, low:last] = stages[problem.scores.stage][..., : last - low]
    merged = (batch, heads, rows, -1)
    return output.reshape(merged), None if scores is None else scores.reshape(merged)


def _tile(recipe: Recipe, score: Float, sinks: Float, members: slice, rows: slice, low: int) -> tuple[Tile, Float]:
    """The tile that is weighed, and its scores with -inf for hidden keys. A row without keys may give the mean."""
    problem = recipe.problem
    slots = np.arange(low, low + score.shape[-1])
    interval = _visible(problem, members, rows)
    shown = ((interval[..., :1] <= slots) & (slots < interval[..., 1:]))[:, None, None]
    if problem.masks:
        masks = cover(overlays(problem, recipe.inputs), members, rows, low, low + len(slots))
        score, shown = score + _by_head(recipe, masks.adds), shown & _by_head(recipe, masks.shows)
    hidden = np.where(shown & (score > -dtype(problem.dtype).largest / 2.0), score, -np.inf)
    if problem.averages_empty_rows:
        empty = ~shown.any(axis=-1, keepdims=True)
        holds = (slots < np.asarray(problem.kv_len)[members, None])[:, None, None, None]
        score, shown = np.where(empty, 0.0, score), shown | (empty & holds)
    return Tile(score, shown, sinks, slots, members, rows), hidden


def _by_head(recipe: Recipe, over: NDArray[Any]) -> NDArray[Any]:
    """What masks do, [members, kv_heads, group, rows, slots] or 1 each, with its heads as the scores have them."""
    if recipe.kv_head is None or over.shape[1:3] == (1, 1):
        return over
    heads = (recipe.problem.kv_heads, recipe.problem.group)
    whole = np.broadcast_to(over, (over.shape[0], *heads, *over.shape[3:]))
    return whole.reshape(over.shape[0], -1, 1, *over.shape[3:])


def _sinks(recipe: Recipe) -> Float:
    """[heads, number of them]: zeros where the softmax is smooth, and the graph's own."""
    problem = recipe.problem
    found = [np.zeros(problem.heads)] if problem.smooth else []
    if problem.sink is not None:
        found.append(widen(recipe.inputs[problem.sink], problem.dtype).reshape(problem.heads))
    return np.array(found).reshape(len(found), problem.heads).T


def _visible(problem: Problem, members: slice, rows: slice) -> NDArray[np.int32]:
    return np.where(problem.stated_rows[members, rows, None], problem.visible[members, rows], 0).astype(np.int32)


def _reach(problem: Problem, members: slice, rows: slice) -> tuple[int, int]:
    """The slots [low, high) that a block may need."""
    interval = _visible(problem, members, rows)
    sees = interval[..., 0] < interval[..., 1]
    low = int(np.min(interval[..., 0], where=sees, initial=problem.capacity))
    high = int(np.max(interval[..., 1], where=sees, initial=0))
    if problem.scores is not None or (problem.averages_empty_rows and (problem.masks or not sees.all())):
        return 0, max(high, *problem.kv_len[members])
    return low, high


def _scores(problem: Problem, q: Float, k: Float) -> Float:
    batch, heads, group, rows, dim = q.shape
    score: Float = problem.scale * (q.reshape(batch, heads, group * rows, dim) @ k.swapaxes(-1, -2))
    return score.reshape(batch, heads, group, rows, -1)


def _sum(weight: Float, shown: Bool, v: Float) -> Float:
    """The weighted sum of v [members, kv_heads, slots, dim]; NaN where a row reads one that is not finite."""
    batch, heads, group, rows, slots = weight.shape
    flat = weight.reshape(batch, heads, group * rows, slots)
    finite = np.isfinite(v)
    if finite.all():
        return (flat @ v).reshape(batch, heads, group, rows, -1)
    total = flat @ np.where(finite, v, 0.0)
    read = np.broadcast_to(shown, weight.shape).reshape(flat.shape) | (flat != 0.0)
    total[read.astype(np.float64) @ (~finite).astype(np.float64) > 0.0] = np.nan
    return total.reshape(batch, heads, group, rows, -1)


def _blocks(problem: Problem) -> Iterator[tuple[slice, slice]]:
    """Slices of batch entries and query rows whose scores fit into BLOCK."""
    a_row = problem.heads * max(problem.capacity, 1)
    rows = max(1, min(problem.rows, BLOCK // a_row))
    members = max(1, BLOCK // (a_row * problem.rows))
    for member in range(0, problem.batch, members):
        for row in range(0, problem.rows, rows):
            yield slice(member, member + members), slice(row, row + rows)
