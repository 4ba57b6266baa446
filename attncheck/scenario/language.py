"""The file language as pydantic models, built from the tables of `axes` and `keys`.

Import this module only where something is loaded: pydantic takes a while to start.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    create_model,
)
from pydantic.config import JsonDict

from attncheck.scenario.axes import AXES, NAME, Axis
from attncheck.scenario.diagnostics import nearest
from attncheck.scenario.keys import KEYS, MODES
from attncheck.scenario.steps import LABEL, LIMIT
from attncheck.scenario.values import (
    FLOAT16,
    FLOAT32,
    Boolean,
    Broadcast,
    Choice,
    Integer,
    Number,
    NumberList,
    PerBatch,
    Positive,
    Steps,
    Values,
)

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_ONE_FOR_ALL, _BY_BACKEND = "<one for all>", "<by backend>"


Label = Annotated[str, StringConstraints(pattern=f"^{LABEL}$")]


def _word(word: str | None, other: Any) -> Any:
    return other if word is None else other | Literal[word]


def _kind(value: object) -> str:
    return "list" if isinstance(value, list) else "one"


def _one_or_many(each: Any, word: str | None) -> Any:
    one = _word(word, each)
    many = Annotated[list[each], Field(min_length=1)]
    return Annotated[Annotated[one, Tag("one")] | Annotated[many, Tag("list")], Discriminator(_kind)]


def _annotation(values: Values) -> Any:
    """The pydantic type of an axis value."""
    match values:
        case Integer(minimum, maximum, word):
            return _word(word, Annotated[int, Field(ge=minimum, le=maximum)])
        case Positive(word):
            return _word(word, Annotated[float, Field(ge=FLOAT32[0], le=FLOAT32[1])])
        case Number(word):
            return _word(word, Annotated[float, Field(ge=-FLOAT32[1], le=FLOAT32[1]), AfterValidator(_normal)])
        case Choice(words):
            return Literal[words]
        case Broadcast():
            return Literal[values.words]
        case Boolean():
            return bool
        case PerBatch(minimum, word):
            return _one_or_many(Annotated[int, Field(ge=minimum, le=2**31 - 1)], word)
        case NumberList(word):
            return _one_or_many(Annotated[float, Field(ge=-FLOAT16, le=FLOAT16)], word)
        case Steps():
            return Annotated[list[_step()], Field(min_length=1)]  # type: ignore[misc]


def _normal(number: float) -> float:
    """`number`, where float32 holds it as a normal number or as 0. Raises ValueError for what it would flush."""
    if 0.0 < abs(number) < FLOAT32[0]:
        raise ValueError("float32 has no normal number so near to 0")
    return number


@cache
def _step() -> Any:
    """The model of one step of a session."""
    return create_model(
        "Step",
        __config__=_STRICT,
        q_len=(_annotation(AXES["q_len"].values), Field(description=AXES["q_len"].meaning)),
        repeat=(Annotated[int, Field(ge=1, le=LIMIT)], _field(KEYS["repeat"].meaning, 1)),
        accept=(_annotation(PerBatch(0)), _field(KEYS["accept"].meaning)),
        refused=(bool, _field(KEYS["refused"].meaning, False)),
        label=(Label, _field(KEYS["label"].meaning)),
    )


def _field(meaning: str, default: float | bool | str | None = None) -> Any:
    extra: JsonDict = {} if default is None else {"default": default}
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
    "Matrix",
    __config__=ConfigDict(**_STRICT, json_schema_extra={"minProperties": 1}),
    **_sweeps,
    mode=(Literal[MODES], _field(KEYS["mode"].meaning, MODES[0])),
    exclude=(list[Assignments], _field(KEYS["exclude"].meaning)),
)


class Bound(BaseModel):
    """What replaces the derived tolerance."""

    model_config = _STRICT
    max_abs: Annotated[float, Field(gt=0, description=KEYS["max_abs"].meaning)]


def _tolerance_form(value: object) -> str:
    """Which of the two forms is meant, so that mistakes are judged by it; a misspelt `max_abs` is no backend."""
    by_backend = isinstance(value, dict) and value and not any(nearest(key, ("max_abs",)) for key in value)
    return _BY_BACKEND if by_backend else _ONE_FOR_ALL


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
File = create_model(
    "File",
    __config__=_STRICT,
    defaults=(Defaults, _field(KEYS["defaults"].meaning)),
    scenarios=(
        Annotated[list[ScenarioEntry], Field(min_length=1)],
        Field(description=KEYS["scenarios"].meaning),
    ),
)
