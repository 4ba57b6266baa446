"""Cases without a file: `--case 'op=gqa q_len=4'` and `--set 'head_dim=128'`.

Assignments are `axis=value`, separated by blanks or commas; a list over the batch is written `3+1+5`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attncheck.scenario import steps
from attncheck.scenario.axes import AXES, spell
from attncheck.scenario.complete import Value
from attncheck.scenario.diagnostics import Diagnostic, Mistake, ScenarioErrors, nearest, shown
from attncheck.scenario.memory import DEFAULT_LIMIT
from attncheck.scenario.model import Scenario, Source
from attncheck.scenario.nodes import Document, Entry, Node, scalar
from attncheck.scenario.nodes import Mapping as Entries
from attncheck.scenario.possible import impossibilities
from attncheck.scenario.resolve import complete, scenario, value_of
from attncheck.scenario.values import NumberList, PerBatch, Steps

_ASSIGNMENT = re.compile(r"[^\s,]+")
CASE = "case::"
"""What the ids of cases from `--case` begin with; `from_command_line` takes the rest back."""
SET = "@"
"""What stands in an id between the case and what `--set` changed in it."""


def from_command_line(text: str, memory_limit: int = DEFAULT_LIMIT) -> Scenario:
    """The case that `--case TEXT` means, with the id `case::op=gqa,q_len=4`.

    Raises ScenarioErrors with every mistake, the file being `--case` and columns counted in `text`.
    """
    written = _assignments("--case", text)
    values = _checked(written, {}, memory_limit)
    return scenario(
        complete(values),
        address=CASE + ",".join(f"{axis}={spell(value)}" for axis, value in values.items()),
        source=Source("--case", 1),
        written=values,
    )


def override(case: Scenario, text: str, memory_limit: int = DEFAULT_LIMIT) -> Scenario:
    """`case` with some axes changed: those in `text` replace what was written, defaults follow anew.

    The id gets what was changed as a suffix, `window.yaml::edges:window=3@head_dim=128`, which `select` understands.
    Raises ScenarioErrors as `from_command_line` does, the file being `--set`.
    """
    written = _assignments("--set", text)
    values = _checked(written, assigned(case), memory_limit, case.id)
    changed = ",".join(f"{axis}={spell(value)}" for axis, value in values.items() if axis in _axes(written))
    address, _, earlier = case.id.partition(SET)
    changed = ",".join(filter(None, (_without(earlier, _axes(written)), changed)))
    return replace(
        scenario(complete(values), address=f"{address}{SET}{changed}", source=case.source, written=values),
        tolerance=case.tolerance,
        tags=case.tags,
        about=case.about,
    )


def refuse_beyond(case: Scenario, memory_limit: int) -> None:
    """Raise ScenarioErrors for a case that would take more memory, as the loader does for every other."""
    mistakes = [
        Diagnostic(it.kind, case.source.file, case.source.line, 1, f"{it.message} (in the case {case.id})", it.hint)
        for it in impossibilities(complete(assigned(case)), frozenset(), memory_limit)
    ]
    if mistakes:
        raise ScenarioErrors(mistakes)


def assigned(case: Scenario) -> dict[str, Value]:
    """The axes that somebody wrote, with their values."""
    return {axis: value_of(_value(axis, spelled, 0)) for axis, spelled in case.written}


def command_line(case: Scenario) -> str:
    """What `--case` takes to make `case` again, its file forgotten: `op=gqa q_len=4`."""
    return " ".join(f"{axis}={value}" for axis, value in case.written)


def _without(assignments: str, axes: frozenset[str]) -> str:
    kept = (one for one in assignments.split(",") if one.partition("=")[0] not in axes)
    return ",".join(kept)


def _assignments(option: str, text: str) -> Document:
    """`text` as a mapping of axes to values, with the mistakes of what is not `axis=value`."""
    document = Document(option, (text,))
    mistakes = []
    entries: dict[str, Entry] = {}
    for token in _ASSIGNMENT.finditer(text):
        axis, equals, spelled = token.group().partition("=")
        key = Node(1, token.start() + 1, axis, axis, max(1, len(axis)))
        if not equals or not axis or not spelled:
            whole = Node(1, token.start() + 1, token.group(), token.group(), len(token.group()))
            hint = nearest(axis, AXES) if axis not in AXES else ""
            message = f"`{shown(token.group())}` is not axis=value"
            hint = hint or "write it without blanks around the `=`, like q_len=4; lists as 3+1+5"
            mistakes.append(document.mistake(Mistake.ASSIGNMENT, whole, message, hint))
        elif axis in entries:
            message = f"`{axis}` is given twice"
            mistakes.append(document.mistake(Mistake.DUPLICATE_KEY, key, message, "keep one of them"))
        else:
            entries[axis] = Entry(key, _value(axis, spelled, token.start() + len(axis) + 1))
    if not entries and not mistakes:
        blank = Node(1, 1, "", None)
        mistakes.append(
            document.mistake(Mistake.ASSIGNMENT, blank, "no axis is given", "write axis=value, like q_len=4")
        )
    return replace(document, root=Node(1, 1, "", Entries(tuple(entries.values()))), mistakes=tuple(mistakes))


def _value(axis: str, spelled: str, offset: int) -> Node:
    """The node of one spelled value that begins `offset` characters into the text."""
    if axis in AXES and isinstance(AXES[axis].values, PerBatch | NumberList) and "+" in spelled:
        items = []
        for part in spelled.split("+"):
            items.append(Node(1, offset + 1, part, scalar(part), max(1, len(part))))
            offset += len(part) + 1
        return Node(1, items[0].column, "", tuple(items), len(spelled))
    if axis in AXES and isinstance(AXES[axis].values, Steps):
        return _steps(spelled, offset)
    return Node(1, offset + 1, spelled, scalar(spelled), len(spelled))


def _steps(spelled: str, offset: int) -> Node:
    """The steps of a session, each at its place; one text where they cannot be read."""
    parts = steps.parsed(spelled)
    if parts is None:
        return Node(1, offset + 1, spelled, spelled, len(spelled))
    items = []
    for text, plain in zip(spelled.split("-"), parts, strict=True):
        items.append(_mapping(plain, offset + 1, len(text)))
        offset += len(text) + 1
    return Node(1, items[0].column, "", tuple(items), len(spelled))


def _mapping(plain: Mapping[str, Any], column: int, width: int) -> Node:
    """A mapping of scalars and lists of numbers, all of it at one place."""

    def node(value: object) -> Node:
        if isinstance(value, list):
            return Node(1, column, "", tuple(node(item) for item in value), width)
        return Node(1, column, str(value), value, width)  # type: ignore[arg-type]

    return Node(1, column, "", Entries(tuple(Entry(node(key), node(value)) for key, value in plain.items())), width)


def _axes(document: Document) -> frozenset[str]:
    assert document.root is not None
    return frozenset(entry.key.text for entry in document.root.entries())


def _with_form(mistake: Diagnostic, root: Node) -> Diagnostic:
    """A mistake in the value of an axis that takes a list, with how one is written here, where nothing else is said."""
    lists = [
        entry.value
        for entry in root.entries()
        if entry.key.text in AXES and isinstance(AXES[entry.key.text].values, PerBatch | NumberList)
    ]
    inside = any(node.column <= mistake.column < node.column + node.width for node in lists)
    return replace(mistake, hint="a list is written 3+1+5") if inside and not mistake.hint else mistake


def _checked(document: Document, before: Mapping[str, Value], memory_limit: int, case: str = "") -> dict[str, Value]:
    """The values of `document` over those of `before`. Raises ScenarioErrors for every mistake."""
    from attncheck.scenario.findings import check
    from attncheck.scenario.language import Assignments

    root = document.root
    assert root is not None
    checked = check(document, root, Assignments)
    mistakes = [*document.mistakes, *(_with_form(it, root) for it in checked.mistakes)]
    nodes = {entry.key.text: entry.value for entry in root.entries() if entry.key not in checked.unusable}
    broken = frozenset(axis for axis, node in nodes.items() if not checked.unusable.isdisjoint(node.within()))
    values = {**before, **{axis: value_of(node) for axis, node in nodes.items() if axis not in broken}}
    for impossible in impossibilities(complete(values), broken, memory_limit):
        place = next((nodes[axis] for axis in impossible.axes if axis in nodes), root)
        message = f"{impossible.message} (in the case {case})" if case else impossible.message
        mistakes.append(document.mistake(impossible.kind, place, message, impossible.hint))
    if mistakes:
        raise ScenarioErrors(sorted(mistakes, key=lambda mistake: mistake.column))
    return values
