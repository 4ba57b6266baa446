"""From a word of the command line to a file, whatever characters its name has."""

from __future__ import annotations

from pathlib import Path

import pytest

from attncheck.cli.addresses import Addresses
from attncheck.scenario import ScenarioErrors
from attncheck.scenario.memory import DEFAULT_LIMIT

TEXT = "scenarios: [{name: %s, op: gqa, heads: 2, head_dim: 8, q_len: 1}]\n"
ESCAPED, LITERAL = "a%20b.yaml", "a b.yaml"
"""The first is the name of a file, and also how ids write the second."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(base: Path, word: str) -> list[str]:
    addresses = Addresses(base, DEFAULT_LIMIT)
    return [it.id for it in (addresses.matching(word) if "::" in word else addresses.at(word))]


@pytest.mark.parametrize("word", [ESCAPED, f"{ESCAPED}::*", "a%2520b.yaml::*", "a%2520b.yaml"])
def test_a_file_whose_name_has_an_escape_is_found_as_typed_and_as_its_id_writes_it(word: str, here: Path) -> None:
    (here / ESCAPED).write_text(TEXT % "one", encoding="utf-8")
    assert found(here, word) == ["a%2520b.yaml::one"]


@pytest.mark.parametrize("word", [LITERAL, ESCAPED, f"{LITERAL}::*", f"{ESCAPED}::*"])
def test_a_file_whose_name_needs_an_escape_is_found_as_typed_and_as_its_id_writes_it(word: str, here: Path) -> None:
    (here / LITERAL).write_text(TEXT % "two", encoding="utf-8")
    assert found(here, word) == ["a%20b.yaml::two"]


def test_of_two_files_that_one_word_may_mean_an_id_means_its_own_and_a_path_the_one_typed(here: Path) -> None:
    (here / ESCAPED).write_text(TEXT % "one", encoding="utf-8")
    (here / LITERAL).write_text(TEXT % "two", encoding="utf-8")
    assert found(here, f"{ESCAPED}::*") == ["a%20b.yaml::two"]
    assert found(here, ESCAPED) == ["a%2520b.yaml::one"]


def test_a_file_that_is_not_there_is_named_as_typed(here: Path) -> None:
    with pytest.raises(ScenarioErrors) as wrong:
        found(here, "c%0Ad.yaml::*")
    assert [it.file for it in wrong.value.diagnostics] == ["c%0Ad.yaml"]


@pytest.mark.parametrize("word", ["shipped/sessions.yaml", "shipped/sessions.yaml::*", "shipped", "shipped/"])
def test_the_file_or_folder_of_a_shipped_id_is_a_path_too(word: str, here: Path) -> None:
    ids = found(here, word)
    assert "shipped/sessions.yaml::decode:op=gqa" in ids
    assert all(it.startswith("shipped/") for it in ids)


def test_a_path_that_is_there_goes_before_a_shipped_one(here: Path) -> None:
    (here / "shipped").mkdir()
    (here / "shipped" / "sessions.yaml").write_text(TEXT % "mine", encoding="utf-8")
    assert found(here, "shipped/sessions.yaml") == ["shipped/sessions.yaml::mine"]
    with pytest.raises(ScenarioErrors):
        found(here, "shipped/nothing.yaml")
