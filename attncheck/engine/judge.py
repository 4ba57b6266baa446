"""From an attempt to a Result: the verdict on one case on one backend. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from attncheck.backends.base import Backend, Outcome
from attncheck.compare import judge as compare
from attncheck.compare.arithmetic import Compute
from attncheck.compare.diagnosis import diagnose
from attncheck.compare.difference import Difference
from attncheck.compare.picture import Picture, picture
from attncheck.compare.sharpness import sharpness as sharpness_of
from attncheck.engine import expectations
from attncheck.engine.events import Result
from attncheck.engine.lane import Attempt
from attncheck.engine.status import of_verdict
from attncheck.graph.case import Case
from attncheck.oracle.answer import Answer
from attncheck.oracle.conventions import followed, taken
from attncheck.problem import AnyProblem
from attncheck.scenario.model import Tolerance
from attncheck.vocabulary import Flag, Status, Verdict

COARSEST_FIRST: tuple[Compute, ...] = ("native", "mixed", "f32")

NUMBERS = (Verdict.MISMATCH, Verdict.NONFINITE)
"""The verdicts that are about numbers: outputs came, of the right form and with evidence, and are wrong."""


@dataclass(frozen=True)
class Asked:
    """What was asked of every backend, with the oracle's answers, one a graph output."""

    case: Case
    problem: AnyProblem
    answers: tuple[Answer, ...]

    def override(self, backend: str) -> Tolerance | None:
        """The tolerance that the case gives for this backend in the place of the derived one."""
        return self.case.tolerance(backend)


def result(asked: Asked, backend: Backend, attempt: Attempt, reference: bool, sharpness: bool = False) -> Result:
    """Judge every repeat of `attempt`: the first that does not pass is the result, with what changed between them.

    sharpness   whether to hold the tolerance against every relevant wrong kernel, which costs much more than the rest
    """
    if attempt.unsupported is not None:
        return unsupported(asked.case.id, backend.name, attempt.unsupported, reference)
    if attempt.quarantined is not None:
        return expectations.quarantined(asked.case.id, backend.name, attempt.quarantined, reference)
    rounds = [_round(asked, backend, outcomes) for outcomes in attempt.rounds]
    at = next((i for i, judged in enumerate(rounds) if judged.verdict is not Verdict.PASS), 0)
    worst = rounds[at]
    flags = unsteady([judged.verdict for judged in rounds], bits_change(asked, attempt))
    status = Status.FAILED if Flag.FLAKY in flags else of_verdict(worst.verdict)
    remarked = _remarked(asked, backend, worst, attempt.rounds[at])
    evidence = next((it.evidence for it in attempt.rounds[at] if it.kernel == remarked.kernel), None)
    if worst.verdict is Verdict.PASS and not reference and not asked.problem.invalid:
        remarked = sharpened(asked, backend, worst, attempt.rounds[at][0], sharpness)
    return replace(
        remarked,
        status=status,
        evidence=evidence,
        flags=(*remarked.flags, *flags),
        reference=reference,
        repeat=at,
        seconds=attempt.seconds,
    )


def unsteady(verdicts: Sequence[Verdict], bits: bool) -> tuple[Flag, ...]:
    """The flags of what changes between repeats: the verdict, or the bits."""
    return ((Flag.FLAKY,) if len(set(verdicts)) > 1 else ()) + ((Flag.NOT_BITWISE,) if bits else ())


def seen(asked: Asked, backend: Backend, outcomes: Sequence[Outcome]) -> Result:
    """One repeat judged by the oracle, with what wrong numbers look like."""
    return _remarked(asked, backend, _round(asked, backend, outcomes), outcomes)


def unsupported(case: str, backend: str, why: str, reference: bool) -> Result:
    """The result of a backend that does not cover the case."""
    blank = Result(case, backend, "", False, Verdict.UNSUPPORTED, Status.SKIPPED)
    return replace(blank, message=why, reference=reference)


def _remarked(asked: Asked, backend: Backend, judged: Result, outcomes: Sequence[Outcome]) -> Result:
    """With a diagnosis of wrong numbers: what the outputs of the first kernel out of tolerance look like."""
    if judged.verdict not in NUMBERS:
        return judged
    failed = {each.subject for each in judged.differences if each.against == "oracle" and not each.passed}
    wrong = next((outcome for outcome in outcomes if outcome.kernel in failed), None)
    if wrong is None:
        return judged
    override = asked.override(backend.name)
    compute = arithmetic(backend, asked.problem, wrong)
    found = diagnose(asked.problem, asked.case.inputs, asked.answers, wrong.outputs, compute, override)
    convention = followed(asked.problem, found.wrong)
    flags = (*judged.flags, Flag.DISPUTED) if convention is not None and not convention.settled else judged.flags
    seen = _picture(asked, judged, wrong, compute, override)
    return replace(
        judged, diagnosis=found.words, wrong=found.wrong, convention=convention, flags=flags, picture=seen
    )


def _picture(
    asked: Asked, judged: Result, wrong: Outcome, compute: Compute, override: Tolerance | None
) -> Picture:
    """The output of a kernel that is out of tolerance by most."""
    own = [it for it in judged.differences if it.against == "oracle" and it.subject == wrong.kernel]
    worst = max(own, key=lambda it: it.margin)
    return picture(asked.problem, asked.case.inputs, asked.answers, wrong.outputs, compute, override, worst)


def sharpened(asked: Asked, backend: Backend, judged: Result, outcome: Outcome, every: bool) -> Result:
    """With what right numbers prove: the flag `vacuous` for nothing, and if `every`, what would have been noticed."""
    override = asked.override(backend.name)
    compute = arithmetic(backend, asked.problem, outcome)
    found = sharpness_of(asked.problem, asked.case.inputs, asked.answers, compute, override, first_only=not every)
    flags = (*judged.flags, *((Flag.VACUOUS,) if found.vacuous else ()))
    return replace(judged, flags=flags, sharpness=found if every else None)


def _round(asked: Asked, backend: Backend, outcomes: Sequence[Outcome]) -> Result:
    """Hold the outcomes of one repeat against the oracle, and the kernels against each other."""
    kernels = [outcome.kernel for outcome in outcomes]
    blank = Result(asked.case.id, backend.name, kernels[0], len(kernels) > 1, Verdict.PASS, Status.PASSED)
    blank = replace(blank, instead=outcomes[0].instead)
    if asked.problem.invalid:
        return _refused(blank, asked.problem, outcomes[0])
    for outcome in outcomes:
        why = refusal(asked.case, backend, outcome)
        if why is not None:
            verdict, message = why
            return replace(blank, kernel=outcome.kernel, verdict=verdict, message=message, stderr=outcome.stderr)
    try:
        differences = _differences(asked, backend, outcomes)
    except compare.Incomparable as error:
        return replace(blank, verdict=Verdict.ERROR, message=str(error))
    return replace(
        blank,
        verdict=compare.verdict_of(differences),
        differences=differences,
        worst=max(differences, key=lambda difference: difference.margin),
    )


def _refused(blank: Result, problem: AnyProblem, outcome: Outcome) -> Result:
    """A graph that the operator's text forbids passes where it is refused with a message, and with nothing else.

    What the runtime says of another matter, a file that is missing or a fault of its own, refuses nothing. Numbers are
    disputed where the text implies no more than that.
    """
    invalid = problem.invalid
    if outcome.failure is Verdict.ERROR and outcome.refused:
        return replace(blank, message=f"refused, as it must be ({invalid}): {outcome.message}")
    if outcome.failure is Verdict.ERROR:
        told = f"failed, which refuses nothing: the graph must be refused ({invalid}): {outcome.message}"
        return replace(blank, verdict=Verdict.ERROR, message=told, stderr=outcome.stderr)
    if outcome.failure is not None:
        return replace(blank, verdict=outcome.failure, message=outcome.message, stderr=outcome.stderr)
    told = f"gave numbers for a graph that must be refused: {invalid}"
    convention = taken(problem)
    flags = blank.flags if convention is None else (*blank.flags, Flag.DISPUTED)
    return replace(blank, verdict=Verdict.ERROR, message=told, convention=convention, flags=flags)


def arithmetic(backend: Backend, problem: AnyProblem, *outcomes: Outcome) -> Compute:
    """What the outcomes promise to be computed in: of several the coarsest."""
    promised = {outcome.compute or backend.arithmetic(problem) for outcome in outcomes}
    return next(coarse for coarse in COARSEST_FIRST if coarse in promised)


def refusal(case: Case, backend: Backend, outcome: Outcome) -> tuple[Verdict, str] | None:
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


def _differences(asked: Asked, backend: Backend, outcomes: Sequence[Outcome]) -> tuple[Difference, ...]:
    problem, answers, override = asked.problem, asked.answers, asked.override(backend.name)
    against_oracle = [
        difference
        for each in outcomes
        for difference in compare.differences(
            problem, answers, each.outputs, arithmetic(backend, problem, each), each.kernel, override
        )
    ]
    against_each_other = [
        difference
        for first, second in combinations(outcomes, 2)
        for difference in compare.agreement(
            problem,
            answers,
            first.outputs,
            second.outputs,
            arithmetic(backend, problem, first, second),
            first.kernel,
            second.kernel,
            override,
        )
    ]
    return (*against_oracle, *against_each_other)


def bits_change(asked: Asked, attempt: Attempt) -> bool:
    """Whether any repeat of a request gave other bits than its first, where the operator states the value."""
    first, *later = attempt.rounds
    return any(
        not _same_bits(asked.answers, outcome, again)
        for others in later
        for outcome, again in zip(first, others, strict=True)
        if outcome.failure is None and again.failure is None
    )


def _same_bits(answers: Sequence[Answer], first: Outcome, second: Outcome) -> bool:
    for answer in answers:
        one, other = first.outputs.get(answer.output), second.outputs.get(answer.output)
        if one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
            return False
        bits = np.dtype(f"u{one.dtype.itemsize}")
        if one.shape == answer.stated.shape and np.any((one.view(bits) != other.view(bits)) & answer.stated):
            return False
    return True
