"""The language written down for others: its JSON Schema for editors, and the tables of docs/scenarios.md."""

from __future__ import annotations

import json
from collections.abc import Iterable

from attncheck.scenario.axes import AXES
from attncheck.scenario.diagnostics import Mistake
from attncheck.scenario.keys import KEYS


def schema_text() -> str:
    """The JSON Schema of a scenario file, draft 2020-12.

    It says less than loading a file does: nothing that looks at two axes at once, such as heads % kv_heads.
    """
    from attncheck.scenario.language import File

    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "attncheck scenarios",
        "description": "Cases of attention operators to test; docs/scenarios.md explains the language.",
        **{key: value for key, value in File.model_json_schema().items() if key not in ("title", "description")},
    }
    return json.dumps(_without_titles(schema, top=True), indent=2, ensure_ascii=False) + "\n"


def _without_titles(schema: object, *, top: bool = False) -> object:
    """Drop the titles that pydantic gives each field, its own name: editors show them as noise."""
    if isinstance(schema, dict):
        kept = {key: value for key, value in schema.items() if top or key != "title" or not isinstance(value, str)}
        return {key: _without_titles(value) for key, value in kept.items()}
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    return schema


def axes_table() -> str:
    """Every axis: what it may be, its default, unit, the operators that have it, and its meaning."""
    rows = (
        (f"`{it.name}`", it.values.allowed, it.default_text, it.unit, ", ".join(it.ops) or "all", it.meaning)
        for it in AXES.values()
    )
    return table(("axis", "allowed", "default", "unit", "operators", "meaning"), rows)


def keys_table() -> str:
    """Every key that is not an axis."""
    return table(("key", "allowed", "meaning"), ((f"`{key.name}`", key.allowed, key.meaning) for key in KEYS.values()))


def mistakes_table() -> str:
    """Every kind of mistake that is reported."""
    return table(("mistake", "what it says"), ((f"`{mistake.value}`", mistake.meaning) for mistake in Mistake))


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
