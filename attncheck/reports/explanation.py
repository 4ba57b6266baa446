"""What a report says below a row: the paragraphs that explain a result, and the last words of its process."""

from __future__ import annotations

import re

from attncheck.engine.events import Result
from attncheck.reports import describe, expected, frames, rows
from attncheck.vocabulary import Flag, Status, Verdict

STDERR_LINES = 8
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
TOLD_ELSEWHERE = {Flag.REFERENCE_REFUSED, Flag.DISPUTED}
"""Flags that stand in the row, or that the attribution explains."""


def lines(result: Result, *, verbose: bool) -> list[str]:
    """What a row cannot hold: the worst element of wrong numbers, and the message of whatever has one.

    A failure that is as expected is told at length only to whom wants it.
    """
    texts = expected.expectation(result, verbose=verbose)
    if result.status is Status.XFAILED and not verbose:
        return texts
    worst = rows.told(result)
    if result.step is not None and result.verdict is not Verdict.PASS:
        texts.append(f"{describe.step(result.step)} is the first to go wrong")
    elif result.step is not None and verbose:
        texts.append(f"the worst margin is that of {describe.step(result.step)}")
    if result.verdict is not Verdict.PASS and worst is not None and not worst.passed:
        texts += describe.worst(worst)
        texts += describe.others(result.differences, worst)
    if result.message:
        texts.append(result.message)
    if result.sharpness is not None:
        texts.append(describe.sharpness(result.sharpness))
    if result.diagnosis:
        texts.append(result.diagnosis)
    if result.convention is not None:
        texts += describe.convention(result.convention)
    if result.attribution is not None:
        texts += describe.attribution(result.attribution, numbers=verbose)
    return texts + flags(result)


def flags(result: Result) -> list[str]:
    """The flags that nothing else tells, with what they mean."""
    return [f"{flag}: {flag.meaning}" for flag in result.flags if flag not in TOLD_ELSEWHERE]


def plain(stderr: str) -> list[str]:
    """The lines that a process wrote, without colours."""
    return ESCAPE.sub("", stderr.rstrip()).splitlines()


def last_words(result: Result, *, brief: bool = False) -> list[str]:
    """The end of what the backend's process wrote, without colours, and without what the message says already.

    brief  a frame of a traceback is one line
    """
    known = {*result.message.split("; "), result.message}
    said = plain(result.stderr)
    said = frames.brief(said) if brief else said
    return [text for text in said if not any(part and part in text for part in known)][-STDERR_LINES:]
