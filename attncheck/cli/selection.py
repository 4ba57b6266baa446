"""Which cases a call means: paths, case ids, cases without a file, and what is changed in all of them."""

from __future__ import annotations

import random
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from attncheck.cli import configuration, models
from attncheck.cli.addresses import SEPARATOR, Addresses, is_id
from attncheck.cli.configuration import Configuration
from attncheck.cli.messages import Stop, progress
from attncheck.engine.run import Given
from attncheck.graph import vectors
from attncheck.graph.case import Case
from attncheck.relations.relation import split
from attncheck.relations.table import RELATIONS
from attncheck.reports.numbers import plural
from attncheck.scenario import Diagnostic, Scenario, ScenarioErrors, from_command_line, override, render_all, select
from attncheck.scenario.command_line import refuse_beyond
from attncheck.scenario.expression import parse
from attncheck.scenario.load import has_scenarios
from attncheck.scenario.select import BENCH, SET_APART
from attncheck.vocabulary import ExitCode

Some = TypeVar("Some")

LISTED = 10
"""How many ids are listed where one was to be named."""


def selected(
    found: Configuration | None, given: Mapping[str, Any], apart: Collection[str] = SET_APART, *, lone: bool = True
) -> list[Given]:
    """The cases that the arguments and options in `given` name, in their order, as `--set` and `--seed` change them.

    A model is fed as `--inputs`, `--dim` and `--seed` say; it has no axes and no tags. What has a tag of `apart` is
    left out beside what has none, and also where there is nothing else unless `lone`.

    Raises Stop: exit code 2 with every mistake of every file and option, 5 when nothing is left.
    """
    base = found.base if found is not None else Path.cwd()
    limit = given["memory_limit"]
    try:
        cases, unmatched = _named(base, given)
        _refuse_unmatched(unmatched, cases)
        kept = _without_set_apart(_kept(cases, given), given, apart, lone=lone)
        changed = [_changed(case, given, limit) for case in kept]
    except ScenarioErrors as wrong:
        mistakes = plural(len(wrong.diagnostics), "mistake")
        raise Stop(f"{mistakes}; nothing was run\n\n{render_all(wrong.diagnostics)}", ExitCode.USAGE) from None
    if not changed:
        raise Stop(_nothing_left(given, len(cases)), ExitCode.NOTHING)
    return changed


def with_paths(found: Configuration | None, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """`given`, with the paths of the configuration where the call itself names nothing."""
    return given if given["what"] or given["case"] else {**given, "what": configuration.paths(found)}


def _kept(cases: Sequence[Given], given: Mapping[str, Any]) -> list[Given]:
    """The cases that ``-k`` and ``--tag`` leave."""
    keyword = given["keyword"] or ""
    scenarios = select([case for case in cases if isinstance(case, Scenario)], keyword=keyword, tags=given["tag"])
    whole = [case for case in cases if isinstance(case, Case)]
    kept = {case.id for case in scenarios} | {case.id for case in fitting(whole, keyword) if not given["tag"]}
    return [case for case in cases if case.id in kept]


def _without_set_apart(
    cases: Sequence[Given], given: Mapping[str, Any], apart: Collection[str], *, lone: bool
) -> Sequence[Given]:
    """The cases but those with a tag of `apart`, unless that is asked for, or, if `lone`, nothing else is named."""
    unasked = set(apart).difference(given["tag"])
    rest = [case for case in cases if isinstance(case, Case) or unasked.isdisjoint(case.tags)]
    if (lone and not rest) or len(rest) == len(cases):
        return cases
    for tag in (it for it in apart if it in unasked):
        left_out = sum(isinstance(case, Scenario) and tag in case.tags for case in cases)
        if left_out:
            progress(f"{plural(left_out, 'case')} tagged {tag} left out; to run them: --tag {tag}")
    return rest


def fitting(cases: Sequence[Case], keyword: str) -> list[Case]:
    """The cases whose id fits ``-k``. Raises ScenarioErrors for a keyword that cannot be read."""
    expression = parse(keyword) if keyword.strip() else None
    return [case for case in cases if expression is None or expression.holds(case.id.lower())]


def shuffled(cases: Sequence[Some], given: Mapping[str, Any]) -> list[Some]:
    """The cases in the order that ``--shuffle`` asks for; what it takes to get a random order again is told."""
    if not given["shuffle"] and given["shuffle_seed"] is None:
        return list(cases)
    seed = given["shuffle_seed"]
    if seed is None:
        seed = secrets.randbelow(2**32)
        progress(f"shuffled; the same order again: --shuffle-seed {seed}")
    order = list(cases)
    random.Random(seed).shuffle(order)  # noqa: S311  an order, no secret
    return order


def single(found: Configuration | None, given: Mapping[str, Any]) -> Given:
    """The one case that the call names. Raises Stop, with exit code 2 where it names several."""
    cases = selected(found, with_paths(found, given))
    if len(cases) > 1:
        some = "\n".join(f"  {case.id}" for case in cases[:LISTED])
        more = f"\n  and {len(cases) - LISTED} more" if len(cases) > LISTED else ""
        raise Stop(f"this names {len(cases)} cases; name one of them:\n{some}{more}", ExitCode.USAGE)
    return cases[0]


def _named(base: Path, given: Mapping[str, Any]) -> tuple[list[Given], list[str]]:
    """The cases that paths, ids, models and `--case` name, each once, and what to say of patterns that match none.

    Without any of these, the shipped cases. Raises ScenarioErrors with the mistakes of all of them together.
    """
    addresses = Addresses(base, given["memory_limit"])
    mistakes: list[Diagnostic] = []
    cases: dict[str, Given] = {}
    unmatched = []
    _refuse_stray_feeds(given)
    if not given["what"] and not given["case"]:
        return list(addresses.shipped()), []
    for word in given["what"]:
        try:
            found = _of_word(word, addresses, base, given)
        except ScenarioErrors as wrong:
            mistakes += wrong.diagnostics
            continue
        if not found:
            unmatched.append(addresses.no_match(word))
        cases.update((case.id, case) for case in found)
    for number, text in enumerate(given["case"], 1):
        try:
            case = from_command_line(text, given["memory_limit"])
        except ScenarioErrors as wrong:
            # Several `--case` are the lines of one text.
            mistakes += [replace(mistake, line=number) for mistake in wrong.diagnostics]
        else:
            cases[case.id] = case
    if mistakes:
        raise ScenarioErrors(dict.fromkeys(mistakes))
    return list(cases.values()), unmatched


def _of_word(word: str, addresses: Addresses, base: Path, given: Mapping[str, Any]) -> Sequence[Given]:
    """The cases that one word means; of a folder its scenarios, and its models that have their arrays beside them."""
    if models.is_model(word):
        return [models.case(word, base, given)]
    if is_id(word):
        return _identified(word, addresses, given)
    inside = models.with_arrays(Path(word))
    _refuse_change(given, inside)
    scenarios = addresses.at(word) if not inside or has_scenarios(Path(word)) else ()
    return [*scenarios, *(models.case(str(path), base, given) for path in inside)]


def _identified(word: str, addresses: Addresses, given: Mapping[str, Any]) -> Sequence[Given]:
    """The cases that an id means: of a file of scenarios, or official tests. Raises Stop for that of a relation."""
    case, relation = split(word)
    if relation in RELATIONS:
        told = f"{word} is a relation of {case}, which `attncheck relate` checks; this command takes the case"
        raise Stop(told, ExitCode.USAGE)
    if word.partition(SEPARATOR)[0] != vectors.SUITE:
        return addresses.matching(word)
    from attncheck.cli import official  # which selects by a keyword as this module does

    _refuse_change(given, [word])
    return official.named(vectors.vectors(), [word])


def _refuse_stray_feeds(given: Mapping[str, Any]) -> None:
    """What feeds a model needs one model to feed, and does not go with what would make the data."""
    named = [word for word in given["what"] if models.is_model(word)]
    _refuse_change(given, named)
    if given["inputs"] is not None and len(named) != 1:
        raise Stop(f"--inputs feeds one model; this call names {len(named) or 'none'}", ExitCode.USAGE)
    if given["dim"] and not named:
        raise Stop("--dim sizes a dimension of a model; this call names none", ExitCode.USAGE)
    if given["inputs"] is not None and (given["dim"] or given["seed"] is not None):
        other = "--dim" if given["dim"] else "--seed"
        raise Stop(f"--inputs gives the arrays that {other} would shape: give one of them", ExitCode.USAGE)


def _refuse_change(given: Mapping[str, Any], named: Sequence[object]) -> None:
    if named and given["set"]:
        raise Stop(f"--set changes axes of scenarios, and {named[0]} is a model, which has none", ExitCode.USAGE)


def _refuse_unmatched(unmatched: Sequence[str], cases: Sequence[Given]) -> None:
    """A pattern that matches nothing beside others that do would silently run less than was asked for."""
    if unmatched:
        code = ExitCode.USAGE if cases else ExitCode.NOTHING
        raise Stop("\n".join([*unmatched, "nothing was run"]), code)


def _changed(case: Given, given: Mapping[str, Any], limit: int) -> Given:
    if isinstance(case, Case):
        return case
    changes = " ".join(given["set"])
    if changes:
        case = override(case, changes, limit)
    if BENCH in case.tags:
        refuse_beyond(case, limit)  # the loader has left that to whoever takes the case
    return override(case, f"seed={given['seed']}", limit) if given["seed"] is not None else case


def _nothing_left(given: Mapping[str, Any], before: int) -> str:
    said = [f"-k {given['keyword']!r}"] if given["keyword"] else []
    said += [f"--tag {tag}" for tag in given["tag"]]
    return f"{' and '.join(said) or 'the selection'} leaves none of {plural(before, 'case')}; nothing was run"
