"""From a case and a backend to the Subject of a bundle: run once more, and kept with all that it was computed by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attncheck.backends import environments
from attncheck.backends.base import Backend, CannotRequest, Request
from attncheck.bundle.script import Unscripted
from attncheck.bundle.subject import Call, Subject
from attncheck.engine import sessions
from attncheck.engine.run import Given, Options
from attncheck.engine.single import Seen, Told, evaluate
from attncheck.graph.session import session as session_of
from attncheck.minimize.signature import same, signature
from attncheck.reports import rows
from attncheck.scenario.model import Scenario
from attncheck.vocabulary import Verdict

NOT_FAILING = (Verdict.PASS, Verdict.UNSUPPORTED, Verdict.QUARANTINED)
"""Verdicts that no bundle can be made of."""


OFTEN = 10
"""How often a case that passes is run, in one process, until it fails."""


class NotFailing(Exception):
    """The case does not fail: there is nothing to show. The message says what it came to."""


def subject(given: Given, backend: Backend, reference: Backend | None, options: Options, told: Told) -> Subject:
    """Run the case, and keep what failed. Raises BackendUnavailable, NotFailing, Unscripted.

    What passes is run OFTEN, and what fails in some of these runs only is a failure too: the script tries as often. Of
    a session it is the step that went wrong, by itself, where it goes wrong by itself in the same way, or else with
    the steps before it.
    """
    seen, options = _failing(given, backend, reference, options, told)
    at = seen.result.step
    if at is not None:
        step = sessions.alone(session_of(given), at.number)
        alone = evaluate(step, backend, reference, options, told)
        if _alike(seen, alone):
            given, seen, at = step, alone, None
    calls = _calls(given, backend, seen, 1 if at is None else at.number)
    last = calls[-1]
    return Subject(
        case=last.case,
        problem=last.problem,
        answers=last.answers,
        result=seen.result,
        reference=seen.reference,
        launch=environments.ready(backend.launch(), lambda note: told(backend.name, note)),
        hello=seen.hello,
        payload=last.payload,
        required=backend.launch().requirements,
        time_limit=options.time_limit,
        earlier=calls[:-1],
        bind=last.bind,
        session=given if calls[:-1] and isinstance(given, Scenario) else None,
    )


def _failing(
    given: Given, backend: Backend, reference: Backend | None, options: Options, told: Told
) -> tuple[Seen, Options]:
    """How it fails, and under which options: once, or in one of many runs."""
    seen = evaluate(given, backend, reference, options, told)
    if seen.result.verdict is Verdict.PASS and options.repeat == 1:
        options = replace(options, repeat=OFTEN)
        seen = evaluate(given, backend, reference, options, told)
    if seen.result.verdict in NOT_FAILING:
        why = f", {seen.result.message}" if seen.result.message else ""
        raise NotFailing(f"it does not fail on {backend.name}: {seen.result.verdict}{why}")
    return seen, options


def _alike(session: Seen, alone: Seen) -> bool:
    """Whether a step by itself fails as it did behind the others."""
    first, second = signature(session.result), signature(alone.result)
    return first is not None and second is not None and same(first, second)


def _calls(given: Given, backend: Backend, seen: Seen, number: int) -> tuple[Call, ...]:
    """The first `number` calls, each with the request that the answer told of belongs to."""
    steps = sessions.steps(session_of(given))[:number]
    try:
        offered = [backend.requests(step.case, step.problem, seen.hello) for step in steps]
    except CannotRequest as unformed:
        raise Unscripted(f"it fails before anything is run: {unformed}") from unformed
    worst = rows.told(seen.result)
    wanted = worst.subject if worst is not None else seen.result.kernel
    chains = [[_of_kernel(requests, first.kernel) for requests in offered] for first in offered[0]]
    chain = next((it for it in chains if it[-1].kernel == wanted), chains[0])
    return tuple(
        Call(step.case, step.problem, step.answers, request.payload, step.bind)
        for step, request in zip(steps, chain, strict=True)
    )


def _of_kernel(requests: Sequence[Request], kernel: str) -> Request:
    """As a lane chooses it: the kernel of the first step goes on, where it can."""
    return next((it for it in requests if it.kernel == kernel), requests[0])
