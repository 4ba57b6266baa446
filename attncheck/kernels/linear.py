"""The plan of linear attention: a column of the state an invocation, in as many dispatches as the loops allow."""

from __future__ import annotations

import math

import numpy as np

from attncheck.kernels.draft import ELEMENTS, INVOCATIONS, Draft, View, itemsize
from attncheck.kernels.store import store
from attncheck.problem import LinearProblem, Tensor

KERNEL = "linear"
"""There is one, so that a policy has nothing to choose."""

LOOP_ROUNDS = 60_000
"""Most rounds of all loops of one invocation together: llvmpipe silently ends them after 65,535."""


def draw(draft: Draft[LinearProblem]) -> None:
    """The past state in f32, section after section of the tokens, the present state."""
    problem = draft.problem
    state = draft.scratch("state", "f32", problem.kv_heads, problem.head_dim, problem.v_head_dim)
    whole = draft.constant("state extents", np.array([(0, problem.head_dim)] * problem.batch, np.int32))
    if problem.past_state is not None:
        past = draft.tensor(problem.past_state, problem.kv_heads, problem.head_dim, problem.v_head_dim)
        store(draft, whole, past, state)
    _advance(draft, state)
    if problem.present_state is not None:
        shape = (problem.kv_heads, problem.head_dim, problem.v_head_dim)
        store(draft, whole, state, draft.tensor(problem.present_state, *shape, output=True))


def _advance(draft: Draft[LinearProblem], state: View) -> None:
    problem = draft.problem
    bindings = tuple(draft.tensor(role.tensor, *role.shape[1:]).buffer for role in problem.inputs[:3])
    nothing = draft.constant("nothing", np.zeros(1, np.int32))
    output = draft.tensor(problem.output, *problem.outputs[0].shape[1:], output=True)
    decay = _beside(draft, problem.decay, problem.kv_heads, problem.decay_dim) or nothing
    beta = _beside(draft, problem.beta, problem.beta_heads, 1) or nothing
    total = problem.batch * problem.kv_heads * problem.v_head_dim
    out_heads = problem.outputs[0].shape[1]
    params: dict[str, int | float] = {"total": total, "heads": problem.heads, "kv_heads": problem.kv_heads}
    params |= {"out_heads": out_heads, "rows": problem.rows, "dim": problem.head_dim, "v_dim": problem.v_head_dim}
    params |= {"delta": int(problem.delta), "decays": int(problem.decay is not None), "decay_dim": problem.decay_dim}
    params |= {"beta_heads": 0 if problem.beta is None else problem.beta_heads, "scale": problem.scale}
    a_row = 1 + (2 + problem.group) * (1 + problem.head_dim)
    step = max(1, LOOP_ROUNDS // a_row)
    for first in range(0, problem.rows, step):
        fresh = first == 0 and problem.past_state is None
        place = {"first_row": first, "end_row": min(first + step, problem.rows), "fresh": int(fresh)}
        bound = (*bindings, decay, beta, state.buffer, output.buffer)
        draft.dispatch("linear", {"elem": draft.elem}, params | place, bound, -(-total // INVOCATIONS))


def _beside(draft: Draft[LinearProblem], tensor: Tensor | None, heads: int, dim: int) -> str | None:
    return None if tensor is None else draft.tensor(tensor, heads, draft.problem.rows, dim).buffer


def refusal(problem: LinearProblem) -> str | None:
    """Why the kernel cannot compute the problem on any adapter, or None."""
    if (2 + problem.group) * (1 + problem.head_dim) >= LOOP_ROUNDS:
        return f"head_dim {problem.head_dim} with {problem.group} query heads a state: one token takes too many rounds"
    return None


def bindings(problem: LinearProblem) -> dict[str, int]:
    """Bytes of the buffers that grow with the problem."""
    element = itemsize(ELEMENTS[problem.dtype])
    largest = {role.name: element * math.prod(role.shape) for role in (*problem.inputs, *problem.outputs)}
    return largest | {"the state in float32": 4 * math.prod(problem.state_shape)}
