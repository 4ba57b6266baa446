"""Which of the loaded cases are meant: by id, by expression, by tag."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from attncheck.scenario.command_line import SET, override
from attncheck.scenario.diagnostics import Diagnostic, Mistake, ScenarioErrors, nearest, shown
from attncheck.scenario.expression import Expression, parse
from attncheck.scenario.memory import DEFAULT_LIMIT
from attncheck.scenario.model import Scenario

HUGE = "huge"
"""The tag of cases that take minutes or gigabytes."""

BENCH = "bench"
"""The tag of cases that are there to be timed, at the sizes of a GPU."""

BENCH_SMALL = "bench-small"
"""The tag of cases that are there to be timed, at sizes that software computes too."""

SET_APART = (HUGE, BENCH, BENCH_SMALL)
"""The tags of cases that are left out unless the tag is asked for, or nothing else is named."""


def select(
    scenarios: Sequence[Scenario],
    ids: Sequence[str] = (),
    keyword: str = "",
    tags: Sequence[str] = (),
    memory_limit: int = DEFAULT_LIMIT,
) -> tuple[Scenario, ...]:
    """The scenarios that are meant, in their own order; each restriction that is given must hold.

    ids       patterns, any of which may match: `*` is any text, `?` any character. A pattern matches a whole id, or
              all of it before the matrix values, or the file alone: `window.yaml`, `window.yaml::edges`. What stands
              behind `@` is set in the cases that match: `window.yaml::edges:window=3@head_dim=128`
    keyword   words, each to be found in the id or among the tags, with `and`, `or`, `not` and parentheses
    tags      any of which the scenario must have

    Raises ScenarioErrors for an id without wildcards that no case has, a tag that no scenario has, a `keyword` that
    cannot be read, and for what `override` raises.
    """
    _refuse_unknown(scenarios, ids, tags)
    expression = parse(keyword) if keyword.strip() else None
    wanted = [one for one in scenarios if _is_wanted(one, expression, tags)]
    return tuple(_identified(wanted, ids, memory_limit)) if ids else tuple(wanted)


def matches(pattern: str, address: str) -> bool:
    """Whether an id pattern means the case at `address`."""
    regex = wildcards(pattern)
    return any(regex.fullmatch(name) for name in _names(address))


def _names(address: str) -> tuple[str, str, str]:
    """What a case may be called by: its id, its scenario, its file."""
    file, _, rest = address.partition("::")
    return address, f"{file}::{rest.partition(':')[0]}", file


def wildcards(pattern: str) -> re.Pattern[str]:
    """`pattern` as a regular expression: `*` is any text, `?` any character, and nothing else is special."""
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(char) or re.escape(char) for char in pattern), re.DOTALL)


def _is_wanted(one: Scenario, expression: Expression | None, tags: Sequence[str]) -> bool:
    text = "\n".join((one.id, *one.tags)).lower()
    return (expression is None or expression.holds(text)) and (not tags or not set(tags).isdisjoint(one.tags))


def _identified(scenarios: Iterable[Scenario], ids: Sequence[str], memory_limit: int) -> Iterable[Scenario]:
    split = [pattern.partition(SET) for pattern in ids]
    for one in scenarios:
        settings = dict.fromkeys(setting for pattern, _, setting in split if matches(pattern, one.id))
        for setting in settings:
            yield override(one, setting, memory_limit) if setting else one


def _refuse_unknown(scenarios: Sequence[Scenario], ids: Sequence[str], tags: Sequence[str]) -> None:
    mistakes = []
    known_names = dict.fromkeys(name for one in scenarios for name in _names(one.id))
    for pattern in ids:
        plain = pattern.partition(SET)[0]
        if not set("*?") & set(plain) and not any(matches(plain, one.id) for one in scenarios):
            hint = nearest(plain, known_names) or "`attncheck run --list` shows every id; `*` and `?` are wildcards"
            mistakes.append(Diagnostic(Mistake.NO_SUCH_CASE, shown(plain, 200), 0, 0, "no case has this id", hint))
    known = sorted({tag for one in scenarios for tag in one.tags})
    for tag in tags:
        if tag not in known:
            hint = nearest(tag, known) or (
                f"tags here: {', '.join(known)}" if known else "these scenarios have no tags"
            )
            mistakes.append(
                Diagnostic(
                    Mistake.NO_SUCH_TAG, "--tag", 1, 1, f"no scenario has the tag `{shown(tag)}`", hint, tag, len(tag)
                )
            )
    if mistakes:
        raise ScenarioErrors(mistakes)
