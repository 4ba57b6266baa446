"""The file language as pydantic models, built from the tables of `axes`; pydantic's findings in the house's words.

Import this module only where something is loaded: pydantic takes a while to start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag, ValidationError, create_model
from pydantic_core import ErrorDetails

from attncheck.scenario.axes import (
    AXES,
    KEYS,
    NAME,
    Axis,
    Boolean,
    Choice,
    Integer,
    PerBatch,
    Positive,
    Values,
)
from attncheck.scenario.diagnostics import Diagnostic, Mistake, nearest, shown
from attncheck.scenario.nodes import Document, Node

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_ONE_FOR_ALL, _BY_BACKEND = "<one for all>", "<by backend>"


def _word(word: str | None, other: Any) -> Any:
    return other if word is None else other | Literal[word]


def _kind(value: object) -> str:
    return "list" if isinstance(value, list) else "one"


def _annotation(values: Values) -> Any:
    """The pydantic type of an axis value."""
    match values:
        case Integer(minimum, maximum, word):
            return _word(word, Annotated[int, Field(ge=minimum, le=maximum)])
        case Positive(word):
            return _word(word, Annotated[float, Field(gt=0)])
        case Choice(words):
            return Literal[words]
        case Boolean():
            return bool
        case PerBatch(minimum):
            one = Annotated[int, Field(ge=minimum, le=2**31 - 1)]
            many = Annotated[list[one], Field(min_length=1)]
            return Annotated[Annotated[one, Tag("one")] | Annotated[many, Tag("list")], Discriminator(_kind)]


def _field(meaning: str, default: object = None) -> Any:
    extra = {} if default is None else {"default": default}
    return Field(default_factory=lambda: None, description=meaning, json_schema_extra=extra)


def _axis_field(axis: Axis) -> tuple[Any, Any]:
    return _annotation(axis.values), _field(_described(axis), axis.default)


def _described(axis: Axis) -> str:
    default = "" if axis.default is not None else f" (default: {axis.otherwise})"
    return f"{axis.meaning}{default}"


Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
Assignments = create_model(  # type: ignore[call-overload]
    "Assignments", __config__=_STRICT, **{name: _axis_field(axis) for name, axis in AXES.items()}
)
_sweeps = {
    name: (Annotated[list[_annotation(axis.values)], Field(min_length=1)], _field(_described(axis)))  # type: ignore[misc]
    for name, axis in AXES.items()
}
Matrix = create_model(  # type: ignore[call-overload]
    "Matrix", __config__=_STRICT, **_sweeps, exclude=(list[Assignments], _field(KEYS["exclude"].meaning))
)


class Bound(BaseModel):
    """What replaces the derived tolerance."""

    model_config = _STRICT
    max_abs: Annotated[float, Field(gt=0, description=KEYS["max_abs"].meaning)]


def _tolerance_form(value: object) -> str:
    by_backend = isinstance(value, dict) and "max_abs" not in value and all(isinstance(v, dict) for v in value.values())
    return _BY_BACKEND if by_backend and value else _ONE_FOR_ALL


_Tolerance = Annotated[
    Annotated[Bound, Tag(_ONE_FOR_ALL)] | Annotated[dict[str, Bound], Tag(_BY_BACKEND)], Discriminator(_tolerance_form)
]
_keys: dict[str, Any] = {
    "about": (str, _field(KEYS["about"].meaning)),
    "tags": (list[Name], _field(KEYS["tags"].meaning)),
    "matrix": (Matrix, _field(KEYS["matrix"].meaning)),
    "tolerance": (_Tolerance, _field(KEYS["tolerance"].meaning)),
}
Defaults = create_model("Defaults", __base__=Assignments, **_keys)
ScenarioEntry = create_model("Scenario", __base__=Defaults, name=(Name, Field(description=KEYS["name"].meaning)))
File = create_model(  # type: ignore[call-overload]
    "File",
    __config__=_STRICT,
    defaults=(Defaults, _field(KEYS["defaults"].meaning)),
    scenarios=(
        Annotated[list[ScenarioEntry], Field(min_length=1)],  # type: ignore[valid-type]
        Field(description=KEYS["scenarios"].meaning),
    ),
)


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
        found = dict(_findings(document, root, error.errors(include_url=False)))
        return Checked(tuple(found.values()), frozenset(found))
    return Checked((), frozenset())


def _findings(document: Document, root: Node, errors: list[ErrorDetails]) -> Iterator[tuple[Node, Diagnostic]]:
    seen: set[Node] = set()
    for error in errors:
        node, path = _walk(root, error["loc"])
        if error["type"] == "extra_forbidden":
            yield from _unknown(document, root, path)
            continue
        if node in seen:
            continue
        seen.add(node)
        yield node, _finding(document, node, path, error)


def _walk(root: Node, location: tuple[int | str, ...]) -> tuple[Node, tuple[int | str, ...]]:
    """Follow pydantic's location as far as it is real: names of union branches lead nowhere and are passed over."""
    node, path = root, []
    for step in location:
        if isinstance(step, int):
            below = node.items()[step] if step < len(node.items()) else None
        else:
            below = node.get(step)
        if below is not None:
            node = below
            path.append(step)
    return node, tuple(path)


def _unknown(document: Document, root: Node, path: tuple[int | str, ...]) -> Iterator[tuple[Node, Diagnostic]]:
    parent, _ = _walk(root, path[:-1])
    entry = next(entry for entry in parent.entries() if entry.key.text == path[-1])
    allowed = _allowed_keys(path[:-1])
    word = entry.key.text
    where = {"matrix": "a matrix", "exclude": "exclude", "tolerance": "tolerance"}.get(_subject(path[:-1]), "")
    message = (
        f"unknown {'axis' if not path[:-1] and root.line and 'scenarios' not in allowed else 'key'} `{shown(word)}`"
    )
    message += f" in {where}" if where else ""
    misplaced = "it belongs under `defaults` or into a scenario" if "scenarios" in allowed and word in _SCENARIO else ""
    hint = misplaced or nearest(word, allowed) or f"known here: {', '.join(allowed)}"
    yield entry.key, document.mistake(Mistake.UNKNOWN_KEY, entry.key, message, hint)


_SCENARIO = (*KEYS, *AXES)


def _allowed_keys(path: tuple[int | str, ...]) -> tuple[str, ...]:
    """The keys that may stand in the mapping at `path`."""
    names = [step for step in path if isinstance(step, str)]
    if "exclude" in names:
        return tuple(AXES)
    if "matrix" in names:
        return (*AXES, "exclude")
    if "tolerance" in names:
        return ("max_abs",)
    if names == ["scenarios"]:
        return tuple(ScenarioEntry.model_fields)
    if names == ["defaults"]:
        return tuple(Defaults.model_fields)
    return ("defaults", "scenarios")


def _subject(path: tuple[int | str, ...]) -> str:
    """The key that a path is about."""
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def _finding(document: Document, node: Node, path: tuple[int | str, ...], error: ErrorDetails) -> Diagnostic:
    subject = _subject(path)
    if error["type"] == "missing":
        wanted = str(error["loc"][-1])
        where = {"name": "a scenario without a `name`", "scenarios": "a file without `scenarios`"}
        message = where.get(wanted, f"`{subject}` without `{wanted}`")
        return document.mistake(Mistake.MISSING_KEY, node, message, f"`{wanted}` is {KEYS[wanted].allowed}")
    if error["type"] == "too_short" and subject == "scenarios":
        return document.mistake(
            Mistake.EMPTY_FILE, node, "no scenarios: the list is empty", "add one, or delete the file"
        )
    swept = len(path) >= 2 and path[-2] == "matrix" and subject in AXES
    if error["type"] == "too_short" and swept:
        hint = "give it a value, or remove the axis from the matrix"
        return document.mistake(Mistake.EMPTY_MATRIX, node, f"`{subject}` is swept over no value", hint)
    return document.mistake(Mistake.BAD_VALUE, node, *_bad_value(node, path, subject, swept))


def _bad_value(node: Node, path: tuple[int | str, ...], subject: str, swept: bool) -> tuple[str, str]:
    """Message and hint for a value that is not allowed."""
    if not subject:
        return f"a scenario file is a mapping with the keys `defaults` and `scenarios`, not {node.described()}", ""
    if swept:
        return (
            f"`{subject}` in a matrix must be a list of values, not {node.described()}",
            f"write [{shown(node.text)}]",
        )
    if subject in AXES:
        values = AXES[subject].values
        words = values.words if isinstance(values, Choice) else (getattr(values, "word", None) or "",)
        allowed, hint = values.allowed, nearest(node.text, words)
    elif path[-1:] != (subject,) and subject in ("scenarios", "exclude"):
        allowed, hint = f"one of {KEYS[subject].allowed}", ""
        return f"an entry of `{subject}` must be a mapping, not {node.described()}", hint
    else:
        allowed, hint = KEYS[subject].allowed if subject in KEYS else KEYS["tolerance"].allowed, ""
    return f"`{subject}` must be {allowed}, not {node.described()}", hint or _quoting(node, subject)


def _quoting(node: Node, subject: str) -> str:
    """A hint for values that YAML 1.2 reads otherwise than meant."""
    boolean = subject in AXES and isinstance(AXES[subject].values, Boolean)
    if boolean and node.text.lower() in ("yes", "no", "on", "off"):
        return f"YAML 1.2 has no `{node.text}`: write `true` or `false`"
    if subject in ("name", "about", "tags") and isinstance(node.value, (int, float)):
        return f'quote it: "{shown(node.text)}"'
    if isinstance(node.value, str) and subject in AXES and _numeric(node.text):
        return "remove the quotes"
    return ""


def _numeric(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
