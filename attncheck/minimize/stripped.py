"""A model as scenarios: what its one node says in axes, so that it can be made smaller. The wrapping is left behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from attncheck.extract import axes as extracted
from attncheck.graph import read
from attncheck.graph.case import Case
from attncheck.minimize.candidate import Candidate, start
from attncheck.minimize.passes.numbers import LISTED_UP_TO, Float, given
from attncheck.problem import Problem, Tensor, role_heads
from attncheck.scenario.axes import spell
from attncheck.scenario.command_line import from_command_line
from attncheck.scenario.diagnostics import ScenarioErrors
from attncheck.tensors.dtypes import widen


def scenarios(case: Case) -> Iterator[Candidate]:
    """Candidates that say what a model of one attention node does, the nearest first.

    First with the model's own numbers of q, k and v, where they are few; then with generated ones. None where the
    language has no words for the node.
    """
    problem = read.any_problem(case.model, case.inputs)
    proto = onnx.load_from_string(case.model)
    node = next(node for node in proto.graph.node if node.op_type != "Constant")
    axes = extracted.of(node, case, problem, symbolic=False)
    if axes is None:
        return
    try:
        scenario = from_command_line(" ".join(f"{axis}={spell(value)}" for axis, value in axes.items()))
    except ScenarioErrors:
        return
    plain = start(scenario)
    if isinstance(problem, Problem):
        found: Candidate | None = plain
        for tensor, values in _numbers(problem, case).items():
            found = given(found, tensor, values) if found is not None else None
        if found is not None and found != plain:
            yield found
    yield plain


def _numbers(it: Problem, case: Case) -> Mapping[str, Float]:
    """q, k and v, float64 [tokens, batch, heads, dim] from the oldest token, and what the scores are added.

    Nothing where there are too many.
    """
    if len({*it.past_len}) > 1 or it.rows * it.heads * it.head_dim * it.batch > LISTED_UP_TO:
        return {}
    new = {
        "q": (it.query, None, it.heads),
        "k": (it.key, it.past_key, it.kv_heads),
        "v": (it.value, it.past_value, it.kv_heads),
    }
    found = {name: _rows(it, case, *tensors) for name, tensors in new.items()}
    found |= _beside(it, case)
    few = all(values.size <= LISTED_UP_TO and np.isfinite(values).all() for values in found.values())
    return found if few else {}


def _beside(it: Problem, case: Case) -> dict[str, Float]:
    """A bias, [queries, batch, heads, keys], and a sink, [1, 1, heads, 1], as `order.beside` has them.

    A bias that hides keys stays generated: where it hides them is said by `holes`, and its numbers are of no weight.
    """
    found = {}
    for mask in it.masks:
        values = widen(mask.array(case.inputs), it.dtype) if mask.kind == "additive" else None
        if values is not None and np.isfinite(values).all():
            found["bias"] = values.reshape((1,) * (4 - values.ndim) + values.shape).transpose(2, 0, 1, 3)
    if it.sink is not None:
        found["sink"] = widen(case.inputs[it.sink], it.dtype).reshape(1, 1, -1, 1)
    return found


def _rows(it: Problem, case: Case, tensor: Tensor, past: Tensor | None, heads: int) -> Float:
    rows = widen(role_heads(case.inputs[tensor.name], tensor, heads), it.dtype)
    if past is not None:
        before = widen(role_heads(case.inputs[past.name], past, heads), it.dtype)[:, :, : it.past_len[0]]
        rows = np.concatenate([before, rows], axis=2)
    return rows.transpose(2, 0, 1, 3)
