"""The tables ``[backends.NAME]`` of a configuration file: backends under names of the user's own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from packaging.requirements import InvalidRequirement, Requirement

from attncheck.backends.placed import Place
from attncheck.compare.arithmetic import Compute

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]*")


class TableError(Exception):
    """A table is wrong. `key` is where, "" for the table as a whole; the message says what is allowed."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key
        self.message = message


@dataclass(frozen=True)
class Table:
    """One table. In the file its keys are written with dashes.

    use               the backend that it configures: a name, ``ort:PROVIDER``, ``file.py:name``; by default the table's
                      own name
    python            an interpreter for its worker
    requirements      packages for its worker, in an environment of its own
    environment       variables for its worker
    adapter           part of the name of the GPU adapter (own kernels)
    plugin            Python module of a plugin package that brings the provider (ONNX Runtime)
    provider_options  the provider's own options (ONNX Runtime)
    robustness        whether the WebGPU implementation bounds every index, as browsers do; ONNX Runtime does without
    device            PyTorch device
    compute           arithmetic promised by a function, as in `base.Compute`
    """

    use: str
    python: str | None = None
    requirements: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    adapter: str | None = None
    plugin: str | None = None
    provider_options: Mapping[str, str] = field(default_factory=dict)
    robustness: bool | None = None
    device: str | None = None
    compute: Compute | None = None

    @property
    def place(self) -> Place:
        """Where the worker runs."""
        return Place(self.python, self.requirements, self.environment)


KEYS = tuple(field.name.replace("_", "-") for field in fields(Table))
PLACE_KEYS = ("use", "python", "requirements", "environment")
"""Keys that every backend takes."""


def read(name: str, raw: object, base: Path) -> Table:
    """One table as TOML gives it; `base` is the folder of its file, which paths are relative to. Raises TableError."""
    if _NAME.fullmatch(name) is None:
        raise TableError("", f"{name!r} cannot name a backend: letters, digits and any of _ . + - can, letter first")
    if not isinstance(raw, dict):
        raise TableError("", f'must be a table, as in [backends.{name}] with use = "ort-cpu" below it')
    for key in raw:
        if key not in KEYS:
            near = get_close_matches(key.replace("_", "-"), KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(KEYS)}"
            raise TableError(key, f"unknown key {key!r}; {hint}")
    given = {key.replace("-", "_"): _value(key, value) for key, value in raw.items()}
    for key in ("use", "python"):
        if key in given:
            given[key] = _from(base, given[key])
    return Table(**({"use": name} | given))


def written(name: str, table: Table) -> str:
    """The table as a configuration file holds it; `read` gives it back."""
    blank = Table("")
    lines = [f"[backends.{_key(name)}]"]
    for it in fields(Table):
        value = getattr(table, it.name)
        if value != getattr(blank, it.name):
            lines.append(f"{it.name.replace('_', '-')} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(name)} = {_toml(text)}' for name, text in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _value(key: str, value: object) -> Any:
    if key == "requirements":
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise TableError(key, 'requirements must be a list of packages, ["onnxruntime==1.23.2"]')
        for item in value:
            try:
                Requirement(item)
            except InvalidRequirement as wrong:
                said = str(wrong).splitlines()[0]
                raise TableError(key, f"{item!r} is no requirement as pip reads them: {said}") from None
        return tuple(value)
    if key in {"environment", "provider-options"}:
        if not isinstance(value, dict):
            raise TableError(key, f'{key} must be a table of texts, {{ NAME = "text" }}')
        return {name: _text(key, name, item) for name, item in value.items()}
    if key == "robustness":
        return _switch(key, value)
    if not isinstance(value, str) or not value:
        raise TableError(key, f"{key} must be a text")
    if key == "compute" and value not in get_args(Compute):
        raise TableError(key, f"{key} must be {' or '.join(map(repr, get_args(Compute)))}, not {value!r}")
    return value


def _switch(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TableError(key, f"{key} must be true or false")
    return value


def _text(key: str, name: str, value: object) -> str:
    """Numbers and switches as ONNX Runtime and the environment take them."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str | int | float):
        return str(value)
    raise TableError(key, f"{key}: {name} must be a text or a number")


def _from(base: Path, value: str) -> str:
    """A path (anything with a slash, or a Python file) relative to the file's folder; other words as they are."""
    is_path = "/" in value or "\\" in value or ".py:" in value
    return str(base / Path(value).expanduser()) if is_path else value
