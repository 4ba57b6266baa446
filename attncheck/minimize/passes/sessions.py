"""Fewer steps of a session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from attncheck.minimize.candidate import Candidate
from attncheck.minimize.order import STEPS
from attncheck.minimize.passes.sizes import below
from attncheck.scenario.complete import session_of
from attncheck.scenario.steps import Written, pasts, unrolled


def fewer_steps(case: Candidate) -> Iterator[Candidate | None]:
    """Drops steps: all but one call, a part from the front or the end, one, or repeats of one; and shortens them.

    Changes the steps, and the past where the first ones are made part of it. Progress: fewer calls, or fewer tokens.
    """
    steps = session_of(case.complete.values)
    if not steps:
        return
    every = unrolled(steps, case.complete.batch)
    before_step = list(pasts(every, case.complete.lengths("past_len")))
    for at, past in enumerate(before_step):
        yield case.with_({STEPS: None, "q_len": every[at].q_len, "past_len": past})
    for size in range(1, len(steps)):
        yield case.with_({STEPS: steps[:size]})
        yield case.with_({STEPS: steps[size:]})
        before = len(unrolled(steps[:size], case.complete.batch))
        yield case.with_({STEPS: steps[size:], "past_len": before_step[before]})
    for at in range(len(steps) if len(steps) > 1 else 0):
        yield case.with_({STEPS: steps[:at] + steps[at + 1 :]})
    for at, step in enumerate(steps):
        for changed in _shorter(step):
            yield case.with_({STEPS: (*steps[:at], changed, *steps[at + 1 :])})


def _shorter(step: Written) -> Iterator[Written]:
    for times in below(step.repeat, 1):
        yield replace(step, repeat=times)
    if isinstance(step.q_len, int):
        for rows in below(step.q_len, 1):
            if not isinstance(step.accept, int):
                yield replace(step, q_len=rows)
                continue
            # As many kept as before, or as many dropped.
            for accept in dict.fromkeys((min(step.accept, rows), max(0, step.accept - step.q_len + rows))):
                yield replace(step, q_len=rows, accept=accept)
    if step.accept is not None:
        yield replace(step, accept=None)
    if isinstance(step.accept, int) and isinstance(step.q_len, int):
        for more in range(step.q_len - 1, step.accept, -1):
            yield replace(step, accept=more)
    if step.label:
        yield replace(step, label="")
