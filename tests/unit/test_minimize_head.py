"""The head of a journal: searches that are the same, and how others differ, in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attncheck.backends.callable import Callable
from attncheck.minimize.head import FORMAT, Head

HEAD = Head(
    start="op=gqa",
    backend="mine.py:mine",
    place="0a",
    files={"mine.py": "1b", "helper.py": "2c"},
    versions={"attncheck": "0.5.0", "numpy": "2.3.1"},
    settings={"kernel": "auto", "threshold": None, "same_kernel": False},
)


def kept(head: Head) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(head.document))
    return document


def test_a_head_that_went_through_a_file_is_that_of_the_same_search() -> None:
    assert HEAD.differences(kept(HEAD)) == []


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (replace(HEAD, start="op=mha"), ["it began from op=gqa"]),
        (
            replace(HEAD, backend="wgsl", files={}, place="9"),
            ["it ran on mine.py:mine, and this call names wgsl"],
        ),
        (replace(HEAD, files={"mine.py": "3d", "helper.py": "2c"}), ["mine.py has been edited since"]),
        (
            replace(HEAD, files={"mine.py": "1b", "new.py": "2c"}),
            ["new.py has been added since", "helper.py has been removed since"],
        ),
        (replace(HEAD, place="1"), ["mine.py:mine runs with another interpreter, packages or options"]),
        (
            replace(HEAD, versions={"attncheck": "0.5.0", "numpy": "2.4.0"}),
            ["numpy was 2.3.1, is 2.4.0"],
        ),
        (
            replace(HEAD, settings={"kernel": "naive", "threshold": 64, "same_kernel": True}),
            [
                "--kernel was auto, is naive",
                "--same-kernel was not given, is given",
                "--threshold was not given, is 64",
            ],
        ),
    ],
)
def test_how_a_search_differs_is_said(now: Head, said: list[str]) -> None:
    assert now.differences(kept(HEAD)) == said


def test_a_head_of_another_format_is_not_looked_into() -> None:
    assert HEAD.differences({"minimize": FORMAT - 1}) == [
        f"its journal is in format {FORMAT - 1}, and this attncheck reads {FORMAT}"
    ]


def test_what_a_function_imports_from_its_folder_decides_what_it_computes(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    for name, text in {
        "mine.py": "import helper\nimport numpy\nfrom attncheck import callable\n",
        "helper.py": "from part import inner\n",
        "part/inner.py": "A = 1\n",
        "other.py": "",
        "attncheck/engine.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    backend = Callable(tmp_path / "mine.py", "mine")
    launch = backend.launch()
    before = launch.contents
    assert set(before) == {"mine.py", "helper.py", "part/inner.py"}
    (tmp_path / "part" / "inner.py").write_text("A = 2\n", encoding="utf-8")
    after = backend.launch()
    assert after.contents != before
    assert after.place == launch.place
