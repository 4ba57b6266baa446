"""Which combinations of the swept values become cases: the few of a pairwise matrix, under the language's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from attncheck.scenario.axes import AXES, spell
from attncheck.scenario.complete import Rule, Value
from attncheck.scenario.nodes import Node
from attncheck.scenario.pairwise import Constraint, covering
from attncheck.scenario.possible import rules
from attncheck.scenario.resolve import complete, value_of

Settings = Mapping[str, tuple[Node, ...]]
"""The values of each axis: one where it is written once, several where it is swept."""


@dataclass(frozen=True)
class Pairs:
    """Combinations in which every two values meet that can, in the order of a product; and what none of them has."""

    combinations: tuple[tuple[Node, ...], ...]
    unusable: tuple[tuple[str, Node], ...]


def pairs(settings: Settings, patterns: Sequence[Node], memory_limit: int) -> Pairs:
    """The pairwise combinations of `settings` that break no rule and that no exclude pattern matches.

    Combinations hold a node for each axis, in the order of `settings`. Every node must hold a usable value.
    """
    swept = [axis for axis, nodes in settings.items() if len(nodes) > 1]
    ruled = [_ruled(group, axes, settings) for axes, group in _by_axes(swept, memory_limit).items()]
    excluded = [_excluded(pattern, settings) for pattern in patterns]
    found = covering([len(settings[axis]) for axis in swept], [*ruled, *excluded])
    combinations = []
    for row in found.rows:
        chosen = dict(zip(swept, row, strict=True))
        combinations.append(tuple(nodes[chosen.get(axis, 0)] for axis, nodes in settings.items()))
    unusable = tuple((swept[factor], settings[swept[factor]][value]) for factor, value in found.unusable)
    return Pairs(tuple(combinations), unusable)


def matches(pattern: Node, assigned: Mapping[str, Node]) -> bool:
    """Whether every axis of an exclude `pattern` has its value in `assigned`, an axis left out having its default."""
    for entry in pattern.entries():
        axis = entry.key.text
        held = assigned[axis].plain() if axis in assigned else AXES[axis].default
        if spell(held) != spell(entry.value.plain()):
            return False
    return True


def can_match(pattern: Node, settings: Settings) -> bool:
    """Whether some combination of `settings` matches an exclude `pattern`."""
    held = {axis: {spell(node.plain()) for node in nodes} for axis, nodes in settings.items()}
    return all(
        spell(entry.value.plain()) in held.get(entry.key.text, {spell(AXES[entry.key.text].default)})
        for entry in pattern.entries()
    )


def _by_axes(swept: Sequence[str], memory_limit: int) -> Mapping[frozenset[str], Sequence[Rule]]:
    """The rules by those of the swept axes that they look at: one question for all that hang on the same values."""
    groups: dict[frozenset[str], list[Rule]] = {}
    for needs, rule in rules(memory_limit):
        groups.setdefault(needs.intersection(swept), []).append(rule)
    return groups


def _ruled(group: Sequence[Rule], axes: frozenset[str], settings: Settings) -> Constraint:
    """That no rule of a group is broken. Of those swept they look at `axes` alone: others may have any value."""
    values = {axis: [value_of(node) for node in nodes] for axis, nodes in settings.items()}
    anywhere = {axis: choice[0] for axis, choice in values.items()}

    def allows(assigned: Mapping[str, int]) -> bool:
        chosen: Mapping[str, Value] = {axis: values[axis][value] for axis, value in assigned.items()}
        case = complete({**anywhere, **chosen})
        return not any(any(rule(case)) for rule in group)

    return _constraint(axes, settings, allows)


def _excluded(pattern: Node, settings: Settings) -> Constraint:
    """That a pattern does not match."""
    named = frozenset(entry.key.text for entry in pattern.entries())
    anywhere = {axis: nodes[0] for axis, nodes in settings.items()}

    def allows(assigned: Mapping[str, int]) -> bool:
        chosen = {axis: settings[axis][value] for axis, value in assigned.items()}
        return not matches(pattern, {**anywhere, **chosen})

    return _constraint(named, settings, allows)


def _constraint(axes: frozenset[str], settings: Settings, allows: Callable[[Mapping[str, int]], bool]) -> Constraint:
    """What `allows` says of a value for each of `axes` that is swept."""
    swept = (axis for axis, nodes in settings.items() if len(nodes) > 1)
    scope = tuple((factor, axis) for factor, axis in enumerate(swept) if axis in axes)

    def of_values(values: tuple[int, ...]) -> bool:
        return allows({axis: value for (_, axis), value in zip(scope, values, strict=True)})

    return Constraint(tuple(factor for factor, _ in scope), of_values)
