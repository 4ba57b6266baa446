"""From an attempt to a Result: the verdict on one case on one backend. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from attncheck.backends.base import Backend, Outcome
from attncheck.compare import judge as compare
from attncheck.compare.difference import Difference
from attncheck.engine.events import Result
from attncheck.engine.lane import Attempt
from attncheck.graph.case import Case
from attncheck.oracle.answer import Answer
from attncheck.problem import Problem
from attncheck.scenario.model import Tolerance
from attncheck.vocabulary import Flag, Status, Verdict

_STATUS = {Verdict.PASS: Status.PASSED, Verdict.UNSUPPORTED: Status.SKIPPED}


def result(
    case: Case, problem: Problem, answers: Sequence[Answer], backend: Backend, attempt: Attempt, reference: bool
) -> Result:
    """Hold every outcome of `attempt` against the oracle's `answers`, and the kernels against each other."""
    found = _found(case, problem, answers, backend, attempt)
    return replace(
        found, status=_STATUS.get(found.verdict, Status.FAILED), reference=reference, seconds=attempt.seconds
    )


def with_flag(results: Sequence[Result], flag: Flag) -> tuple[Result, ...]:
    """`results` with `flag` on every one that was judged."""
    return tuple(
        found if found.status is Status.SKIPPED else replace(found, flags=(*found.flags, flag)) for found in results
    )


def _found(case: Case, problem: Problem, answers: Sequence[Answer], backend: Backend, attempt: Attempt) -> Result:
    blank = Result(case.id, backend.name, "", False, Verdict.UNSUPPORTED, Status.SKIPPED)
    if attempt.unsupported is not None:
        return replace(blank, message=attempt.unsupported)
    kernels = [outcome.kernel for outcome in attempt.outcomes]
    judged = replace(blank, kernel=kernels[0], auto=len(kernels) > 1)
    for outcome in attempt.outcomes:
        refusal = _refusal(case, backend, outcome)
        if refusal is not None:
            verdict, message = refusal
            return replace(judged, kernel=outcome.kernel, verdict=verdict, message=message, stderr=outcome.stderr)
    differences = _differences(case, problem, answers, backend, attempt.outcomes)
    return replace(
        judged,
        verdict=compare.verdict_of(differences),
        differences=differences,
        worst=max(differences, key=lambda difference: difference.margin),
    )


def _refusal(case: Case, backend: Backend, outcome: Outcome) -> tuple[Verdict, str] | None:
    """Why the numbers of an outcome are not worth comparing: it failed, proves nothing, or has the wrong form."""
    if outcome.failure is not None:
        return outcome.failure, outcome.message
    if outcome.evidence is None or not outcome.evidence.kernels:
        return Verdict.ERROR, f"{backend.name} gave numbers without evidence that any kernel of it ran"
    fallback = backend.fallback(outcome.evidence)
    if fallback is not None:
        return Verdict.FALLBACK, fallback
    malformed = compare.malformed(case.outputs, outcome.outputs)
    return None if malformed is None else (Verdict.MALFORMED, malformed)


def _differences(
    case: Case, problem: Problem, answers: Sequence[Answer], backend: Backend, outcomes: Sequence[Outcome]
) -> tuple[Difference, ...]:
    override = _override(case, backend)
    against_oracle = [
        difference
        for outcome in outcomes
        for difference in compare.differences(
            problem, answers, outcome.outputs, backend.compute, outcome.kernel, override
        )
    ]
    against_each_other = [
        difference
        for first, second in combinations(outcomes, 2)
        for difference in compare.agreement(
            problem, answers, first.outputs, second.outputs, backend.compute, first.kernel, second.kernel, override
        )
    ]
    return (*against_oracle, *against_each_other)


def _override(case: Case, backend: Backend) -> Tolerance | None:
    """The tolerance that the scenario gives for this backend, or for all."""
    given = case.scenario.tolerance
    return given.get(backend.name, given.get("*"))
