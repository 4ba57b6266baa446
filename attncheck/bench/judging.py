"""Whether the outputs of a contender are right, before it is timed: by the oracle, on the sampled rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attncheck.backends.base import Backend, Outcome
from attncheck.bench import sampling
from attncheck.bench.sampling import Sample
from attncheck.compare import judge as compare
from attncheck.engine.judge import arithmetic, refusal
from attncheck.graph.case import Case
from attncheck.oracle import ask
from attncheck.oracle.answer import Answer
from attncheck.problem import Arrays, Problem, Tensor, role_heads
from attncheck.vocabulary import Verdict


@dataclass(frozen=True)
class Expected:
    """A case, and what of it is judged: the whole problem, or one of its sampled rows, `problem` with `inputs`."""

    case: Case
    whole: Problem
    sample: Sample
    problem: Problem
    inputs: Arrays

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """The oracle's, asked when the first outputs are there: where nobody takes the case, nobody waits for it."""
        return ask.answer(self.problem, self.inputs)


def expected(case: Case, problem: Problem) -> Expected:
    """What is to be judged of a case."""
    sampled = sampling.sample(problem)
    if sampled.whole:
        return Expected(case, problem, sampled, problem, case.inputs)
    return Expected(case, problem, sampled, *sampling.cut(problem, case.inputs, sampled))


def judged(known: Expected, backend: Backend, outcome: Outcome) -> tuple[Verdict, str]:
    """The verdict on an outcome, and what there is to say of it.

    Presents of a sampled case are not asked of the oracle, which would hold them in float64: they are copies, and must
    have the bits of what they are copies of.
    """
    refused = refusal(known.case, backend, outcome)
    if refused is not None:
        return refused
    outputs: Arrays = outcome.outputs
    if not known.sample.whole:
        strays = _strays(known.whole, known.case.inputs, outputs)
        if strays:
            return Verdict.MISMATCH, strays
        outputs = sampling.of_output(known.whole, outputs, known.sample)
    override = known.case.tolerance(backend.name)
    try:
        found = compare.differences(
            known.problem, known.answers, outputs, arithmetic(backend, known.whole, outcome), outcome.kernel, override
        )
    except compare.Incomparable as error:
        return Verdict.ERROR, str(error)
    verdict = compare.verdict_of(found)
    worst = max(found, key=lambda difference: difference.margin)
    return verdict, "" if verdict is Verdict.PASS else (
        f"{worst.role} differs by {worst.error:.3g} where {worst.tolerance:.3g} is allowed "
        f"({worst.failing} of {worst.compared} elements judged)"
    )


def _strays(problem: Problem, inputs: Arrays, outputs: Arrays) -> str:
    """Which present does not hold the past rows and then the new ones, "" where all do."""
    asked = (
        ("present_key", problem.present_key, problem.past_key, problem.key),
        ("present_value", problem.present_value, problem.past_value, problem.value),
    )
    for name, present, past, new in asked:
        if present is not None and not _follows(problem, inputs, past, new, role_heads(
            outputs[present.name], present, problem.kv_heads
        )):
            return f"{name} does not hold the past rows and then the new ones"
    return ""


def _follows(
    problem: Problem, inputs: Arrays, past: Tensor | None, new: Tensor, rows: NDArray[np.generic]
) -> bool:
    added = role_heads(inputs[new.name], new, problem.kv_heads)
    kept = None if past is None else role_heads(inputs[past.name], past, problem.kv_heads)
    for member, (before, count) in enumerate(zip(problem.past_len, problem.new_len, strict=True)):
        if kept is not None and not np.array_equal(rows[member, :, :before], kept[member, :, :before]):
            return False
        if not np.array_equal(rows[member, :, before : before + count], added[member, :, :count]):
            return False
    return True
