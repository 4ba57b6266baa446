"""From a case and a backend to the Subject of a bundle: run once more, and kept with all that it was computed by."""

from __future__ import annotations

from attncheck.backends import environments
from attncheck.backends.base import Backend, CannotRequest, Request
from attncheck.bundle.script import Unscripted
from attncheck.bundle.subject import Subject
from attncheck.engine import sessions
from attncheck.engine.run import Given, Options
from attncheck.engine.single import Seen, Told, evaluate
from attncheck.graph import read
from attncheck.graph.case import Case
from attncheck.graph.session import session as session_of
from attncheck.oracle import ask
from attncheck.reports import rows
from attncheck.vocabulary import Verdict

NOT_FAILING = (Verdict.PASS, Verdict.UNSUPPORTED, Verdict.QUARANTINED)
"""Verdicts that no bundle can be made of."""


class NotFailing(Exception):
    """The case does not fail: there is nothing to show. The message says what it came to."""


def subject(given: Given, backend: Backend, reference: Backend | None, options: Options, told: Told) -> Subject:
    """Run the case, and keep what failed. Raises BackendUnavailable, NotFailing, Unscripted.

    Of a session it is the step that went wrong, by itself, where it goes wrong by itself as well.
    """
    seen = _failing(given, backend, reference, options, told)
    case = _alone(given, seen)
    at = seen.result.step
    if at is not None:
        try:
            seen = _failing(case, backend, reference, options, told)
        except NotFailing as passes:
            raise Unscripted(f"step {at.number} fails only behind the steps before it: {passes}") from None
    problem = read.any_problem(case.model, case.inputs)
    launch = environments.ready(backend.launch(), lambda note: told(backend.name, note))
    return Subject(
        case=case,
        problem=problem,
        answers=() if problem.invalid else ask.answer(problem, case.inputs),
        result=seen.result,
        reference=seen.reference,
        launch=launch,
        hello=seen.hello,
        payload=_request(case, backend, seen).payload,
        required=backend.launch().requirements,
        time_limit=options.time_limit,
    )


def _failing(given: Given, backend: Backend, reference: Backend | None, options: Options, told: Told) -> Seen:
    seen = evaluate(given, backend, reference, options, told)
    if seen.result.verdict in NOT_FAILING:
        why = f", {seen.result.message}" if seen.result.message else ""
        raise NotFailing(f"it does not fail on {backend.name}: {seen.result.verdict}{why}")
    return seen


def _alone(given: Given, seen: Seen) -> Case:
    session = session_of(given)
    return session.cases[0] if seen.result.step is None else sessions.alone(session, seen.result.step.number)


def _request(case: Case, backend: Backend, seen: Seen) -> Request:
    """The request whose answer is told of."""
    problem = read.any_problem(case.model, case.inputs)
    try:
        requests = backend.requests(case, problem, seen.hello)
    except CannotRequest as unformed:
        raise Unscripted(f"it fails before anything is run: {unformed}") from unformed
    worst = rows.told(seen.result)
    wanted = worst.subject if worst is not None else seen.result.kernel
    return next((it for it in requests if it.kernel == wanted), requests[0])
