"""A candidate: a case as axis values, defaults left out, so that one case has one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from attncheck.graph.session import session
from attncheck.scenario.axes import AXES, spell
from attncheck.scenario.command_line import CASE, assigned
from attncheck.scenario.complete import LENGTHS, Complete, Value
from attncheck.scenario.memory import DEFAULT_LIMIT
from attncheck.scenario.model import Scenario, Source
from attncheck.scenario.possible import impossibilities
from attncheck.scenario.resolve import complete, scenario
from attncheck.scenario.values import NumberList, PerBatch

KEPT = ("op", "kernel")
"""Axes that say what is under test: no candidate changes them."""

_NOWHERE = Source("minimize", 0)


@dataclass(frozen=True)
class Candidate:
    """Axis values in the order of the table; `like` is the start, whose tolerance and name go along.

    Two candidates are equal where they are the same case.
    """

    axes: tuple[tuple[str, Value], ...]
    like: Scenario

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Candidate) and self.axes == other.axes

    def __hash__(self) -> int:
        return hash(self.axes)

    @cached_property
    def written(self) -> dict[str, Value]:
        """The axes that stand in it, by name."""
        return dict(self.axes)

    @cached_property
    def complete(self) -> Complete:
        """Every axis, defaults filled in."""
        return complete(self.written)

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario that an engine takes. Only of a possible candidate."""
        made = scenario(self.complete, address=f"{CASE}{self.text}", source=_NOWHERE, written=self.written)
        return replace(made, tolerance=self.like.tolerance, about=self.like.about)

    @cached_property
    def content(self) -> tuple[str, int]:
        """The digest of what is run, and how many inputs its largest graph has. The arrays themselves are not kept."""
        whole = session(self.scenario)
        return whole.digest, max(len(case.inputs) for case in whole.cases)

    @cached_property
    def text(self) -> str:
        """What `--case` takes to make it again."""
        return ",".join(f"{axis}={spell(value)}" for axis, value in self.axes)

    def value(self, axis: str) -> Any:
        """The value of an axis, written or not; None where nothing says it."""
        return self.complete.values.get(axis)

    def with_(self, changes: Mapping[str, Value | None]) -> Candidate | None:
        """This candidate with some axes changed, None meaning the default; None where that cannot be.

        What a change makes impossible and a default would make possible again is brought to it: `holes` go with the
        mask that they are in, and a `rotary_cache` that has become too short follows the lengths.
        """
        values = {**self.written, **changes}
        found = _normal({axis: value for axis, value in values.items() if value is not None}, self.like)
        while found is not None:
            broken = next(impossibilities(found.complete, frozenset(), DEFAULT_LIMIT), None)
            if broken is None:
                return None if found == self else found
            kept = {*KEPT, *(axis for axis, value in changes.items() if value is not None)}
            loose = next((axis for axis in broken.axes if axis in found.written and axis not in kept), None)
            if loose is None:
                return None
            found = _normal({axis: value for axis, value in found.axes if axis != loose}, self.like)
        return None


def start(case: Scenario) -> Candidate:
    """The candidate that a scenario is."""
    found = _normal({"op": case.op, **assigned(case)}, case)
    assert found is not None, "a scenario is a possible case"
    return found


def of_text(text: str, like: Scenario) -> Candidate:
    """The candidate that `Candidate.text` was taken from. Raises ScenarioErrors."""
    from attncheck.scenario.command_line import from_command_line

    found = _normal(assigned(from_command_line(text)), like)
    assert found is not None, "what loads is possible"
    return found


def _normal(values: Mapping[str, Value], like: Scenario) -> Candidate | None:
    """The one form: lists of one length as that length, and nothing said that follows without."""
    batch = complete(values).batch
    lists = [value for axis in LENGTHS if isinstance(value := values.get(axis), tuple)]
    if any(len(one) != batch for one in lists):
        return None
    plain = {axis: _plain(axis, value) for axis, value in values.items()} | {"batch": batch}
    for axis in sorted(plain, key=lambda axis: axis != "batch"):
        without = {other: value for other, value in plain.items() if other != axis}
        if axis not in KEPT and complete(without).values == complete(plain).values:
            plain = without
    return Candidate(tuple((axis, plain[axis]) for axis in AXES if axis in plain), like)


def _plain(axis: str, value: Value) -> Value:
    """A list of one number over and over as that number."""
    alike = isinstance(value, tuple) and isinstance(AXES[axis].values, PerBatch | NumberList) and len(set(value)) == 1
    return cast("tuple[int, ...]", value)[0] if alike else value
