"""The configuration file: `attncheck.toml`, or `[tool.attncheck]` in pyproject.toml, found upward from here.

It holds the options of the commands under their long names (``kernel = "online"``, ``time-limit = 30``). Its folder is
the base of case ids, and of the paths that it names.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attncheck.cli.messages import Stop
from attncheck.cli.options import NO_EXPECTATIONS, Place
from attncheck.vocabulary import ExitCode

if TYPE_CHECKING:
    from attncheck.backends.tables import Table

NAME = "attncheck.toml"
PYPROJECT = "pyproject.toml"
BACKENDS = "backends"
"""The table of backends under names of the user's own."""
PATHS = "paths"
"""What runs where the command line names nothing. With the table of backends, all that is no option."""

NOT_FROM_FILE = {
    *("help", "version", "list", "case", "set", "inputs", "dim", "onnx", "npz", "plot"),
    *("baseline", "shard", "result", "from"),
}
"""Options that say what this one call does; a file that set them would surprise."""


@dataclass(frozen=True)
class Configuration:
    """A configuration file: where it is, its lines, and the table of attncheck's keys."""

    path: Path
    text: str
    table: Mapping[str, Any]

    @property
    def base(self) -> Path:
        """The folder that case ids and paths are relative to."""
        return self.path.parent

    def line(self, key: str) -> int:
        """The 1-based line on which `key` is set, or else the line of its table, or 1."""
        section = ""
        fallback = 1
        pattern = re.compile(rf"""\s*(?:tool\.attncheck\.)?["']?{re.escape(key)}["']?\s*[=.]""")
        for number, text in enumerate(self.text.splitlines(), start=1):
            header = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", text)
            if header is not None:
                section = header[1].replace('"', "").replace(" ", "")
                fallback = number if section in {"tool.attncheck", f"tool.attncheck.{key}", key} else fallback
            elif section in self._sections and pattern.match(text):
                return number
        return fallback

    def line_in_backend(self, name: str, key: str) -> int:
        """The 1-based line of `key` in the table of a backend, or of the table where `key` is not found there."""
        header = re.compile(rf"""\s*\[\s*(?:tool\.attncheck\.)?backends\.["']?{re.escape(name)}["']?\s*\]""")
        lines = self.text.splitlines()
        start = next((number for number, text in enumerate(lines) if header.match(text)), None)
        if start is None:
            return self.line(BACKENDS)
        for number in range(start + 1, len(lines)):
            if lines[number].lstrip().startswith("["):
                break
            if key and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""", lines[number]):
                return number + 1
        return start + 1

    @property
    def _sections(self) -> tuple[str, ...]:
        return ("",) if self.path.name == NAME else ("tool.attncheck", "tool", "")


def find(start: Path) -> Configuration | None:
    """Look for a configuration in `start` and its parents; the nearest counts, attncheck.toml before pyproject.toml.

    Raises Stop (exit code 2) for a file that is not TOML or cannot be read.
    """
    for folder in (start, *start.parents):
        if (folder / NAME).is_file():
            return _read(folder / NAME, ())
        if (folder / PYPROJECT).is_file():
            found = _read(folder / PYPROJECT, ("tool", "attncheck"))
            if found is not None:
                return found
    return None


def at(path: Path) -> Configuration | None:
    """The configuration file `path`. Raises Stop as `find` does."""
    return _read(path, ())


def defaults(found: Configuration, commands: Mapping[str, click.Command]) -> dict[str, dict[str, Any]]:
    """Turn a configuration into click's default_map, {command: {parameter: value}}.

    Raises Stop (exit code 2) with one line for each unknown key and each value that its option does not take.
    """
    options = {
        name: {_key(option): option for option in command.params if isinstance(option, click.Option)}
        for name, command in commands.items()
    }
    # An option that one command takes once and another several times, `kernel`, is in the file what the first takes.
    every = [pair for keys in options.values() for pair in keys.items()]
    known = {key: option for key, option in reversed(every) if key not in NOT_FROM_FILE}
    mistakes = []
    values: dict[str, Any] = {}
    for key, value in found.table.items():
        if key == BACKENDS:
            continue
        if key not in known and key != PATHS:
            mistakes.append((found.line(key), _unknown(key, sorted({*known, BACKENDS, PATHS}))))
            continue
        wrong = _not_paths(value) if key == PATHS else _mistyped(known[key], value)
        if wrong is not None:
            mistakes.append((found.line(key), f"{key} = {_toml(value)}: {wrong}"))
        elif key != PATHS:
            values[key] = _resolved(known[key], value, found.base)
    if mistakes:
        raise _invalid(found, mistakes)
    return {
        name: {str(option.name): _fitted(option, values[key]) for key, option in keys.items() if key in values}
        for name, keys in options.items()
    }


def _fitted(option: click.Option, value: Any) -> Any:
    """`value` as `option` takes it: of an option that may be repeated, a list."""
    return [value] if option.multiple and not isinstance(value, list) else value


def backends(found: Configuration | None) -> dict[str, Table]:
    """The tables [backends.NAME], by name. Raises Stop (exit code 2) with one line for each that is wrong."""
    from attncheck.backends.tables import TableError, read

    raw = found.table.get(BACKENDS, {}) if found is not None else {}
    if found is None or not raw:
        return {}
    if not isinstance(raw, dict):
        raise _invalid(found, [(found.line(BACKENDS), "backends must be tables: [backends.NAME]")])
    tables, mistakes = {}, []
    for name, given in raw.items():
        try:
            tables[name] = read(name, given, found.base)
        except TableError as wrong:
            mistakes.append((found.line_in_backend(name, wrong.key), f"[backends.{name}] {wrong.message}"))
    if mistakes:
        raise _invalid(found, mistakes)
    return tables


def paths(found: Configuration | None) -> tuple[str, ...]:
    """What runs where the command line names nothing, as one would type it from here; empty where the file is silent.

    The file is one that `defaults` has accepted. Raises Stop (exit code 2) for a path that is not there.
    """
    from attncheck.cli.addresses import is_id, packaged

    if found is None:
        return ()
    named = found.table.get(PATHS, ())
    elsewhere = [one for one in named if not is_id(one) and not (found.base / one).exists()]
    gone = [one for one in elsewhere if packaged(one) is None]
    if gone:
        raise _invalid(found, [(found.line(PATHS), f"{PATHS}: there is no {one}") for one in gone])
    return tuple(one if is_id(one) or one in elsewhere else _shown(found.base / one) for one in named)


def _not_paths(value: object) -> str | None:
    """Why `value` is no list of what to run, or None where it is one."""
    good = isinstance(value, list) and value and all(isinstance(one, str) and one for one in value)
    return None if good else 'must be a list of scenario files, folders and case ids, ["scenarios"]'


def _invalid(found: Configuration, mistakes: list[tuple[int, str]]) -> Stop:
    told = "\n".join(f"{_shown(found.path)}:{line}: {text}" for line, text in sorted(mistakes))
    return Stop(f"the configuration is invalid; nothing was run\n{told}", ExitCode.USAGE)


def _read(path: Path, section: tuple[str, ...]) -> Configuration | None:
    try:
        text = path.read_text(encoding="utf-8")
        table: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        place = re.search(r"\(at line (\d+), column (\d+)\)$", str(wrong))
        where = f":{place[1]}:{place[2]}" if place else ""
        reason = str(wrong)[: place.start()].rstrip() if place else str(wrong)
        raise Stop(f"{_shown(path)}{where}: not valid TOML: {reason}", ExitCode.USAGE) from None
    except (OSError, UnicodeDecodeError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else str(wrong)
        raise Stop(f"{_shown(path)}: cannot be read: {reason}", ExitCode.USAGE) from None
    for name in section:
        if name not in table:
            return None
        table = table[name]
        if not isinstance(table, dict):
            raise Stop(f"{_shown(path)}: {'.'.join(section)} must be a table of options", ExitCode.USAGE)
    return Configuration(path, text, table)


def _key(option: click.Option) -> str:
    """The option's long name, without the dashes."""
    return max((name for name in option.opts if name.startswith("--")), key=len, default="")[2:]


def _unknown(key: str, known: list[str]) -> str:
    if key in NOT_FROM_FILE:
        return f"{key!r} says what one call does: give it on the command line"
    near = get_close_matches(key.replace("_", "-"), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
    return f"unknown option {key!r}; {hint}"


def _mistyped(option: click.Option, value: object) -> str | None:
    """Why `option` does not take `value`, or None where it does."""
    if option.is_flag:
        return None if isinstance(value, bool) else "must be true or false"
    if option.multiple:
        if not isinstance(value, list):
            return f"must be a list, [{_toml(value)}]"
        return next((wrong for item in value if (wrong := _not_one(option, item)) is not None), None)
    return _not_one(option, value)


def _not_one(option: click.Option, value: object) -> str | None:
    numeric = isinstance(option.type, click.types.IntParamType | click.types.FloatParamType)
    if numeric and (isinstance(value, bool) or not isinstance(value, int | float)):
        return "must be a number"
    if isinstance(option.type, click.types.IntParamType) and isinstance(value, float):
        return "must be a whole number"
    if not numeric and not isinstance(value, str):
        return "must be a string"
    if isinstance(option.type, Place):
        return option.type.misnamed(str(value))  # what is there is looked at from the right folder
    try:
        option.type.convert(value, option, None)
    except click.BadParameter as wrong:
        return wrong.message
    return None


def _resolved(option: click.Option, value: Any, base: Path) -> Any:
    """`value` with its paths relative to the folder of the configuration."""
    if not isinstance(option.type, Place):
        return value
    if option.multiple:
        return [one if one == NO_EXPECTATIONS else str(base / one) for one in value]
    return str(base / value)


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _shown(path: Path) -> str:
    """The path as one would type it from here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
