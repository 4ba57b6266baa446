"""Every mistake in an expectations file says what, where, what is allowed and what next: golden files.

Each folder under tests/expectations holds `input.yaml`, which is loaded, and `expected.txt`, what is said of it. After
a change of words, run pytest with UPDATE_GOLDEN=1, then read the difference before it is committed.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
from pathlib import Path

import jsonschema
import pytest
from packaging.specifiers import SpecifierSet
from ruamel.yaml import YAML

from attncheck.scenario import ScenarioErrors, load, matches, render_all
from attncheck.scenario.expectation import Band, Expectation
from attncheck.scenario.expectation_keys import KEYS
from attncheck.scenario.expectations import load as load_expectations
from attncheck.scenario.expectations import parse
from attncheck.scenario.model import Source
from attncheck.vocabulary import Verdict

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(folder for folder in (ROOT / "tests" / "expectations").iterdir() if folder.is_dir())
SCHEMA = json.loads((ROOT / "docs" / "expectations.schema.json").read_text(encoding="utf-8"))
BEYOND_THE_SCHEMA = {"bad-versions", "twice", "unquoted-star"}
"""What a schema cannot see: whether a range can be read, and what YAML readers refuse by themselves."""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_mistake_is_reported_word_for_word(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(ScenarioErrors) as wrong:
        load_expectations(["input.yaml"])
    said = render_all(wrong.value.diagnostics) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        Path("expected.txt").write_text(said, encoding="utf-8")
    assert said == Path("expected.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_word_of_a_library_leaks(folder: Path) -> None:
    said = (folder / "expected.txt").read_text(encoding="utf-8")
    assert not re.search(r"packaging|ruamel|Traceback|Invalid specifier|scenario language|defaults|<class", said)


def test_mistakes_of_several_files_come_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.yaml").write_text("expectations: 3\n", encoding="utf-8")
    Path("two.yaml").write_bytes(b"expectations: \xff\n")
    with pytest.raises(ScenarioErrors) as wrong:
        load_expectations(["one.yaml", "tow.yaml", "two.yaml"])
    assert [(it.place, it.hint) for it in wrong.value.diagnostics] == [
        ("one.yaml:1:15", "begin each with `- case:`"),
        ("tow.yaml", "did you mean `two.yaml`?"),
        ("two.yaml:1:15", "save the file as UTF-8"),
    ]


COMPLETE = """\
expectations:
  - case: ["*softcap.yaml::*", rotary.yaml]
    backend: ort-webgpu*
    versions: {OnnxRuntime_EP_WebGPU: "==0.4.*", onnxruntime: ">=1.32,<1.33"}
    adapter: "NVIDIA*"
    verdict: mismatch
    max_abs: {from: 0.05, to: 1}
    says: softcap ignored
    reason: >
      the flash path
      never reads it
    link: https://example.org/issues/1
  - {case: "*", backend: "*", verdict: crash, reason: r, link: "http://example.org/2"}
"""


def test_an_entry_says_all_that_it_can_and_the_rest_means_anything() -> None:
    found, mistakes = parse("expectations.yaml", COMPLETE)
    assert mistakes == []
    assert found == [
        Expectation(
            source=Source("expectations.yaml", 2),
            cases=("*softcap.yaml::*", "rotary.yaml"),
            backend="ort-webgpu*",
            verdict=Verdict.MISMATCH,
            reason="the flash path never reads it",
            link="https://example.org/issues/1",
            versions={"onnxruntime-ep-webgpu": SpecifierSet("==0.4.*"), "onnxruntime": SpecifierSet(">=1.32,<1.33")},
            adapter="NVIDIA*",
            max_abs=Band(0.05, 1.0),
            says="softcap ignored",
        ),
        Expectation(Source("expectations.yaml", 13), ("*",), "*", Verdict.CRASH, "r", "http://example.org/2"),
    ]


def test_the_complete_entry_has_every_key() -> None:
    assert all(f"{name}:" in COMPLETE for name in KEYS)


def test_an_empty_list_expects_nothing() -> None:
    assert parse("expectations.yaml", "expectations: []\n") == ([], [])


@pytest.mark.parametrize("verdict", [it for it in Verdict if it not in {"pass", "unsupported", "quarantined"}])
def test_every_verdict_that_can_fail_can_be_expected(verdict: Verdict) -> None:
    band = ", max_abs: {to: 1}" if verdict is Verdict.MISMATCH else ""
    entry = f'{{case: a, backend: b, verdict: {verdict}{band}, reason: r, link: "https://example.org/1"}}'
    found, mistakes = parse("expectations.yaml", f"expectations: [{entry}]\n")
    assert ([it.verdict for it in found], mistakes) == ([verdict], [])


def plain(text: str) -> object:
    return YAML(typ="safe", pure=True).load(text)


def test_the_schema_takes_what_loading_takes() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(plain(COMPLETE))
    jsonschema.Draft202012Validator(SCHEMA).validate(plain("expectations: []"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_schema_refuses_what_loading_refuses(folder: Path) -> None:
    text = (folder / "input.yaml").read_text(encoding="utf-8")
    if folder.name in BEYOND_THE_SCHEMA or "this is not YAML" in (folder / "expected.txt").read_text(encoding="utf-8"):
        pytest.skip("a schema cannot see this")
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(plain(text))


def test_the_example_of_the_docs_is_without_a_mistake() -> None:
    page = (ROOT / "docs" / "expectations.md").read_text(encoding="utf-8")
    example = page[page.index("    # yaml-language-server") : page.index("## What comes of it")]
    found, mistakes = parse("expectations.yaml", textwrap.dedent(example))
    assert mistakes == []
    assert [it.verdict for it in found] == [Verdict.MISMATCH, Verdict.CRASH]


@pytest.mark.skipif(not (ROOT / "expectations.yaml").exists(), reason="nothing is known to fail here")
def test_what_this_repository_expects_is_without_a_mistake() -> None:
    found = load_expectations([ROOT / "expectations.yaml"])
    jsonschema.Draft202012Validator(SCHEMA).validate(plain((ROOT / "expectations.yaml").read_text(encoding="utf-8")))
    shipped = [it.id for it in load([ROOT / "scenarios"], ROOT / "scenarios", prefix="shipped/")]
    shipped += [it.id for it in load([ROOT / "docs" / "semantics.yaml"], ROOT)]
    patterns = {pattern for it in found for pattern in it.cases}
    assert {it for it in patterns if not any(matches(it, case) for case in shipped)} == set(), "they mean no case"


def test_a_folder_is_read_without_its_expectations(tmp_path: Path) -> None:
    (tmp_path / "window.yaml").write_text("scenarios: [{name: edges}]\n", encoding="utf-8")
    (tmp_path / "expectations.yaml").write_text(COMPLETE, encoding="utf-8")
    assert [it.id for it in load([tmp_path], tmp_path)] == ["window.yaml::edges"]
