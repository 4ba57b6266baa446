"""Who is alone: the candidate, the reference or the oracle. Pure.

candidate ~ oracle   reference ~ oracle   candidate ~ reference   said
yes                  no                                           the reference's row fails, "reference suspect"
no                   yes                                          candidate wrong
no                   no                   yes                     a convention that both follow, or disputed: both
                                                                  against our reading of the text
no                   no                   no                      both differ
either               refused                                      judged by the oracle alone
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attncheck.backends.base import Backend, Outcome
from attncheck.compare import judge as compare
from attncheck.compare.picture import beside
from attncheck.engine.events import Attribution, Result
from attncheck.engine.judge import NUMBERS, Asked, arithmetic
from attncheck.engine.lane import Attempt
from attncheck.vocabulary import Flag, Status, Verdict


@dataclass(frozen=True)
class Judged:
    """A backend's result on the case, beside what it was judged from."""

    backend: Backend
    attempt: Attempt
    result: Result


def attributed(asked: Asked, judged: Sequence[Judged]) -> tuple[Result, ...]:
    """The results of one case, each failing one with who is alone, refused references and disputes flagged."""
    reference = next((it for it in judged if it.result.reference), None)
    if reference is None:
        return tuple(it.result for it in judged)
    candidates = [it for it in judged if it is not reference]
    found = [_candidate(asked, it, reference) for it in candidates]
    return (*found, _reference(asked, reference, candidates, found))


def _candidate(asked: Asked, judged: Judged, reference: Judged) -> Result:
    result, name = judged.result, reference.result.backend
    if result.status is Status.SKIPPED:
        return result
    if reference.result.status is Status.SKIPPED:
        flagged = replace(result, flags=(*result.flags, Flag.REFERENCE_REFUSED))
        return _said(flagged, f"judged by the oracle alone: {name} does not take this case")
    if result.verdict not in NUMBERS:
        return result
    if reference.result.verdict not in (Verdict.PASS, *NUMBERS):
        return _said(result, f"judged by the oracle alone: {name} gave no numbers")
    if result.picture is not None:
        result = replace(result, picture=beside(result.picture, asked.problem, _worst(reference).outputs))
    agree, apart = _apart(asked, judged, reference)
    if reference.result.verdict is Verdict.PASS:
        return _said(result, f"{result.backend} is wrong: {name} agrees with the oracle", reference.result, apart)
    if agree and result.convention is not None:
        return _said(result, f"{name} follows the same convention", reference.result, apart)
    if agree:
        disputed = replace(result, flags=(*result.flags, Flag.DISPUTED))
        said = f"disputed: {name} agrees with {result.backend}, against the oracle's reading of the text"
        return _said(disputed, said, reference.result, apart)
    said = f"both {result.backend} and {name} differ from the oracle, and from each other"
    return _said(result, said, reference.result, apart)


def _reference(asked: Asked, reference: Judged, candidates: Sequence[Judged], found: Sequence[Result]) -> Result:
    """The reference's own row: suspect where a candidate agrees with the oracle, disputed where one agrees with it."""
    result = reference.result
    if result.verdict not in NUMBERS:
        return result
    right = next((it for it in candidates if it.result.verdict is Verdict.PASS), None)
    if right is not None:
        said = f"reference suspect: {right.result.backend} agrees with the oracle"
        apart = _apart(asked, right, reference)[1]
        return replace(result, attribution=Attribution(said, _largest(right.result), _largest(result), apart))
    if Flag.DISPUTED not in result.flags and any(Flag.DISPUTED in it.flags for it in found):
        return replace(result, flags=(*result.flags, Flag.DISPUTED))
    return result


def _said(result: Result, said: str, reference: Result | None = None, apart: float | None = None) -> Result:
    """`result` with its attribution, where it has wrong numbers to attribute."""
    if result.verdict not in NUMBERS:
        return result
    reference_oracle = None if reference is None else _largest(reference)
    return replace(result, attribution=Attribution(said, _largest(result), reference_oracle, apart))


def _largest(result: Result) -> float:
    """The largest difference from the oracle."""
    return max((it.max_abs for it in result.differences if it.against == "oracle"), default=0.0)


def _apart(asked: Asked, candidate: Judged, reference: Judged) -> tuple[bool, float]:
    """Whether candidate and reference agree within the candidate's tolerance, and their largest difference."""
    result = candidate.result
    found = compare.agreement(
        asked.problem,
        asked.answers,
        _worst(candidate).outputs,
        _worst(reference).outputs,
        arithmetic(candidate.backend, asked.problem, _worst(candidate)),
        result.backend,
        reference.result.backend,
        asked.override(result.backend),
    )
    return all(it.passed for it in found), max(it.max_abs for it in found)


def _worst(judged: Judged) -> Outcome:
    """What the kernel with the worst difference gave, in the repeat that was judged."""
    kernel = judged.result.worst.subject if judged.result.worst is not None else judged.result.kernel
    outcomes = judged.attempt.rounds[judged.result.repeat]
    return next((outcome for outcome in outcomes if outcome.kernel == kernel), outcomes[0])
