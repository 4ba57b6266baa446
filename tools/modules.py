"""What docs/modules.md says: every room of the house, and every module in it in the sentence that it opens with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from attncheck.scenario.document import table

HOUSE = Path(__file__).resolve().parents[1] / "attncheck"


def opening(module: Path) -> str:
    """The paragraph that the docstring of `module` begins with, as Markdown. Raises ValueError where there is none."""
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    if not text:
        raise ValueError(f"{module} does not say what it is")
    return " ".join(text.split("\n\n")[0].split()).replace("``", "`")


def room(folder: Path) -> str:
    """The modules of `folder`, as a table below what its own `__init__` says of it."""
    name = "" if folder == HOUSE else f"{folder.relative_to(HOUSE)}/"
    own = folder / "__init__.py"
    said = f"{opening(own)}\n\n" if own.exists() else ""
    modules = sorted(module for module in folder.glob("*.py") if module != own)
    rows = [(f"`{module.name}`", opening(module)) for module in modules]
    return f"## attncheck/{name}\n\n{said}" + table(("module", "what it is"), rows)


def rooms() -> str:
    """Every folder with modules: each room before the folders in it."""
    return "\n\n".join(room(folder) for folder in _folders(HOUSE))


def _folders(folder: Path) -> Iterator[Path]:
    if any(folder.glob("*.py")):
        yield folder
    for below in sorted(it for it in folder.iterdir() if it.is_dir() and it.name != "__pycache__"):
        yield from _folders(below)
