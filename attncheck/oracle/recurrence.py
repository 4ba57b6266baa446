"""The float64 statement of linear attention, and how far rounding may move it.

Source: LinearAttention of com.microsoft (ONNX Runtime, docs/ContribOperators.md) and of ai.onnx 27, which give the same
four update rules: "linear" S + k v, "gated" exp(g) S + k v, "delta" S + beta k (v - S^T k), "gated_delta" with exp(g) S
in both places; the output is scale * q^T S, of the state after the token.

Every step rounds, and the next carries the error on. With E the bound on the state's error divided by u, after a decay
it is exp(g) (E + (2 + |g|) |S|), for exp(g) is taken as a power of 2 of a product that rounds; what the state gives
under a key is |k| E + |k| |S| + sqrt(n - 1) |k.S| off, a dot product of n terms as `sums` bounds it, and so is what a
query reads; the correction beta (v - that) rounds twice, the product and the sum once each. So the bound grows with the
recurrence itself, where keys are long as well. A state that the call before has stored was rounded to the dtype: what
that moved goes through the same recurrence, which is linear in it, and rounds no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.answer import Answer, laid_out, refuse_invalid
from attncheck.oracle.sums import walked
from attncheck.problem import Arrays, LinearProblem, role_heads
from attncheck.tensors.dtypes import widen

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Operands:
    """All of [batch, kv_heads, ...]: q [.., group, rows, head_dim], k, v [.., rows, dim].

    state  [.., head_dim, v_head_dim] before the first token
    decay  logarithms [.., rows, 1 or head_dim]; beta [.., rows, 1]; None where there is none
    """

    q: Float
    k: Float
    v: Float
    state: Float
    decay: Float | None
    beta: Float | None


def operands(problem: LinearProblem, inputs: Arrays) -> Operands:
    """The inputs of a problem, the queries repeated where more states than queries are read."""
    found = {
        role.name: widen(role_heads(inputs[role.tensor.name], role.tensor, role.shape[1]), problem.dtype)
        for role in problem.inputs
    }
    q = np.repeat(found["query"], max(1, problem.kv_heads // problem.heads), axis=1)
    grouped = q.reshape(problem.batch, problem.kv_heads, -1, problem.rows, problem.head_dim)
    beta = found.get("beta")
    return Operands(
        grouped,
        found["key"],
        found["value"],
        found.get("past_state", np.zeros(problem.state_shape)),
        found.get("decay"),
        None if beta is None else np.broadcast_to(beta, (problem.batch, problem.kv_heads, problem.rows, 1)),
    )


@dataclass(frozen=True)
class _State:
    """The state after a token, the bound on its error divided by u, and what a rounding to the dtype may have moved."""

    values: Float
    error: Float
    stored: Float


def answer(problem: LinearProblem, inputs: Arrays, carried: Mapping[str, Answer] | None = None) -> tuple[Answer, ...]:
    """Output, and the state after the last token where it is asked for. Raises NoAnswer for a forbidden graph.

    carried   by the name of a state, the answer to the present that it came from, in a session: a backend has its own
              there. What is said then starts from that answer's unrounded values, and their bounds go along
    """
    refuse_invalid(problem)
    given = operands(problem, inputs)
    shape = (*given.q.shape[:4], problem.v_head_dim)
    values, compute, storage = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    state = before = _before(problem, given, carried or {})
    for row, state in enumerate(_states(problem, given, before)):
        q = given.q[:, :, :, row]
        read, doubt = _under(state, q)
        values[:, :, :, row] = problem.scale * read
        compute[:, :, :, row] = abs(problem.scale) * doubt
        storage[:, :, :, row] = abs(problem.scale) * (np.abs(q) @ state.stored)
    merged = problem.outputs[0].shape
    found = [_stated(problem, 0, *(array.reshape(merged) for array in (values, compute, storage)))]
    if problem.present_state is not None:
        found.append(_stated(problem, 1, state.values, state.error, state.stored))
    return tuple(found)


def _stated(problem: LinearProblem, index: int, values: Float, compute: Float, storage: Float) -> Answer:
    everywhere = np.ones(values.shape, np.bool_)
    return laid_out(problem.outputs[index].tensor, values, compute, storage + np.abs(values), everywhere)


def _before(problem: LinearProblem, given: Operands, carried: Mapping[str, Answer]) -> _State:
    """The state before the first token."""
    name = "" if problem.past_state is None else problem.past_state.name
    if name not in carried:
        return _State(given.state, np.zeros_like(given.state), np.zeros_like(given.state))
    return _State(carried[name].values, carried[name].compute, carried[name].storage)


def _states(problem: LinearProblem, given: Operands, before: _State) -> Iterator[_State]:
    """The state after each token."""
    state, error, stored = before.values, before.error, before.stored
    for row in range(problem.rows):
        if given.decay is not None:
            logarithm = given.decay[:, :, row, :, None]
            factor = np.exp(logarithm)
            error, stored = factor * (error + (2.0 + np.abs(logarithm)) * np.abs(state)), factor * stored
            state = factor * state
        k, added = given.k[:, :, row], given.v[:, :, row]
        doubt, moved = np.zeros_like(added), np.zeros_like(added)
        if problem.delta:
            held, doubt = (it[:, :, 0] for it in _under(_State(state, error, stored), k[:, :, None]))
            added = added - held
            doubt, moved = doubt + np.abs(added), (np.abs(k)[:, :, None] @ stored)[:, :, 0]
        if given.beta is not None:
            beta = given.beta[:, :, row]
            doubt, moved = np.abs(beta) * (doubt + np.abs(added)), np.abs(beta) * moved
            added = beta * added
        step, by = k[..., None] * added[..., None, :], np.abs(k)[..., None]
        state = state + step
        error = error + by * doubt[..., None, :] + np.abs(step) + np.abs(state)
        stored = stored + by * moved[..., None, :]
        yield _State(state, error, stored)


def _under(state: _State, rows: Float) -> tuple[Float, Float]:
    """What a state gives under rows [.., group, head_dim], [.., group, v_head_dim], and the bound on its error / u."""
    values = rows @ state.values
    terms = np.minimum(
        np.count_nonzero(rows, axis=-1)[..., :, None], np.count_nonzero(state.values, axis=-2)[..., None, :]
    )
    return values, np.abs(rows) @ (state.error + np.abs(state.values)) + walked(values, terms)
