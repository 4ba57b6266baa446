"""docs/scenarios.md and the JSON Schema say what loading a file does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from attncheck.scenario import from_command_line, override, select
from attncheck.scenario.axes import AXES
from attncheck.scenario.diagnostics import Mistake, render
from attncheck.scenario.document import axes_table, keys_table, mistakes_table, schema_text
from attncheck.scenario.keys import KEYS
from attncheck.scenario.load import parse

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
SCHEMA: dict[str, Any] = json.loads(schema_text())
EXAMPLE = "\n".join(line[4:] for line in re.findall(r"(?:^    .*\n)+", PAGE, re.MULTILINE)[0].splitlines())


def test_the_tables_and_the_schema_are_those_of_the_code() -> None:
    for table in (axes_table(), keys_table(), mistakes_table()):
        assert table in PAGE
    assert (ROOT / "docs" / "scenario.schema.json").read_text(encoding="utf-8") == schema_text()


def test_the_tables_name_everything() -> None:
    assert all(f"| `{axis}` |" in axes_table() for axis in AXES)
    assert all(f"| `{key}` |" in keys_table() for key in KEYS)
    assert all(f"| `{mistake.value}` |" in mistakes_table() for mistake in Mistake)


def test_the_example_of_the_page_is_a_scenario_file_by_both_judges() -> None:
    found, mistakes = parse("window.yaml", EXAMPLE, "window.yaml")
    assert mistakes == []
    assert len(found) == 6 + 3
    jsonschema.validate(YAML(typ="safe", pure=True).load(EXAMPLE), SCHEMA)


def test_the_commands_of_the_page_work() -> None:
    found, _ = parse("window.yaml", EXAMPLE, "window.yaml")
    for text in re.findall(r"--case '([^']+)'", PAGE):
        assert from_command_line(text).id in PAGE
    (ids,) = re.findall(r"run '(\S+)' --set", PAGE)
    (change,) = re.findall(r"--set '([^']+)'", PAGE)
    (case,) = select(found, ids=[ids])
    assert override(case, change).id in PAGE


def test_the_mistake_of_the_page_is_rendered_so() -> None:
    text = EXAMPLE.replace("[1, 2, 3, 20, 21, 22]", "[0, 2, 3]")
    _, (mistake,) = parse("window.yaml", text, "window.yaml")
    assert "\n".join(f"    {line}" for line in render(mistake).splitlines()) in PAGE


VALID = [
    "{name: a}",
    "{name: a, q_len: [1, 2], past_len: 0, scale: 0.5, window: none, capacity: exact, tags: [x], about: b}",
    "{name: a, matrix: {op: [gqa, mha], q_len: [1, [2, 3]], exclude: [{op: mha, q_len: [2, 3]}]}}",
    "{name: a, tolerance: {max_abs: 1e-5}}",
    "{name: a, op: attention, opset: 24, capacity: 9, kv_len: [0, 3], bias: 1x1xSxT, holes: keys}",
    "{name: a, op: mha, kv_len: 3, causal: false, mask: BxT, rotary: none, past: auto}",
    "{name: a, matrix: {bias: [none, BxNxSxT], scores: [none, weights], sink: [true, false]}}",
    "{name: a, tolerance: {wgsl: {max_abs: 1}, '*': {max_abs: 2}}}",
]
INVALID = [
    "{}",
    "{name: two words}",
    "{name: a, q_len: -1}",
    "{name: a, q_len: []}",
    "{name: a, past_len: [1, -1]}",
    "{name: a, window: all}",
    "{name: a, softcap: 0}",
    "{name: a, bias: 2x1xSxT}",
    "{name: a, bias: BxT}",
    "{name: a, opset: 22}",
    "{name: a, kv_len: exact}",
    "{name: a, rotary: half, rotary_cache: 0}",
    "{name: a, causal: yes}",
    "{name: a, op: softmax}",
    "{name: a, colour: red}",
    "{name: a, seed: 4294967296}",
    "{name: a, matrix: {}}",
    "{name: a, matrix: {window: 3}}",
    "{name: a, matrix: {window: []}}",
    "{name: a, matrix: {window: [1], exclude: [{wndow: 1}]}}",
    "{name: a, tolerance: 1e-5}",
    "{name: a, tolerance: {wgsl: 1e-5}}",
    "{name: a, tags: x}",
    "{name: a, window: null}",
]


@pytest.mark.parametrize("scenario", VALID)
def test_the_schema_accepts_what_loads(scenario: str) -> None:
    text = f"scenarios: [{scenario}]"
    assert parse("f", text, "f")[1] == []
    jsonschema.validate(YAML(typ="safe", pure=True).load(text), SCHEMA)


@pytest.mark.parametrize("scenario", INVALID)
def test_the_schema_refuses_what_does_not(scenario: str) -> None:
    text = f"scenarios: [{scenario}]"
    assert parse("f", text, "f")[1] != []
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(YAML(typ="safe", pure=True).load(text), SCHEMA)
