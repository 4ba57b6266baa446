"""Which relations of which cases a call of ``attncheck relate`` means."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from attncheck.cli import asked, options, selection
from attncheck.cli.invocation import said
from attncheck.cli.messages import Stop
from attncheck.cli.session import Wanted
from attncheck.engine.run import Given
from attncheck.relations.relation import SIGN, Related, split
from attncheck.relations.table import RELATIONS, related, unsaid
from attncheck.scenario import Scenario
from attncheck.scenario.diagnostics import nearest
from attncheck.vocabulary import ExitCode

TOLD = 5
"""Cases of which it is told why no relation says anything."""


def selected(ctx: click.Context, names: Sequence[str], given: Mapping[str, Any]) -> list[Related]:
    """The relations of the cases that `given` selects. Raises Stop where there is none, or one that is not known."""
    _refuse_unknown(names)
    # FILE::NAME/RELATION is one relation of a case: the case is selected, and then what was not named is left out.
    words = [split(word) for word in given["what"]]
    _refuse_unknown([name for _, name in words if name])
    cases = selection.selected(ctx.obj, {**given, "what": tuple(dict.fromkeys(word for word, _ in words))})
    every = [it for case in cases if isinstance(case, Scenario) for it in related(case, names)]
    named = {name for _, name in words if name}
    asked_for = tuple(named.intersection(names) if named and names else named or names)
    kept = [it for it in every if not named or it.relation.name in named]
    if not kept:
        raise Stop(_nothing(cases, asked_for), ExitCode.NOTHING)
    return kept


def _nothing(cases: Sequence[Given], names: Sequence[str]) -> str:
    """That nothing was run: why not, of the first cases, and what to do instead."""
    told = [f"  {text}" for case in cases[:TOLD] for text in _why(case, names)]
    if len(cases) > TOLD:
        told.append(f"  and {len(cases) - TOLD} cases more")
    return "\n".join(
        [
            "no relation says anything of these cases: nothing was run",
            *told,
            "`attncheck run` judges them by the oracle; `attncheck relate --list` lists what relations are checked of",
        ]
    )


def _why(case: Given, names: Sequence[str]) -> Iterator[str]:
    """One line for each reason, with the relations that have it where they are not all."""
    if not isinstance(case, Scenario):
        yield f"{case.id}: a model has no axes of which a twin is made; `attncheck extract` makes a scenario of it"
        return
    reasons = unsaid(case, names)
    for reason in dict.fromkeys(reasons.values()):
        having = [name for name, other in reasons.items() if other == reason]
        yield f"{case.id}{SIGN + ', '.join(having) if len(having) < len(RELATIONS) else ''}: {reason}"


def wanted(ctx: click.Context, given: Mapping[str, Any], elsewhere: Collection[str]) -> Wanted:
    """What the options ask of a run without a reference."""
    if said(ctx, "reference") and given["reference"] != options.NO_REFERENCE:
        raise click.UsageError("a relation has no reference: name the backend with --backend to check it too", ctx)
    told = asked.wanted(ctx, given, "attncheck", "relate", elsewhere=elsewhere)
    # `minimize` shrinks a case by the oracle; it takes no relation.
    return replace(told, reference=None, shrinking=None)


def _refuse_unknown(names: Sequence[str]) -> None:
    for name in names:
        if name not in RELATIONS:
            hint = nearest(name, RELATIONS) or f"the relations are {', '.join(RELATIONS)}"
            raise Stop(f"there is no relation {name!r}; {hint}", ExitCode.USAGE)
