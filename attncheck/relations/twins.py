"""Scenarios made of others: axes set anew under the language's own rules, and inputs changed array by array."""

from __future__ import annotations

import numpy as np

from attncheck.problem import AnyProblem, Problem
from attncheck.relations.relation import Inputs, Twin
from attncheck.scenario import Scenario, ScenarioErrors, from_command_line
from attncheck.tensors import dtypes

V = 0.5
"""The constant that V is: a number that every dtype holds."""

OPERATORS = ("gqa", "mha", "attention", "ms-attention")
"""Those of which relations say something."""
ONLY = {"ms-attention": ("padded-buffer", "shifted-scores", "half-precision")}
"""Operators of which few do: input, weights and a past of both K and V are not cut or set as Q, K and V are."""

NOT_BY_BATCH = {
    *("cos_cache", "sin_cache", "head_sink", "total_sequence_length"),
    *("q_norm_weight", "k_norm_weight", "k_scale", "v_scale"),
    *("past_sequence_length", "bias"),
}
"""Inputs that have no axis for the batch."""


def with_axes(scenario: Scenario, without: tuple[str, ...] = (), **axes: object) -> Twin:
    """`scenario` with these axes, and without those; where the language does not allow it, what it says."""
    written: dict[str, object] = {axis: value for axis, value in scenario.written if axis not in without}
    try:
        return from_command_line(" ".join(f"{axis}={value}" for axis, value in (written | axes).items()))
    except ScenarioErrors as wrong:
        told = ", ".join(f"{axis}={value}" for axis, value in axes.items())
        return f"its twin would have {told}: {wrong.diagnostics[0].message}"


def one_length(scenario: Scenario) -> bool:
    """Whether all batch entries have as many new tokens and as long a past."""
    return len(set(scenario.q_len)) == len(set(scenario.past_len)) == 1


def unrelated(scenario: Scenario, relation: str) -> str:
    """Why `relation` says nothing of it, whatever its twin would be; or nothing."""
    if scenario.op not in OPERATORS:
        return f"relations are of {', '.join(OPERATORS[:-1])} and {OPERATORS[-1]}, and this is {scenario.op}"
    only = ONLY.get(scenario.op, (relation,))
    if relation not in only:
        return f"of {scenario.op} only {', '.join(only)} are checked"
    if scenario.steps:
        return "it is a session; write its tokens as one call (`q_len`), and `one-by-one` and `in-chunks` divide them"
    forbidden = not scenario.rotary_cache or scenario.positions in ("negative", "beyond", "one-row")
    if scenario.rotary is not None and forbidden:
        return "its operator must refuse it, so there are no numbers to compare"
    if scenario.beams > 1:
        return "its entries read the past of each other, so that no twin may move or divide them"
    if scenario.kv_cache is not None:
        return "its buffers hold integers: a twin has scales of its own, by the numbers that it holds"
    return ""


def reversed_batch(problem: AnyProblem, inputs: Inputs) -> Inputs:
    """The batch entries in reverse order, in every input that has one."""
    return {
        name: array[::-1].copy() if _by_batch(name, array.shape, problem) else array for name, array in inputs.items()
    }


def _by_batch(name: str, shape: tuple[int, ...], problem: AnyProblem) -> bool:
    if name in NOT_BY_BATCH or not shape or shape[0] != problem.batch:
        return False
    # A mask of ai.onnx Attention broadcasts from the right: only the fourth axis from there is the batch.
    return name != "attn_mask" or len(shape) == 4


def shifts(problem: AnyProblem, inputs: Inputs) -> Inputs:
    """A bias that is one number for each query row: 1 and 2 by turns."""
    assert isinstance(problem, Problem)
    (name,) = [mask.name for mask in problem.masks if mask.kind == "additive"]
    shape = inputs[name].shape
    by_row = np.broadcast_to(1.0 + (np.arange(shape[-2]) % 2)[:, None], shape)
    return {**inputs, name: dtypes.narrow(by_row, problem.dtype)}


def constant_values(problem: AnyProblem, inputs: Inputs) -> Inputs:
    """V the same number everywhere, past and new; what a packed tensor holds beside it stays."""
    assert isinstance(problem, Problem)
    found = dict(inputs)
    for tensor in (problem.value, problem.past_value):
        if tensor is not None and not tensor.packed:
            array = inputs[tensor.name]
            constant = dtypes.narrow(np.full(array.shape, V), problem.dtype)
            # Where nobody may read there is NaN, and it stays there.
            found[tensor.name] = np.where(np.isnan(dtypes.widen(array, problem.dtype)), array, constant)
    return found
