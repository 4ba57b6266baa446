"""Whether the oracle agrees with the outputs that a case's publisher states. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attncheck.compare import judge as compare
from attncheck.engine.events import Attribution, Result
from attncheck.engine.judge import Asked
from attncheck.vocabulary import Flag, Status

SUBJECT = "the published output"


def disputed(asked: Asked, results: Sequence[Result]) -> tuple[Result, ...]:
    """`results`, each that was judged flagged where publisher and oracle differ: then who judges is in doubt.

    Published outputs count as computed in the case's dtype itself, stage by stage, as the onnx package does.
    """
    said = _dispute(asked)
    if not said:
        return tuple(results)
    return tuple(it if it.status is Status.SKIPPED else _flagged(it, said) for it in results)


def _dispute(asked: Asked) -> str:
    """How the published outputs depart from the oracle's answers, or nothing."""
    published = asked.case.published
    if not published or asked.problem.invalid:
        return ""
    malformed = compare.malformed(asked.case.outputs, published)
    if malformed is not None:
        return f"disputed: {SUBJECT} has another form than the graph gives: {malformed}"
    found = compare.differences(asked.problem, asked.answers, published, "native", SUBJECT)
    worst = max(found, key=lambda it: it.margin)
    if worst.passed:
        return ""
    return (
        f"disputed: {SUBJECT} {worst.place.output} differs from the oracle by {worst.max_abs:.2g}, "
        f"and rounding explains {worst.tolerance:.2g}"
    )


def _flagged(result: Result, said: str) -> Result:
    attribution = result.attribution or Attribution("")
    whole = "; ".join(part for part in (attribution.said, said) if part)
    flags = result.flags if Flag.DISPUTED in result.flags else (*result.flags, Flag.DISPUTED)
    return replace(result, flags=flags, attribution=replace(attribution, said=whole))
