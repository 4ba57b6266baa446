"""The expectations file written down for others: its JSON Schema for editors, and the table of docs/expectations.md."""

from __future__ import annotations

import json

from attncheck.scenario.document import table
from attncheck.scenario.expectation_keys import KEYS
from attncheck.vocabulary import Verdict


def schema_text() -> str:
    """The JSON Schema of an expectations file, draft 2020-12.

    It says less than loading a file does: not whether a version range can be read, nor whether `from` is below `to`.
    """
    mismatch = {"properties": {"verdict": {"const": str(Verdict.MISMATCH)}}, "required": ["verdict"]}
    one = {
        "type": "object",
        "description": "One known fault.",
        "properties": {name: {**key.schema, "description": key.meaning} for name, key in KEYS.items()},
        "required": [name for name, key in KEYS.items() if key.required],
        "additionalProperties": False,
        "if": mismatch,
        "then": {"required": ["max_abs"]},
        "else": {"properties": {"max_abs": False}},
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "attncheck expectations",
        "description": "Known faults of backends; docs/expectations.md explains the language.",
        "type": "object",
        "properties": {"expectations": {"type": "array", "items": one}},
        "required": ["expectations"],
        "additionalProperties": False,
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def keys_table() -> str:
    """Every key of an expectation."""
    rows = ((f"`{key.name}`", _needed(key.name), key.allowed, key.meaning) for key in KEYS.values())
    return table(("key", "required", "allowed", "meaning"), rows)


def _needed(name: str) -> str:
    if name == "max_abs":
        return f"with `{Verdict.MISMATCH}`"
    return "yes" if KEYS[name].required else ""
