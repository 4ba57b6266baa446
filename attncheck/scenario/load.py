"""Files and directories into Scenarios, or into every mistake of all of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attncheck.scenario.diagnostics import Diagnostic, Mistake, ScenarioErrors, nearest
from attncheck.scenario.memory import DEFAULT_LIMIT
from attncheck.scenario.model import Scenario
from attncheck.shipped import ADDRESS, scenarios_dir

SUFFIXES = (".yaml", ".yml")
EXPECTATIONS = "expectations.yaml"
"""Holds expectations and no scenarios, wherever it stands: a directory is read without it."""


def load(
    paths: Sequence[str | os.PathLike[str]],
    base: str | os.PathLike[str] | None = None,
    memory_limit: int = DEFAULT_LIMIT,
    prefix: str = "",
) -> tuple[Scenario, ...]:
    """The scenarios of files and directories, expanded, in the order of `paths` and of each file.

    base          the folder that case ids are relative to; the current one when None
    memory_limit  bytes that one case may take
    prefix        put before the relative path in every id: `shipped/` for the shipped scenarios

    Raises ScenarioErrors with every mistake of every file; then nothing was loaded.
    """
    root = Path(base) if base is not None else Path.cwd()
    mistakes: list[Diagnostic] = []
    scenarios: list[Scenario] = []
    for file in _files(paths, mistakes):
        found, wrong = _file(file, f"{prefix}{address(file, root)}", memory_limit)
        scenarios += found
        mistakes += wrong
    if mistakes:
        raise ScenarioErrors(mistakes)
    return tuple(scenarios)


def address(file: Path, base: Path) -> str:
    """`file` as ids name it: relative to `base`, forward slashes, special characters as %XX."""
    try:
        relative = os.path.relpath(file, base)
    except ValueError:  # another drive
        relative = str(file.resolve())
    posix = Path(relative).as_posix()
    return "".join(char if char.isalnum() or char in "/._-" else _escaped(char) for char in posix)


def _escaped(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))


def _files(paths: Iterable[str | os.PathLike[str]], mistakes: list[Diagnostic]) -> Iterator[Path]:
    """Every file, once, directories searched; a path that leads nowhere is a mistake."""
    seen: set[str] = set()
    for path in map(Path, paths):
        if path.is_dir():
            refused: list[OSError] = []
            inside = sorted(scenario_files(path, refused))
            mistakes += [_unreadable(Path(error.filename), error) for error in refused]
            if not inside and not refused:
                message = "no scenario files in this directory (files that end in .yaml or .yml)"
                mistakes.append(Diagnostic(Mistake.NO_FILES, str(path), 0, 0, message))
        elif os.path.lexists(path):
            inside = [path]
        else:
            inside = []
            mistakes.append(_missing(path))
        for file in inside:
            if (real := os.path.realpath(file)) not in seen:
                seen.add(real)
                yield file


def has_scenarios(folder: Path) -> bool:
    """Whether a folder holds a scenario file, at any depth."""
    return next(scenario_files(folder), None) is not None


def scenario_files(folder: Path, refused: list[OSError] | None = None) -> Iterator[Path]:
    """The scenario files in a folder, at any depth; what it is that cannot be looked into is put into `refused`."""
    onerror = refused.append if refused is not None else None
    walked = (Path(at, name) for at, _, names in os.walk(folder, onerror=onerror) for name in names)
    return (file for file in walked if _is_scenario_file(file, folder))


def _is_scenario_file(file: Path, directory: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(directory).parts)
    return file.suffix in SUFFIXES and file.name != EXPECTATIONS and not hidden and not file.is_dir()


def _missing(path: Path) -> Diagnostic:
    try:
        neighbours = [str(entry) for entry in path.parent.iterdir()]
    except OSError:
        neighbours = []
    if (scenarios_dir() / path).is_file():
        hint = f"the cases of that name that come with attncheck are `{ADDRESS}{path.as_posix()}::*`"
    else:
        hint = nearest(str(path), neighbours) or "name a scenario file or a directory of them"
    return Diagnostic(Mistake.MISSING_PATH, str(path), 0, 0, "no such file or directory", hint)


def _file(path: Path, name: str, memory_limit: int) -> tuple[list[Scenario], list[Diagnostic]]:
    text = text_of(path)
    return ([], [text]) if isinstance(text, Diagnostic) else parse(str(path), text, name, memory_limit)


def text_of(path: Path) -> str | Diagnostic:
    """The text of a file with plain line ends, or why there is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return _unreadable(path, error)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _not_utf8(path, data, error.start)
    return text.replace("\r\n", "\n")


def _unreadable(path: Path, error: OSError) -> Diagnostic:
    reason = error.strerror or type(error).__name__
    return Diagnostic(Mistake.UNREADABLE, str(path), 0, 0, f"cannot be read: {reason}")


def _not_utf8(path: Path, data: bytes, offset: int) -> Diagnostic:
    if data.startswith(b"PK"):
        named = "where it is a bundle's, check, minimize and bundle take it, as their one word"
        return Diagnostic(Mistake.NOT_UTF8, str(path), 0, 0, "a zip archive, and no scenario file", named)
    before = data[:offset].decode("utf-8")
    line, column = before.count("\n") + 1, offset_in_line(before) + 1
    text = data.split(b"\n")[line - 1].decode("utf-8", "replace")
    message = f"not UTF-8: the byte 0x{data[offset]:02x}"
    return Diagnostic(Mistake.NOT_UTF8, str(path), line, column, message, "save the file as UTF-8", text)


def offset_in_line(before: str) -> int:
    """Characters since the last line break of `before`."""
    return len(before) - (before.rfind("\n") + 1)


def parse(
    file: str, text: str, name: str, memory_limit: int = DEFAULT_LIMIT
) -> tuple[list[Scenario], list[Diagnostic]]:
    """The scenarios of one file's text and every mistake in it, sorted by place.

    file   as messages show it
    name   as ids show it
    """
    from attncheck.scenario.expand import Expansion
    from attncheck.scenario.findings import check
    from attncheck.scenario.language import File
    from attncheck.scenario.yaml_text import read

    document = read(file, text)
    mistakes = list(document.mistakes)
    root = document.root
    if root is None or (root.value is None and not root.text):
        if not mistakes:
            hint = "begin with `scenarios:`"
            mistakes.append(Diagnostic(Mistake.EMPTY_FILE, file, 0, 0, "the file holds no scenarios", hint))
        return [], mistakes
    checked = check(document, root, File)
    expansion = Expansion(document, name, checked.unusable | document.unusable, memory_limit)
    scenarios = list(expansion.cases())
    mistakes += [*checked.mistakes, *expansion.mistakes.found.values()]
    return scenarios, sorted(mistakes, key=lambda mistake: (mistake.line, mistake.column))
