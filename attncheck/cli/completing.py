"""What a shell offers behind a Tab: case ids, backends, words. `cli/shells.py` keeps from the shell what fails here.

Ids come in two steps, so that the first needs no scenario to be loaded: behind `FILE::` the names of the scenarios,
which are ids too, and once one name is left the ids of its cases, kept in the user's cache until the file changes.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem

SEPARATOR = "::"
SCENARIOS = (".yaml", ".yml")
MODELS = (".onnx",)
NAMED = re.compile(r"""(?:^\s*|[-{,]\s*)name:\s*["']?([A-Za-z0-9_.-]+)""", re.MULTILINE)
"""The names of scenarios in the text of a file, found without reading it as YAML."""
ARGUMENTS = 2
"""With how many arguments a backend's function is called: see attncheck/callable.py."""

Item = CompletionItem


def cases(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Item]:
    """Scenario files, folders, models, and behind `FILE::` case ids."""
    file, separator, name = incomplete.partition(SEPARATOR)
    if separator:
        return [Item(f"{file}{SEPARATOR}{it}") for it in _ids(file, name)]
    shipped = "shipped/"
    found = list(_entries(incomplete, (*SCENARIOS, *MODELS)))
    if incomplete.startswith(shipped):
        found += [f"{shipped}{it}" for it in _entries(incomplete.removeprefix(shipped), SCENARIOS, _shipped())]
    elif incomplete and shipped.startswith(incomplete):
        found.append(shipped)
    return _items(found, incomplete)


def backends(_context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Item]:
    """Names of backends, of tables in the configuration, and functions of Python files."""
    file, colon, _ = incomplete.partition(":")
    if colon and file.endswith(".py"):
        return _items((f"{file}:{it}" for it in _functions(Path(file))), incomplete)
    from attncheck.backends.registry import KINDS
    from attncheck.cli.options import NO_REFERENCE

    none = [NO_REFERENCE] if parameter.name == "reference" else []
    files = [f"{it}:" if it.endswith(".py") else it for it in _entries(incomplete, (".py",))]
    return _items([*KINDS, *_tables(), *none, *files], incomplete)


def words(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Item]:
    """What `explain` explains."""
    from attncheck.reports.words import words as known

    return _items(known(), incomplete)


def relations(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Item]:
    """Names of relations."""
    from attncheck.relations.table import RELATIONS

    return _items(RELATIONS, incomplete)


def reports(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Item]:
    """Formats of reports, and behind the `=` any file."""
    from attncheck.reports.formats import FORMATS

    if "=" in incomplete:
        return [Item(incomplete, type="file")]
    return _items((f"{it}=" for it in FORMATS), incomplete)


def _items(found: Iterable[str], incomplete: str) -> list[Item]:
    return [Item(it) for it in dict.fromkeys(found) if it.startswith(incomplete)]


def _entries(incomplete: str, suffixes: Sequence[str], root: Path | None = None) -> Iterator[str]:
    """Folders, with a slash, and files of these kinds below `root`, as they would be typed."""
    folder, slash, beginning = incomplete.rpartition("/")
    here = (root or Path()) / (folder + slash)
    with suppress(OSError):
        for entry in sorted(here.iterdir()):
            if entry.name.startswith(".") and not beginning.startswith("."):
                continue
            if entry.is_dir():
                yield f"{folder}{slash}{entry.name}/"
            elif entry.suffix in suffixes:
                yield f"{folder}{slash}{entry.name}"


def _ids(file: str, name: str) -> list[str]:
    """What may stand behind `FILE::`, beginning with `name`: scenarios, and of a single one its cases."""
    path = _file(file)
    if path is None:
        return []
    scenarios = [it for it in dict.fromkeys(NAMED.findall(path.read_text(encoding="utf-8"))) if it.startswith(name)]
    scenario, colon, _ = name.partition(":")
    if len(scenarios) > 1 and not colon:
        return scenarios
    (only,) = [scenario] if colon else scenarios or [name]
    ids = [it for it in _known(path) if it.partition(":")[0] == only and it.startswith(name)]
    return ids or scenarios


def _file(file: str) -> Path | None:
    """The scenario file that the part of an id before `::` means."""
    if file.startswith("shipped/"):
        path = _shipped() / file.removeprefix("shipped/")
        return path if path.is_file() else None
    return next((it for it in (_base() / file, Path(file)) if it.is_file()), None)


def _known(path: Path) -> list[str]:
    """The ids of a file's cases behind their `::`, from the cache while the file is as it was."""
    import platformdirs

    from attncheck import __version__

    stat = path.stat()
    stamp = f"{__version__} {stat.st_mtime_ns} {stat.st_size}"
    key = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    kept = platformdirs.user_cache_path("attncheck", appauthor=False) / "ids" / f"{key}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads(kept.read_text(encoding="utf-8"))
        if data["stamp"] == stamp:
            return [str(it) for it in data["ids"]]
    ids = _loaded(path)
    with suppress(OSError):
        from attncheck.engine.files import write_whole

        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, json.dumps({"stamp": stamp, "ids": ids}).encode())
    return ids


def _loaded(path: Path) -> list[str]:
    """The ids of a file's cases behind their `::`; none of a file with mistakes, which `run` tells."""
    from attncheck.scenario import ScenarioErrors, load

    with suppress(ScenarioErrors):
        return [it.id.partition(SEPARATOR)[2] for it in load([path], path.parent)]
    return []


def _functions(path: Path) -> list[str]:
    """The functions of a Python file that may be kernels; none of one that is no Python yet."""
    with suppress(OSError, ValueError, SyntaxError):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        found = (it for it in body if isinstance(it, ast.FunctionDef) and not it.name.startswith("_"))
        return [it.name for it in found if it.decorator_list or _takes_two(it.args)]
    return []


def _takes_two(arguments: ast.arguments) -> bool:
    """Whether a function can be called as kernels are, unless a decorator changes what is written."""
    positional = len(arguments.posonlyargs) + len(arguments.args)
    needed = positional - len(arguments.defaults)
    named = any(default is None for default in arguments.kw_defaults)
    return needed <= ARGUMENTS and (positional >= ARGUMENTS or arguments.vararg is not None) and not named


def _base() -> Path:
    """The folder that ids are relative to."""
    from attncheck.cli import configuration

    found = configuration.find(Path.cwd())
    return found.base if found is not None else Path.cwd()


def _tables() -> list[str]:
    """Backends under names of the user's own."""
    from attncheck.cli import configuration

    found = configuration.find(Path.cwd())
    return list(configuration.backends(found)) if found is not None else []


def _shipped() -> Path:
    from attncheck.shipped import scenarios_dir

    return scenarios_dir()
