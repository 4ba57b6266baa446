"""What pydantic finds wrong, in the house's words and at its place in the text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from attncheck.scenario.axes import AXES
from attncheck.scenario.diagnostics import Diagnostic, Mistake, nearest, shown
from attncheck.scenario.keys import KEYS, MODES
from attncheck.scenario.language import Defaults, ScenarioEntry
from attncheck.scenario.nodes import Document, Node, scalar
from attncheck.scenario.values import INT32, Boolean, Broadcast, Choice, PerBatch

Path = tuple[int | str, ...]
"""Keys and list positions from the root of a tree to a node."""


@dataclass(frozen=True)
class Checked:
    """What the models say of a tree: the mistakes, and the nodes that hold no usable value."""

    mistakes: tuple[Diagnostic, ...]
    unusable: frozenset[Node]


def check(document: Document, root: Node, model: type[BaseModel]) -> Checked:
    """Hold `root` against `model`; every mistake comes back, once a place."""
    try:
        model.model_validate(root.plain())
    except ValidationError as error:
        found = dict(_findings(document, root, model, error.errors(include_url=False)))
        return Checked(tuple(found.values()), frozenset(found))
    return Checked((), frozenset())


def _findings(
    document: Document, root: Node, model: type[BaseModel], errors: list[ErrorDetails]
) -> Iterator[tuple[Node, Diagnostic]]:
    seen: set[Node] = set()
    for error in errors:
        node, path = _walk(root, error["loc"])
        if error["type"] == "extra_forbidden":
            yield from _unknown(document, root, path, model)
            continue
        if node in seen or node in document.unusable or _misspelt(node, error):
            continue
        seen.add(node)
        yield node, _finding(document, node, path, error)


def _misspelt(node: Node, error: ErrorDetails) -> bool:
    """Whether a missing key is there with a typing error, which is reported as an unknown key."""
    if error["type"] != "missing":
        return False
    wanted = str(error["loc"][-1])
    return any(nearest(entry.key.text, (wanted,)) for entry in node.entries())


def _walk(root: Node, location: Path) -> tuple[Node, Path]:
    """Follow pydantic's location as far as it is real: names of union branches lead nowhere and are passed over."""
    node, path = root, []
    for step in location:
        below = node.get(step) if isinstance(step, str) else next(iter(node.items()[step:]), None)
        if below is not None:
            node = below
            path.append(step)
    return node, tuple(path)


def _unknown(document: Document, root: Node, path: Path, model: type[BaseModel]) -> Iterator[tuple[Node, Diagnostic]]:
    """A key that the mapping around it does not have. `path` leads to its value."""
    parent, _ = _walk(root, path[:-1])
    entry = next(entry for entry in parent.entries() if entry.key.text == path[-1])
    allowed = _allowed_keys(model, path[:-1])
    word = entry.key.text
    where = next((f" in `{step}`" for step in reversed(path[:-1]) if step in _NARROW), "")
    noun = "axis" if set(allowed) <= {*AXES, "mode", "exclude"} else "key"
    misplaced = "scenarios" in allowed and word in (*KEYS, *AXES)
    hint = "it belongs under `defaults`, or into a scenario" if misplaced else nearest(word, allowed)
    message = f"unknown {noun} `{shown(word)}`{where}"
    yield entry.key, document.mistake(Mistake.UNKNOWN_KEY, entry.key, message, hint or f"allowed: {', '.join(allowed)}")


STEP = ("q_len", "repeat", "accept", "refused", "label")
"""The keys of a step."""
_NARROW = ("steps", "tolerance", "exclude", "matrix")
"""Keys that hold a mapping with keys of its own."""


def _allowed_keys(model: type[BaseModel], path: Path) -> tuple[str, ...]:
    """The keys that may stand in the mapping at `path`."""
    names = [step for step in path if isinstance(step, str)]
    if "steps" in names:
        return STEP
    if "exclude" in names:
        return tuple(AXES)
    if "matrix" in names:
        return (*AXES, "mode", "exclude")
    if "tolerance" in names:
        return ("max_abs",)
    inner: dict[str, type[BaseModel]] = {"scenarios": ScenarioEntry, "defaults": Defaults}
    fields = (inner[names[0]] if names else model).model_fields
    return tuple(key for key in (*KEYS, *AXES) if key in fields)


def _subject(path: Path) -> str:
    """The key that a path is about."""
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def _finding(document: Document, node: Node, path: Path, error: ErrorDetails) -> Diagnostic:
    subject = _subject(path)
    if error["type"] == "missing":
        wanted = str(error["loc"][-1])
        where = {"name": "a scenario without a `name`", "scenarios": "a file without `scenarios`"}
        where |= {"q_len": "a step without `q_len`"}
        message = where.get(wanted, f"`{subject}` without `{wanted}`")
        return document.mistake(Mistake.MISSING_KEY, node, message, f"`{wanted}` is {_allowed(wanted)}")
    if error["type"] == "too_short" and subject == "scenarios":
        return document.mistake(
            Mistake.EMPTY_FILE, node, "no scenarios: the list is empty", "add one, or delete the file"
        )
    swept = len(path) >= 2 and path[-2] == "matrix" and subject in AXES
    if error["type"] == "too_short" and swept:
        hint = "give it a value, or remove the axis from the matrix"
        return document.mistake(Mistake.EMPTY_MATRIX, node, f"`{subject}` is swept over no value", hint)
    return document.mistake(Mistake.BAD_VALUE, node, *_bad_value(node, path, subject, swept))


def _bad_value(node: Node, path: Path, subject: str, swept: bool) -> tuple[str, str]:
    """Message and hint for a value that is not allowed."""
    if node.value is None and path and path[-1] == subject:
        return f"`{subject}` has no value: it must be {_allowed(subject)}", "give it one, or remove the key"
    if not subject:
        return f"a scenario file is a mapping with the keys `defaults` and `scenarios`, not {node.described()}", ""
    if swept:
        return (
            f"`{subject}` in a matrix must be a list of values, not {node.described()}",
            f"write [{shown(node.text)}]",
        )
    if subject in AXES:
        values = AXES[subject].values
        words = values.words if isinstance(values, (Choice, Broadcast)) else (getattr(values, "word", None) or "",)
        allowed, hint = values.allowed, nearest(node.text, words)
    elif path[-1:] != (subject,) and subject in ("scenarios", "exclude"):
        allowed, hint = f"one of {KEYS[subject].allowed}", ""
        return f"an entry of `{subject}` must be a mapping, not {node.described()}", hint
    else:
        allowed, hint = _allowed(subject), nearest(node.text, MODES) if subject == "mode" else ""
    return f"`{subject}` must be {allowed}, not {node.described()}", hint or _spelling(node, subject)


def _allowed(subject: str) -> str:
    """What may stand under a key; a name that is no key is that of a backend."""
    if subject in AXES:
        return AXES[subject].values.allowed
    return KEYS[subject].allowed if subject in KEYS else "{max_abs: NUMBER}"


def _spelling(node: Node, subject: str) -> str:
    """A hint for values that YAML 1.2 reads otherwise than meant, and for integers that no operator could hold."""
    boolean = subject in AXES and isinstance(AXES[subject].values, Boolean)
    if boolean and node.text.lower() in ("yes", "no", "on", "off"):
        return f"YAML 1.2 has no `{node.text}`: write `true` or `false`"
    if subject in ("name", "about", "tags") and isinstance(node.value, (int, float)):
        return f'quote it: "{shown(node.text)}"'
    if subject not in AXES:
        return ""
    if isinstance(node.value, str) and _numeric(node.text):
        return "remove the quotes"
    unbounded = isinstance(AXES[subject].values, PerBatch) or getattr(AXES[subject].values, "maximum", 0) == INT32
    if unbounded and _large(node):
        return f"the largest is {INT32:,}, as int32 holds no larger one"
    return ""


def _large(node: Node) -> bool:
    """Whether it is an integer above int32; one of so many digits that it is no number of the language is too."""
    return node.value > INT32 if isinstance(node.value, int) else node.text.isascii() and node.text.isdecimal()


def _numeric(text: str) -> bool:
    """Whether `text` without quotes is a number, and a finite one."""
    value = scalar(text)
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
