"""One file's tree into its cases: defaults, matrix, exclude, ids, and every mistake on the way."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from attncheck.scenario.axes import AXES, spell
from attncheck.scenario.combinations import can_match, matches, pairs
from attncheck.scenario.diagnostics import Diagnostic, Mistake, shown
from attncheck.scenario.model import Scenario, Source, Tolerance
from attncheck.scenario.nodes import Document, Node
from attncheck.scenario.possible import impossibilities
from attncheck.scenario.resolve import complete, scenario, value_of
from attncheck.scenario.select import BENCH

CASE_LIMIT = 10_000
PAIRWISE_LIMIT = 1_000
"""Of cases that a pairwise matrix must have at least: finding few for many values takes long."""
PAIRWISE = "pairwise"
DEFAULT = "default"
"""Ends the id of a pairwise case in which every axis that is swept has its default."""


@dataclass(frozen=True)
class Setting:
    """What one axis is set to: one value, or several where the matrix sweeps it."""

    nodes: tuple[Node, ...]
    swept: bool


@dataclass
class Mistakes:
    """Mistakes of one file: one of each kind at a place, however many cases run into it."""

    document: Document
    found: dict[tuple[Node, Mistake], Diagnostic] = field(default_factory=dict)

    def add(self, kind: Mistake, node: Node, message: str, hint: str = "") -> None:
        """Note a mistake, unless one of its kind stands at `node` already."""
        self.found.setdefault((node, kind), self.document.mistake(kind, node, message, hint))


class Expansion:
    """Expands the scenarios of one file. `unusable` are nodes whose mistake is known already."""

    def __init__(self, document: Document, address: str, unusable: frozenset[Node], memory_limit: int) -> None:
        self.document = document
        self.address = address
        self.unusable = unusable
        self.memory_limit = memory_limit
        self.mistakes = Mistakes(document)
        self.excluded: dict[Node, int] = {}

    def cases(self) -> Iterator[Scenario]:
        """Every case that can be, in file order; afterwards `mistakes` is complete."""
        root = self.document.root
        assert root is not None
        defaults = root.get("defaults") or Node(0, 0, "", None)
        listed = root.get("scenarios")
        names: dict[str, Node] = {}
        for entry in listed.items() if listed else ():
            name = entry.get("name")
            if name is not None and name not in self.unusable:
                first = names.setdefault(name.text, name)
                if first is not name:
                    message = f"a second scenario `{shown(name.text)}`, first on line {first.line}"
                    self.mistakes.add(Mistake.DUPLICATE_ID, name, message, "their cases would have the same ids")
                    continue
            yield from self._scenario(defaults, entry)
        for pattern, count in self.excluded.items():
            if not count:
                message = "this exclude matches no case of the matrix"
                self.mistakes.add(Mistake.EXCLUDES_NOTHING, pattern, message, "correct a value, or remove it")

    def _scenario(self, defaults: Node, entry: Node) -> Iterator[Scenario]:
        settings = self._settings(defaults) | {}
        for axis, setting in self._settings(entry).items():
            settings.pop(axis, None)
            settings[axis] = setting
        swept = [axis for axis, setting in settings.items() if setting.swept]
        pairwise = _mode(entry) == PAIRWISE or (_mode(entry) is None and _mode(defaults) == PAIRWISE)
        if self._are_too_many(entry, [len(settings[axis].nodes) for axis in swept], pairwise=pairwise):
            return
        patterns = [*self._patterns(defaults), *self._patterns(entry)]
        ending = _telling if pairwise else _listed
        for nodes in (self._pairs if pairwise else self._product)(entry, settings, patterns):
            assigned = dict(zip(settings, nodes, strict=True))
            spelt = {axis: spell(assigned[axis].plain()) for axis in swept}
            yield from self._case(defaults, entry, assigned, _listed(spelt), ending(spelt))

    def _are_too_many(self, entry: Node, sizes: list[int], *, pairwise: bool) -> bool:
        """Whether the matrix makes more cases than there may be; pairwise, every two values of two axes must meet."""
        factors = sorted(sizes, reverse=True)[:2] if pairwise else sizes
        number, limit = prod(factors), PAIRWISE_LIMIT if pairwise else CASE_LIMIT
        if number > limit:
            least = "at least " if pairwise else ""
            message = f"this matrix has {least}{' x '.join(map(str, factors))} = {number:,} cases, more than {limit:,}"
            hint = "give these axes fewer values" if pairwise else "sweep fewer axes at once, or add `mode: pairwise`"
            self.mistakes.add(Mistake.TOO_MANY_CASES, entry.get("matrix") or entry, message, hint)
        return number > limit

    def _product(
        self, entry: Node, settings: Mapping[str, Setting], patterns: list[Node]
    ) -> Iterator[tuple[Node, ...]]:
        """Every combination that is not excluded."""
        kept = 0
        for nodes in product(*(setting.nodes for setting in settings.values())):
            if not self._is_excluded(dict(zip(settings, nodes, strict=True)), patterns):
                kept += 1
                yield nodes
        if not kept:
            self._exclude_all(entry, patterns)

    def _pairs(
        self, entry: Node, settings: Mapping[str, Setting], patterns: list[Node]
    ) -> Iterator[tuple[Node, ...]]:
        """The combinations of a pairwise matrix; a value that none of them has is a mistake."""
        usable = {axis: tuple(it for it in one.nodes if not self._broken(it)) for axis, one in settings.items()}
        if not all(usable.values()):
            return
        for pattern in patterns:
            self.excluded[pattern] += can_match(pattern, usable)
        found = pairs(usable, patterns, self.memory_limit)
        yield from found.combinations
        if not found.combinations:
            anything = tuple(nodes[0] for nodes in usable.values())
            if any(matches(pattern, dict(zip(usable, anything, strict=True))) for pattern in patterns):
                self._exclude_all(entry, patterns)
            else:
                yield anything  # says which rule it breaks
            return
        rows = [dict(zip(usable, nodes, strict=True)) for nodes in found.combinations]
        for axis, node in found.unusable:
            message = f"`{axis}: {spell(node.plain())}` can be in no case of this pairwise matrix"
            reason = self._reason([row | {axis: node} for row in rows]) or "an exclude entry leaves it out"
            self.mistakes.add(Mistake.UNUSABLE, node, message, reason)

    def _reason(self, rows: Sequence[Mapping[str, Node]]) -> str:
        """The rule that most of these combinations break; none where one of them breaks none."""
        cases = [complete({axis: value_of(node) for axis, node in row.items()}) for row in rows]
        broken = [[*impossibilities(case, frozenset(), self.memory_limit)] for case in cases]
        messages = Counter(one.message for of_case in broken for one in of_case)
        return messages.most_common(1)[0][0] if all(broken) else ""

    def _exclude_all(self, entry: Node, patterns: list[Node]) -> None:
        place = patterns[0] if patterns else entry
        self.mistakes.add(Mistake.EXCLUDES_ALL, place, "the exclude entries leave no case", "exclude less")

    def _settings(self, mapping: Node) -> dict[str, Setting]:
        """The axes that a scenario, or the defaults, set: directly and by matrix, in file order."""
        settings: dict[str, Setting] = {}
        for entry in mapping.entries():
            if entry.key.text == "matrix":
                settings |= self._sweeps(mapping, entry.value)
            elif entry.key.text in AXES:
                settings.setdefault(entry.key.text, Setting((entry.value,), swept=False))
        return settings

    def _sweeps(self, mapping: Node, matrix: Node) -> dict[str, Setting]:
        settings: dict[str, Setting] = {}
        if not _sweeps_any(matrix) and matrix not in self.unusable:
            self.mistakes.add(Mistake.EMPTY_MATRIX, matrix, "this matrix sweeps no axis", "name an axis, or remove it")
        for entry in matrix.entries():
            axis, nodes = entry.key.text, self._distinct(entry.key.text, entry.value)
            if axis not in AXES or not nodes:
                continue
            if mapping.get(axis) is not None:
                message = f"`{axis}` has a value in the scenario and is swept in its matrix"
                self.mistakes.add(Mistake.SAID_TWICE, entry.key, message, "keep one of the two")
            settings[axis] = Setting(nodes, swept=True)
        return settings

    def _distinct(self, axis: str, values: Node) -> tuple[Node, ...]:
        spellings: dict[str, Node] = {}
        for node in values.items():
            spelling = spell(node.plain())
            if spelling in spellings and not self._broken(node):
                message = f"`{axis}` is {shown(spelling)} twice: two cases would have one id"
                self.mistakes.add(Mistake.DUPLICATE_ID, node, message, "keep one of them")
            spellings.setdefault(spelling, node)
        return tuple(spellings.values())

    def _patterns(self, mapping: Node) -> tuple[Node, ...]:
        matrix = mapping.get("matrix")
        exclude = matrix.get("exclude") if matrix and _sweeps_any(matrix) else None
        usable = tuple(item for item in exclude.items() if not self._broken(item)) if exclude else ()
        for pattern in usable:
            self.excluded.setdefault(pattern, 0)
        return usable

    def _is_excluded(self, assigned: Mapping[str, Node], patterns: list[Node]) -> bool:
        matching = [pattern for pattern in patterns if matches(pattern, assigned)]
        for pattern in matching:
            self.excluded[pattern] += 1
        return bool(matching)

    def _case(
        self, defaults: Node, entry: Node, assigned: Mapping[str, Node], combination: str, ending: str
    ) -> Iterator[Scenario]:
        """The case that has the values `assigned`, unless it cannot be; `ending` is what its id has of them."""
        broken = frozenset(axis for axis, node in assigned.items() if self._broken(node))
        values = {axis: value_of(node) for axis, node in assigned.items() if axis not in broken}
        case = complete(values)
        possible = not broken
        tags = _tags(defaults.get("tags"), entry.get("tags"))
        # Of the cases that are there to be timed some fit on few machines: whoever takes one looks at what it takes.
        limit = sys.maxsize if BENCH in tags else self.memory_limit
        for impossible in impossibilities(case, broken, limit):
            possible = False
            place = next((assigned[axis] for axis in impossible.axes if axis in assigned), entry.get("name") or entry)
            message = f"{impossible.message} (in the case {combination})" if combination else impossible.message
            self.mistakes.add(impossible.kind, place, message, impossible.hint)
        name = entry.get("name")
        if not possible or name is None:
            return
        yield scenario(
            case,
            address=f"{self.address}::{name.text}" + (f":{ending}" if ending else ""),
            source=Source(self.document.file, entry.line),
            written=values,
            tolerance=_tolerance(entry.get("tolerance") or defaults.get("tolerance")),
            tags=tags,
            about=_about(entry.get("about") or defaults.get("about")),
        )

    def _broken(self, node: Node) -> bool:
        return not self.unusable.isdisjoint(node.within())


def _listed(spelt: Mapping[str, str]) -> str:
    """The values that a case has of the axes swept, for its id."""
    return ",".join(f"{axis}={value}" for axis, value in spelt.items())


def _telling(spelt: Mapping[str, str]) -> str:
    """As `_listed`, for one of many axes: those that have their default are left out."""
    return _listed({axis: value for axis, value in spelt.items() if value != spell(AXES[axis].default)}) or DEFAULT


def _sweeps_any(matrix: Node) -> bool:
    return any(entry.key.text in AXES for entry in matrix.entries())


def _mode(mapping: Node) -> str | None:
    matrix = mapping.get("matrix")
    mode = matrix.get("mode") if matrix else None
    return mode.text if mode else None


def _tolerance(node: Node | None) -> dict[str, Tolerance]:
    if node is None:
        return {}
    everywhere = node.get("max_abs")
    bounds = {"*": everywhere} if everywhere else {e.key.text: e.value.get("max_abs") for e in node.entries()}
    return {
        backend: Tolerance(float(bound.value))
        for backend, bound in bounds.items()
        if bound is not None and isinstance(bound.value, (int, float))
    }


def _tags(*lists: Node | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.text for node in lists if node for item in node.items()))


def _about(node: Node | None) -> str:
    return " ".join(node.text.split()) if node else ""
