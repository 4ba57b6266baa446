"""Relations in the engine: both sides run on every lane as sessions, and each backend is held against itself alone."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from attncheck.backends.base import Backend, Outcome
from attncheck.compare import judge as compare
from attncheck.compare.difference import Difference
from attncheck.engine import expectations, judge, sessions
from attncheck.engine.events import AtStep, CaseFinished, Result
from attncheck.engine.judge import Asked
from attncheck.engine.lane import Attempt, Lane
from attncheck.engine.status import of_verdict
from attncheck.graph.session import Session
from attncheck.relations import holds
from attncheck.relations.holds import Side
from attncheck.relations.relation import Related, content
from attncheck.vocabulary import Status, Verdict

Attempts = tuple[tuple[Attempt, ...], ...]
"""What a backend gave: for each side its attempts, one a step."""


@dataclass(frozen=True)
class Relating:
    """A relation in the backends' hands: its sides with what was asked of each step."""

    related: Related
    digest: str
    asked: tuple[tuple[Asked, ...], ...]
    attempts: tuple[tuple[Lane, tuple[Future[tuple[Attempt, ...]], ...]], ...]

    @property
    def futures(self) -> list[Future[tuple[Attempt, ...]]]:
        """All that must have come before it is judged."""
        return [future for _, futures in self.attempts for future in futures]


def whole(related: Related) -> tuple[Session, tuple[Session, ...]]:
    """The relation as one case, and its sides."""
    sides = related.sessions()
    cases = tuple(case for side in sides for case in side.cases)
    return Session(related.id, related.origin, content(sides), cases), sides


def submitted(related: Related, sides: Sequence[Session], digest: str, lanes: Sequence[Lane]) -> Relating:
    """Hand both sides to every lane. What is quarantined as a scenario is so here, by its own id."""
    steps = [sessions.steps(side) for side in sides]
    calls = [[step.call for step in side] for side in steps]
    attempts = tuple((lane, tuple(lane.submit(related.scenario.id, each) for each in calls)) for lane in lanes)
    return Relating(related, digest, tuple(tuple(step.asked for step in side) for side in steps), attempts)


def finished(relating: Relating) -> CaseFinished:
    """Whether the relation holds, on each backend by itself."""
    results = tuple(
        _result(relating, lane.backend, tuple(future.result() for future in futures))
        for lane, futures in relating.attempts
    )
    return CaseFinished(relating.related.origin, relating.digest, results)


def _result(relating: Relating, backend: Backend, sides: Attempts) -> Result:
    name = relating.related.id
    for attempts, said in zip(sides, _called(relating.related), strict=False):
        first = attempts[0]
        if first.unsupported is not None:
            return judge.unsupported(name, backend.name, said + first.unsupported, reference=False)
        if first.quarantined is not None:
            return expectations.quarantined(name, backend.name, first.quarantined, reference=False)
    rounds = [_round(relating, backend, sides, index) for index in range(len(sides[0][0].rounds))]
    at = next((i for i, result in enumerate(rounds) if result.verdict is not Verdict.PASS), 0)
    bits = any(
        judge.bits_change(one, attempt)
        for asked, attempts in zip(relating.asked, sides, strict=False)
        for one, attempt in zip(asked, attempts, strict=False)
    )
    flags = judge.unsteady([result.verdict for result in rounds], bits)
    told = _flagged(relating, backend, sides, at, rounds[at])
    seconds = sum(attempts[0].seconds for attempts in sides)
    return replace(
        told, status=of_verdict(told.verdict), flags=(*told.flags, *flags), repeat=at, seconds=seconds
    )


def _flagged(relating: Relating, backend: Backend, sides: Attempts, index: int, result: Result) -> Result:
    """With what a run of the sides would flag: right numbers that prove nothing, wrong ones that are disputed."""
    if result.verdict is Verdict.PASS:
        return judge.sharpened(relating.asked[0][0], backend, result, sides[0][0].rounds[index][0], every=False)
    if result.verdict not in judge.NUMBERS:
        return result
    every = (
        judge.seen(one, backend, attempt.rounds[index])
        for asked, attempts in zip(relating.asked, sides, strict=True)
        for one, attempt in zip(asked, attempts, strict=True)
    )
    followed = next((it for it in every if it.convention is not None), None)
    return result if followed is None else replace(result, convention=followed.convention, flags=followed.flags)


def _called(related: Related) -> tuple[str, str]:
    """What stands before a message that is about one of the sides."""
    return "", f"{related.relation.twin_words} ({related.twin.id.removeprefix('case::')}): "


def _round(relating: Relating, backend: Backend, sides: Attempts, index: int) -> Result:
    """One repeat: a side that gave no numbers is the verdict, else what the two are to each other."""
    kernels = [outcome.kernel for outcome in sides[0][0].rounds[index]]
    blank = Result(relating.related.id, backend.name, kernels[0], len(kernels) > 1, Verdict.PASS, Status.PASSED)
    for asked, attempts, said in zip(relating.asked, sides, _called(relating.related), strict=False):
        refusal = _refusal(asked, backend, attempts, index)
        if refusal is not None:
            verdict, message, outcome, step = refusal
            told = replace(blank, kernel=outcome.kernel, verdict=verdict, message=f"{said}{message}")
            return replace(told, stderr=outcome.stderr, step=step)
    relation = relating.related.relation
    try:
        found = tuple(
            difference for kernel in kernels for difference in _differences(relating, backend, sides, index, kernel)
        )
    except compare.Incomparable as error:
        return replace(blank, verdict=Verdict.ERROR, message=str(error))
    if not found:
        return replace(blank, verdict=Verdict.ERROR, message="the two sides have no element in common that is stated")
    verdict = compare.verdict_of(found)
    broken = "" if verdict is Verdict.PASS else f"broken: {relation.words}. This shows {relation.breaks}"
    worst = max(found, key=lambda difference: difference.margin)
    return replace(blank, verdict=verdict, differences=found, worst=worst, message=broken)


def _differences(
    relating: Relating, backend: Backend, sides: Attempts, index: int, kernel: str
) -> tuple[Difference, ...]:
    (own,), *twin = (
        _side(asked, backend, attempts, index, kernel) for asked, attempts in zip(relating.asked, sides, strict=True)
    )
    return holds.differences(relating.related.relation, own, twin[0] if twin else (), kernel)


def _refusal(
    asked: Sequence[Asked], backend: Backend, attempts: Sequence[Attempt], index: int
) -> tuple[Verdict, str, Outcome, AtStep | None] | None:
    """Why a side has no numbers to compare, at its first step of which that is so."""
    for number, (one, attempt) in enumerate(zip(asked, attempts, strict=False), 1):
        for outcome in attempt.rounds[index]:
            refusal = judge.refusal(one.case, backend, outcome)
            if refusal is not None:
                return *refusal, outcome, AtStep(number, len(asked)) if len(asked) > 1 else None
    return None


def _side(
    asked: Sequence[Asked], backend: Backend, attempts: Sequence[Attempt], index: int, kernel: str
) -> tuple[Side, ...]:
    """The steps of a side, as one kernel computed them."""
    return tuple(
        Side(one.problem, one.answers, it.outputs, judge.arithmetic(backend, one.problem, it))
        for one, attempt in zip(asked, attempts, strict=True)
        for it in (_outcome(attempt, index, kernel),)
    )


def _outcome(attempt: Attempt, index: int, kernel: str) -> Outcome:
    outcomes = attempt.rounds[index]
    return next((outcome for outcome in outcomes if outcome.kernel == kernel), outcomes[0])
