"""docs/architecture.md tells the house as it is: its rooms from the top, and no name that is not there."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

from attncheck.scenario.axes import AXES

ROOT = Path(__file__).resolve().parents[2]
HOUSE = ROOT / "attncheck"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
STANDS_ALONE = "worker"
"""The room that no layer may import, and that is therefore none."""


def rooms() -> list[str]:
    """The rooms that the page has a row for, from the top."""
    return [row.removesuffix("/").removesuffix(".py") for row in re.findall(r"^\| `([\w./]+)` \|", PAGE, re.MULTILINE)]


def layers() -> list[str]:
    """The rooms as import-linter holds them apart, from the top."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    return [name for layer in contract["layers"] for name in re.findall(r"\w+", layer)]


def resolved(name: str) -> object:
    """What `room.module.attribute` names. Raises ImportError where there is no such thing."""
    found: object = import_module("attncheck")
    for depth, part in enumerate(parts := name.split(".")):
        if not hasattr(found, part):
            import_module(f"attncheck.{'.'.join(parts[: depth + 1])}")
        found = getattr(found, part)
    return found


def test_the_page_lists_the_rooms_in_the_order_of_the_layers() -> None:
    assert set(rooms()) == set(layers()) - {"__main__"} | {STANDS_ALONE}
    ordered = [room for room in rooms() if room != STANDS_ALONE]
    assert sorted(ordered, key=layers().index) == ordered


def test_every_name_on_the_page_is_one_of_the_house() -> None:
    spans = re.findall(r"`([^`]+)`", PAGE)
    dotted = [found[0] for span in spans if (found := re.match(r"[a-z_]+(\.\w+)+", span))]
    names = [name for name in dotted if name.split(".")[0] in rooms() and not name.endswith(".py")]
    assert len(names) > 50  # else the page is not written as this test reads it
    for name in names:
        resolved(name)


def test_every_path_on_the_page_leads_somewhere() -> None:
    paths = [span for span in re.findall(r"`([^`]+)`", PAGE) if re.fullmatch(r"\w+(/\w+)*(/|/\w+\.py)", span)]
    assert [path for path in paths if not (HOUSE / path).exists() and not (ROOT / path).exists()] == []


def test_the_page_names_every_axis() -> None:
    (names,) = re.findall(r"One name an axis, in YAML, Python, WGSL and reports: `([^`]+)`", PAGE)
    assert sorted(names.split()) == sorted(AXES)
