"""Sessions in the engine: their steps with the oracle's answers, and what a backend gave for them as one Result.

A step has the oracle's presents of the step before as its past, rounded to the dtype, so that it is a whole case of its
own; a backend eats its own presents instead (`Call.bind`). The oracle answers with what it said of them unrounded, and
with the bounds of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attncheck.backends.base import Backend
from attncheck.compare.sharpness import Sharpness
from attncheck.engine import judge
from attncheck.engine.attribution import Judged, attributed
from attncheck.engine.events import AtStep, Attribution, Result
from attncheck.engine.judge import Asked
from attncheck.engine.lane import Attempt, Call
from attncheck.engine.published import disputed
from attncheck.graph import read
from attncheck.graph.case import Case, digest
from attncheck.graph.session import Bound, Session, bindings
from attncheck.oracle import ask
from attncheck.oracle.answer import Answer
from attncheck.problem import AnyProblem, Problem, role_of
from attncheck.scenario.model import Scenario
from attncheck.tensors.dtypes import narrow
from attncheck.vocabulary import Flag, Status, Verdict


@dataclass(frozen=True)
class Given:
    """What one backend gave for a session."""

    backend: Backend
    attempts: tuple[Attempt, ...]
    reference: bool


@dataclass(frozen=True)
class Step:
    """One step: the case with its Problem, the oracle's answers, and what of the step before its inputs are given."""

    case: Case
    problem: AnyProblem
    answers: tuple[Answer, ...]
    bind: Mapping[str, Bound]

    @property
    def asked(self) -> Asked:
        """What the judge is told."""
        return Asked(self.case, self.problem, self.answers)

    @property
    def call(self) -> Call:
        """What a lane is told."""
        return Call(self.case, self.problem, self.bind)


def steps(session: Session) -> tuple[Step, ...]:
    """Every step with the oracle's answers, up to one that must be refused. Raises Unreadable."""
    found: list[Step] = []
    for case in session.cases:
        found.append(_step_after(found[-1] if found else None, case))
        if found[-1].problem.invalid:
            break
    return tuple(found)


def _step_after(before: Step | None, case: Case) -> Step:
    problem = read.any_problem(case.model, case.inputs)
    if before is None or problem.invalid:
        return Step(case, problem, () if problem.invalid else ask.answer(problem, case.inputs), {})
    bind = bindings(before.problem, problem)
    presents = {answer.output: answer for answer in before.answers}
    carried = {name: presents[bound.output] for name, bound in bind.items()}
    held = problem.cache_dtype if isinstance(problem, Problem) else problem.dtype
    pasts = {
        name: narrow(_without_dropped(problem, name, carried[name].values[..., : bound.rows, :]), held)
        for name, bound in bind.items()
    }
    inputs = {**case.inputs, **pasts}
    whole = replace(case, inputs=inputs, digest=digest(case.model, inputs))
    return Step(whole, problem, ask.answer(problem, inputs, carried), bind)


def _without_dropped(problem: AnyProblem, name: str, pages: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pages with NaN in the places behind an entry's past, where the tokens stand that the step before dropped.

    The operator leaves them alone, so that they would be held to stay as the oracle computed them: each backend has its
    own there. Other buffers are stated as far as they are filled.
    """
    if not isinstance(problem, Problem) or not problem.paged:
        return pages
    at = role_of(problem.inputs, name).tensor.scattered
    assert at is not None
    behind = np.arange(at.places.shape[1]) >= np.asarray(problem.past_len)[:, None]
    found = pages.copy()
    found.reshape(-1, problem.kv_heads, problem.head_dim)[at.places[behind & (at.places >= 0)]] = np.nan
    return found


def results(session: Session, asked: Sequence[Asked], given: Sequence[Given], sharpness: bool) -> tuple[Result, ...]:
    """One Result a backend, in their order: of the first step that is wrong there, or of all."""
    told: dict[str, list[Result]] = {it.backend.name: [] for it in given}
    for at, one in enumerate(asked):
        going = [it for it in given if all(_goes_on(result) for result in told[it.backend.name])]
        lost = [it for it in given if it.reference and it not in going]
        for result in _judged(one, at, going, sharpness):
            # Whoever declares that it takes no step of the kind that its operator forbids is judged by those before.
            if not (at and one.problem.invalid and result.verdict is Verdict.UNSUPPORTED):
                told[result.backend].append(_alone(result, lost))
    return tuple(_whole(session, told[it.backend.name]) for it in given)


def _judged(asked: Asked, at: int, given: Sequence[Given], sharpness: bool) -> tuple[Result, ...]:
    judged = []
    for it in given:
        # A backend that does not cover the session has one attempt, which says so of every step.
        attempt = it.attempts[min(at, len(it.attempts) - 1)]
        judged.append(Judged(it.backend, attempt, judge.result(asked, it.backend, attempt, it.reference, sharpness)))
    return disputed(asked, attributed(asked, judged))


def _goes_on(result: Result) -> bool:
    return result.verdict is Verdict.PASS or result.status is Status.SKIPPED


def _alone(result: Result, lost: Sequence[Given]) -> Result:
    """With a word on the reference where that went wrong in an earlier step, so that it tells nothing here."""
    if not lost or result.verdict not in judge.NUMBERS:
        return result
    said = f"judged by the oracle alone: {lost[0].backend.name} goes wrong in an earlier step"
    return replace(result, attribution=Attribution(said))


def _whole(session: Session, found: Sequence[Result]) -> Result:
    """The results of a backend's steps as one: the first that did not pass, or the one with the worst margin."""
    if len(session.cases) == 1 and not _is_session(session):
        return found[0]
    last = replace(found[-1], case=session.id)
    if last.status is Status.SKIPPED:
        # What is declared says the step itself; what is found out in a later one does not.
        at = [it.status for it in found].index(Status.SKIPPED)
        return replace(last, message=f"{last.message} (in step {at + 1})") if at else last
    seconds = max(it.seconds for it in found)
    flags = tuple(dict.fromkeys(flag for it in found for flag in it.flags if flag is not Flag.VACUOUS))
    if not _goes_on(last):
        return replace(last, flags=flags, seconds=seconds, step=_at(session, len(found) - 1))
    # A session proves something where one of its steps does.
    vacuous = (Flag.VACUOUS,) if all(Flag.VACUOUS in it.flags for it in found) else ()
    margins = [it.worst.margin if it.worst is not None else 0.0 for it in found]
    at = margins.index(max(margins))
    sharp = [it.sharpness for it in found if it.sharpness is not None]
    return replace(
        found[at],
        case=session.id,
        flags=(*flags, *vacuous),
        sharpness=together(sharp) if sharp else None,
        seconds=seconds,
        step=_at(session, at),
    )


def _is_session(session: Session) -> bool:
    return isinstance(session.origin, Scenario) and bool(session.origin.steps)


def _at(session: Session, at: int) -> AtStep:
    assert isinstance(session.origin, Scenario)
    return AtStep(at + 1, len(session.cases), session.origin.steps[at].label)


def together(found: Sequence[Sharpness]) -> Sharpness:
    """What at least one step would have noticed, of the wrong kernels that are relevant to any."""
    relevant = tuple(dict.fromkeys(name for it in found for name in it.relevant))
    rejected = tuple(name for name in relevant if any(name in it.rejected for it in found))
    finite = {name for it in found for name in it.rejected if name not in it.by_poison}
    survivors = tuple(name for name in relevant if name not in rejected)
    by_poison = tuple(name for name in rejected if name not in finite)
    return Sharpness(relevant, rejected, survivors, by_poison, any(it.exact for it in found))


def alone(session: Session, number: int) -> Case:
    """Step `number`, from 1 on, as a case of its own, with the oracle's presents as its past."""
    return steps(session)[number - 1].case
