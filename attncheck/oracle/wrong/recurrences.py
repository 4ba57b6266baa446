"""Wrong kernels of linear attention: states, decays and corrections that are forgotten, or come at the wrong time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from attncheck.oracle.recurrence import Operands, operands
from attncheck.oracle.wrong.entry import WrongOf, whatever_is_given
from attncheck.oracle.wrong.recipe import Float
from attncheck.problem import Arrays, LinearProblem


@dataclass(frozen=True)
class Steps:
    """What a kernel does otherwise.

    decays_last    the decay comes behind the update; corrects_early: what is taken off the value was not decayed
    reads_early    the query reads the state before its own token
    forgets_after  the state is lost after so many tokens, again and again; 0: never
    plain_decay    decay is taken for the factor, and not for its logarithm
    drops_last     the state that is given out lacks the last token
    """

    delta: bool
    scale: float
    decays_last: bool = False
    corrects_early: bool = False
    reads_early: bool = False
    forgets_after: int = 0
    drops_last: bool = False
    plain_decay: bool = False


Change = Callable[[LinearProblem, Operands, Steps], tuple[Operands, Steps]]
Finish = Callable[[LinearProblem, Float, Float], tuple[Float, Float]]


def compute(problem: LinearProblem, given: Operands, steps: Steps) -> tuple[Float, Float]:
    """Output [batch, heads, rows, v_head_dim] and the state after the last token."""
    state = given.state
    output = np.zeros((*given.q.shape[:4], problem.v_head_dim))
    before = state
    for row in range(problem.rows):
        if steps.forgets_after and row and row % steps.forgets_after == 0:
            state = np.zeros_like(state)
        before = state
        factor = np.float64(1.0) if given.decay is None else given.decay[:, :, row, :, None]
        factor = np.exp(factor) if given.decay is not None and not steps.plain_decay else factor
        decayed = state if steps.decays_last else factor * state
        k, added = given.k[:, :, row], given.v[:, :, row]
        if steps.delta:
            added = added - np.einsum("...kv,...k->...v", state if steps.corrects_early else decayed, k)
        if given.beta is not None:
            added = given.beta[:, :, row] * added
        state = decayed + k[..., None] * added[..., None, :]
        state = factor * state if steps.decays_last else state
        output[:, :, :, row] = steps.scale * (given.q[:, :, :, row] @ (before if steps.reads_early else state))
    return output.reshape(problem.outputs[0].shape), before if steps.drops_last else state


def _nothing(_: LinearProblem, output: Float, state: Float) -> tuple[Float, Float]:
    return output, state


def _wrong(
    name: str,
    words: str,
    relevant: Callable[[LinearProblem], bool],
    change: Change,
    finish: Finish = _nothing,
    shows: Callable[[LinearProblem, Arrays], bool] = whatever_is_given,
) -> WrongOf[LinearProblem]:
    def outputs(problem: LinearProblem, inputs: Arrays) -> dict[str, Float]:
        given, steps = change(problem, operands(problem, inputs), Steps(problem.delta, problem.scale))
        found = finish(problem, *compute(problem, given, steps))
        named = {}
        for role, array in zip(problem.outputs, found, strict=False):
            batch, heads, rows, dim = array.shape
            flat = array.transpose(0, 2, 1, 3).reshape(batch, rows, heads * dim)
            named[role.tensor.name] = flat if role.tensor.layout == "bsnh" else array
        return named

    return WrongOf(name, words, relevant, outputs, shows)


def _steps(**changes: object) -> Change:
    return lambda _, given, steps: (given, replace(steps, **changes))  # type: ignore[arg-type]


def _given(change: Callable[[LinearProblem, Operands], Operands]) -> Change:
    return lambda problem, given, steps: (change(problem, given), steps)


def _as_it_is(_: LinearProblem, given: Operands, steps: Steps) -> tuple[Operands, Steps]:
    return given, steps


def _before(problem: LinearProblem) -> bool:
    """Whether some token finds a state that is not zero."""
    return problem.rows > 1 or problem.past_state is not None


def _past_is_not_zero(problem: LinearProblem, inputs: Arrays) -> bool:
    return problem.past_state is not None and bool(inputs[problem.past_state.name].any())


def _decays(problem: LinearProblem) -> bool:
    return problem.decay is not None and _before(problem)


def _first_dim(_: LinearProblem, given: Operands) -> Operands:
    return given if given.decay is None else replace(given, decay=given.decay[..., :1])


def _first_head(_: LinearProblem, given: Operands) -> Operands:
    return given if given.beta is None else replace(given, beta=np.broadcast_to(given.beta[:, :1], given.beta.shape))


def _entry_0(_: LinearProblem, given: Operands) -> Operands:
    return replace(given, state=np.broadcast_to(given.state[:1], given.state.shape))


def _tiled(problem: LinearProblem, given: Operands) -> Operands:
    """Query head h reads state h mod kv_heads."""
    q = given.q.reshape(problem.batch, problem.group, problem.kv_heads, problem.rows, problem.head_dim)
    return replace(given, q=q.swapaxes(1, 2))


def _back_in_order(problem: LinearProblem, output: Float, state: Float) -> tuple[Float, Float]:
    """What `_tiled` computed, under the number of the query head."""
    grouped = output.reshape(problem.batch, problem.kv_heads, problem.group, *output.shape[2:])
    return grouped.swapaxes(1, 2).reshape(output.shape), state


def _upper_half(problem: LinearProblem, output: Float, state: Float) -> tuple[Float, Float]:
    kept = output.copy()
    kept[..., problem.v_head_dim // 2 :] = 0.0
    return kept, state


def _transposed(_: LinearProblem, output: Float, state: Float) -> tuple[Float, Float]:
    return output, state.swapaxes(-1, -2)


RECURRENCES: tuple[WrongOf[LinearProblem], ...] = (
    _wrong("linear-upper-half-zero", "the upper half of v_head_dim left zero", lambda _: True, _as_it_is, _upper_half),
    _wrong("linear-scale-missing", "no scale", lambda it: it.scale != 1.0, _steps(scale=1.0)),
    _wrong(
        "linear-reads-early", "the state read before the token's own update", lambda _: True, _steps(reads_early=True)
    ),
    _wrong(
        "linear-state-without-last",
        "a present_state that lacks the last token",
        lambda it: it.present_state is not None,
        _steps(drops_last=True),
    ),
    _wrong(
        "linear-past-ignored",
        "past_state ignored",
        lambda it: it.past_state is not None,
        _given(lambda _, given: replace(given, state=np.zeros_like(given.state))),
        shows=_past_is_not_zero,
    ),
    _wrong(
        "linear-past-of-entry-0",
        "past_state of batch entry 0 for all",
        lambda it: it.past_state is not None and it.batch > 1,
        _given(_entry_0),
    ),
    _wrong("linear-decay-ignored", "decay ignored", _decays, _given(lambda _, given: replace(given, decay=None))),
    _wrong(
        "linear-decay-as-factor", "decay taken for the factor, not its logarithm", _decays, _steps(plain_decay=True)
    ),
    _wrong("linear-decay-last", "decay behind the update", lambda it: it.decay is not None, _steps(decays_last=True)),
    _wrong(
        "linear-decay-of-dim-0",
        "the decay of dim 0 for every dim of the key",
        lambda it: it.decay_dim > 1 and _decays(it),
        _given(_first_dim),
    ),
    _wrong("linear-delta-ignored", "the delta rule ignored", lambda it: it.delta and _before(it), _steps(delta=False)),
    _wrong(
        "linear-delta-undecayed",
        "the delta rule before the decay",
        lambda it: it.delta and _decays(it),
        _steps(corrects_early=True),
    ),
    _wrong(
        "linear-beta-ignored",
        "beta ignored",
        lambda it: it.beta is not None,
        _given(lambda _, given: replace(given, beta=None)),
    ),
    _wrong(
        "linear-beta-of-head-0",
        "the beta of KV head 0 for all",
        lambda it: it.beta is not None and it.beta_heads > 1,
        _given(_first_head),
    ),
    _wrong(
        "linear-kv-heads-tiled",
        "KV heads tiled over the query heads instead of repeated",
        lambda it: it.heads > it.kv_heads > 1,
        _given(_tiled),
        _back_in_order,
    ),
    _wrong(
        "linear-state-transposed",
        "present_state written as [v_head_dim, head_dim]",
        lambda it: it.present_state is not None and it.head_dim == it.v_head_dim > 1,
        _as_it_is,
        _transposed,
    ),
    _wrong(
        "linear-chunks-of-4", "the state lost after every 4 tokens", lambda it: it.rows > 4, _steps(forgets_after=4)
    ),
    _wrong(
        "linear-chunks-of-64", "the state lost after every 64 tokens", lambda it: it.rows > 64, _steps(forgets_after=64)
    ),
)
