"""What a user's own function is made of: its file, and what that imports from its own folder."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from pathlib import Path

PACKAGE = __name__.partition(".")[0]

ONE_AT_A_TIME = threading.Lock()
"""Python 3.11 counts how deep a syntax tree is for all threads together, and lanes that parse at once fail by that."""


def sources(file: Path) -> Iterator[tuple[Path, bytes]]:
    """The file and whatever it imports from its own folder, modules and packages, and so on, with their contents."""
    waiting, told = [file], set()
    while waiting:
        path = waiting.pop()
        if path in told or not path.is_file():
            continue
        told.add(path)
        content = path.read_bytes()
        yield path, content
        for _, module in imports(content):
            name = module.partition(".")[0]
            if name == PACKAGE:  # beside a file in a checkout lies all of it
                continue
            waiting += [file.parent / f"{name}.py", *sorted((file.parent / name).rglob("*.py"))]


def imports(content: bytes) -> Iterator[tuple[int, str]]:
    """Every module that is imported, anywhere in a file, with its line; of attncheck itself what is taken from it."""
    try:
        with ONE_AT_A_TIME:
            tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, it.name) for it in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            whole = node.module == PACKAGE
            yield from ((node.lineno, f"{PACKAGE}.{it.name}") for it in node.names if whole)
            if not whole:
                yield node.lineno, node.module
