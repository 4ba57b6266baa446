"""Where the files that travel with attncheck are: inside the package, or beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent

ADDRESS = "shipped/"
"""What the ids of the shipped scenarios begin with."""


def shaders_dir() -> Path:
    """The folder of the shipped .wgsl files."""
    return _shipped("shaders")


def scenarios_dir() -> Path:
    """The folder of the shipped scenario files."""
    return _shipped("scenarios")


def verdicts_dir() -> Path:
    """The folder of the pages on verdicts and flags."""
    return _shipped("docs/verdicts")


def _shipped(name: str) -> Path:
    installed = _PACKAGE / "_shipped" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
