"""Every mistake says what, where, what is allowed and what next: golden files under tests/diagnostics.

Each folder holds `expected.txt` and mostly `input.yaml`, which is loaded. `steps.txt`, where there is one, says what
else is done, a step a line:

    symlink NAME TARGET, mkdir NAME                         made first
    path NAME                                               loaded in place of `input.yaml`
    --case TEXT, --set TEXT, -k TEXT, --tag TEXT, id TEXT   as on the command line

After a change of words, run pytest with UPDATE_GOLDEN=1, then read the difference before it is committed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from attncheck.scenario import (
    Mistake,
    Scenario,
    ScenarioErrors,
    from_command_line,
    load,
    override,
    render_all,
    select,
)
from attncheck.scenario.diagnostics import Diagnostic, render

GOLDEN = Path(__file__).resolve().parents[1] / "diagnostics"
FOLDERS = sorted(folder for folder in GOLDEN.iterdir() if folder.is_dir())


def perform(folder: Path) -> tuple[Diagnostic, ...]:
    """Do what the folder says, in it, and return the mistakes that it leads to."""
    written = (folder / "steps.txt").read_text(encoding="utf-8") if (folder / "steps.txt").exists() else ""
    steps = [(word, rest) for word, _, rest in (line.partition(" ") for line in written.splitlines())]
    paths = [rest for word, rest in steps if word == "path"]
    for word, rest in steps:
        if word == "symlink":
            name, target = rest.split()
            (folder / name).symlink_to(target)
        elif word == "mkdir":
            (folder / rest).mkdir()
    try:
        scenarios = load(paths or ["input.yaml"]) if paths or Path("input.yaml").exists() else ()
        for word, rest in steps:
            if word in ACTIONS:
                ACTIONS[word](scenarios, rest)
    except ScenarioErrors as wrong:
        return wrong.diagnostics
    return ()


ACTIONS: dict[str, Callable[[tuple[Scenario, ...], str], object]] = {
    "--case": lambda _, text: from_command_line(text),
    "--set": lambda scenarios, text: [override(one, text) for one in scenarios],
    "-k": lambda scenarios, text: select(scenarios, keyword=text),
    "--tag": lambda scenarios, text: select(scenarios, tags=[text]),
    "id": lambda scenarios, text: select(scenarios, ids=[text]),
}


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Path]:
    """Copies a golden folder and works in the copy, so that messages hold no path of this machine."""

    def enter(folder: Path) -> Path:
        copy = tmp_path / folder.name
        shutil.copytree(folder, copy)
        monkeypatch.chdir(copy)
        return copy

    return enter


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_mistake_is_reported_word_for_word(folder: Path, inside: Callable[[Path], Path]) -> None:
    said = render_all(perform(inside(folder))) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        (folder / "expected.txt").write_text(said, encoding="utf-8")
    assert said == (folder / "expected.txt").read_text(encoding="utf-8")


def test_every_kind_of_mistake_has_a_golden_folder(inside: Callable[[Path], Path]) -> None:
    found = {mistake.kind for folder in FOLDERS for mistake in perform(inside(folder))}
    assert set(Mistake) - found == set()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_word_of_a_library_leaks(folder: Path) -> None:
    said = (folder / "expected.txt").read_text(encoding="utf-8")
    assert not re.search(r"pydantic|https?:|ruamel|Traceback|Input should|valid (integer|string|number)|<[a-z]", said)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_place_lies_within_its_line_and_the_caret_under_it(folder: Path, inside: Callable[[Path], Path]) -> None:
    for mistake in perform(inside(folder)):
        if not mistake.line:
            continue
        assert 1 <= mistake.column <= len(mistake.text) + 1
        lines = render(mistake).splitlines()
        if len(mistake.text) <= 100 and mistake.text.strip() and mistake.text.isascii():
            assert lines[2].index("^") - len(lines[2].split("|")[0]) - 2 == mistake.column - 1


def test_three_mistakes_of_one_file_come_in_one_go(inside: Callable[[Path], Path]) -> None:
    inside(GOLDEN / "three-mistakes")
    with pytest.raises(ScenarioErrors) as wrong:
        load(["input.yaml"])
    assert [mistake.place for mistake in wrong.value.diagnostics] == [
        "input.yaml:1:16",
        "input.yaml:5:5",
        "input.yaml:8:15",
    ]
