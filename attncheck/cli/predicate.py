"""A case as a yes or no. Whatever goes wrong on the way is no answer: a reducer must not take it for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from attncheck.backends.base import BackendUnavailable
from attncheck.bundle.failing import NOT_FAILING
from attncheck.cli.alone import alone
from attncheck.cli.messages import Stop, error
from attncheck.cli.packing import told
from attncheck.engine.single import evaluate
from attncheck.vocabulary import Answer, Verdict


def answer(ctx: click.Context, given: Mapping[str, Any], wanted: frozenset[Verdict], *, passes: bool) -> Answer:
    """Run the case of a call and give the exit code.

    wanted  verdicts that are interesting; every failing one where it is empty
    passes  whether it is passing that is asked for
    """
    try:
        with alone(ctx, given) as asked:
            result = evaluate(asked.given, asked.backend, None, asked.options, told).result
    except (Stop, BackendUnavailable) as why:
        error(f"cannot tell: {why}")
        return Answer.UNKNOWN
    except Exception as fault:  # noqa: BLE001 - a fault of ours is not the case's
        error(f"cannot tell: {type(fault).__name__}: {fault}")
        return Answer.UNKNOWN
    click.echo(" ".join(filter(None, (str(result.verdict), result.diagnosis or result.message))))
    return meant(result.verdict, wanted, asked.known, passes=passes)


def meant(verdict: Verdict, wanted: frozenset[Verdict], known: str = "", *, passes: bool = False) -> Answer:
    """What a verdict answers; `wanted` and `passes` as above.

    known   the verdict that a bundle is of: where that is another, a provider that did not run tells nothing of it
    """
    if verdict is Verdict.FALLBACK and known not in {"", verdict} and verdict not in wanted:
        return Answer.UNKNOWN
    if verdict in wanted:
        return Answer.NO if passes else Answer.YES
    if verdict is Verdict.PASS:
        return Answer.YES if passes else Answer.NO
    if verdict in NOT_FAILING:
        return Answer.UNKNOWN
    if wanted:  # another failure than the one that is looked for: not it, and no passing either
        return Answer.UNKNOWN if passes else Answer.NO
    return Answer.NO if passes else Answer.YES
