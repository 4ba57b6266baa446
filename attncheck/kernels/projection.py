"""Queries, new keys and new values before anything else: projected by weights and a bias where the problem has them."""

from __future__ import annotations

from attncheck.kernels.draft import INVOCATIONS, Draft, View, itemsize
from attncheck.kernels.plan import Buffer
from attncheck.kernels.scattered import gathered
from attncheck.problem import Columns, Problem, Projection, Tensor

MAX_WIDTH = 1 << 15
"""Elements of an input row, over which one loop of project.wgsl goes."""


def rows(draft: Draft[Problem], role: str, tensor: Tensor, heads: int, count: int, dim: int) -> View:
    """The rows of "query", "key" or "value": as the graph gives them, or a dispatch's result in the same dtype."""
    it = draft.problem.projection
    if tensor.scattered is not None:
        return gathered(draft, role, tensor, tensor.scattered, heads, dim)
    if it is None or not _columns(it, role):
        return draft.tensor(tensor, heads, count, dim)
    weights, bias = (None if one is None or one.first(role) is None else one for one in (it.weights, it.bias))
    source = draft.tensor(tensor, heads, count, dim) if weights is None else draft.tensor(tensor, 1, count, it.width)
    result = draft.scratch(f"projected {role}", draft.elem, heads, count, dim)
    total = draft.problem.batch * heads * count * dim
    params = {"total": total, "heads": heads, "rows": count, "dim": dim} | source.place("source")
    params |= {
        "width": it.width if weights is not None else 0,
        "columns": weights.count if weights is not None else 0,
        "weights_first": _first(weights, role),
        "bias_first": _first(bias, role),
        "biased": int(bias is not None),
    }
    bindings = (source.buffer, _bound(draft, weights, it.width), _bound(draft, bias, 1), result.buffer)
    draft.dispatch("project", {"elem": draft.elem}, params, bindings, -(-total // INVOCATIONS))
    return result


def elements(problem: Problem) -> int:
    """How many weights there are."""
    it = problem.projection
    return 0 if it is None or it.weights is None else it.width * it.weights.count


def _columns(it: Projection, role: str) -> bool:
    return any(one is not None and one.first(role) is not None for one in (it.weights, it.bias))


def _first(it: Columns | None, role: str) -> int:
    return 0 if it is None else it.first(role) or 0


def _bound(draft: Draft[Problem], it: Columns | None, height: int) -> str:
    """The buffer of weights or bias; something to bind where there are none."""
    if it is None:
        name = "[no columns]"
        draft.buffers[name] = Buffer(name, 4, content=bytes(4))
        return name
    draft.buffers[it.name] = Buffer(it.name, height * it.count * itemsize(draft.elem), input=it.name)
    return it.name
