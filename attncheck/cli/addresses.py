"""From the words of a command line to cases: paths to scenario files, and case ids with their wildcards."""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from attncheck.scenario import Scenario, from_command_line, load, override, select
from attncheck.scenario.command_line import CASE, SET
from attncheck.scenario.load import SUFFIXES, address
from attncheck.shipped import ADDRESS, scenarios_dir

SEPARATOR = "::"
WILDCARDS = frozenset("*?")
NEAR = 3
"""How many ids are named where none was found."""


def is_id(word: str) -> bool:
    """Whether `word` names cases rather than a file."""
    return SEPARATOR in word


def packaged(path: str) -> Path | None:
    """The file or folder inside the package that a path means as ids name it, `shipped/...`, or None."""
    if not f"{path}/".startswith(ADDRESS):
        return None
    found = scenarios_dir() / path.removeprefix(ADDRESS.removesuffix("/")).strip("/")
    return found if found.exists() else None


class Addresses:
    """Loads what is named, each file once.

    base   the folder that ids are relative to; an id may also be relative to the current folder, as a path is
    limit  bytes that one case may take
    """

    def __init__(self, base: Path, limit: int) -> None:
        self._base = base
        self._limit = limit
        self._loaded: dict[tuple[Path, str], tuple[Scenario, ...]] = {}

    def shipped(self) -> tuple[Scenario, ...]:
        """The cases inside the package."""
        return self._load(scenarios_dir(), ADDRESS)

    def at(self, path: str) -> tuple[Scenario, ...]:
        """The cases of a file or a folder; of one inside the package where none here has its name.

        Raises ScenarioErrors.
        """
        here = _there([Path(path), _read(Path(path))])
        inside = packaged(path) if here is None else None
        return self._load(here or Path(path), "") if inside is None else self._load(inside, ADDRESS)

    def matching(self, pattern: str) -> tuple[Scenario, ...]:
        """The cases that an id pattern means; none where a pattern with wildcards matches none.

        Raises ScenarioErrors for an id without wildcards that no case has, and for mistakes in its file.
        """
        if pattern.startswith(CASE):
            text, _, changes = pattern.removeprefix(CASE).partition(SET)
            case = from_command_line(text, self._limit)
            return (override(case, changes, self._limit) if changes else case,)
        file, _, name = pattern.partition(SEPARATOR)
        prefix = ADDRESS if file.startswith(ADDRESS) else ""
        found: list[Scenario] = []
        for path in self.files(file):
            exact = pattern if prefix or _wild(file) else f"{address(path, self._base)}{SEPARATOR}{name}"
            found += select(self._load(path, prefix), ids=[exact], memory_limit=self._limit)
        return tuple(found)

    def no_match(self, pattern: str) -> str:
        """What to say of a pattern that matches no case, with the ids that come near."""
        ids = [case.id for cases in self._loaded.values() for case in cases]
        near = get_close_matches(pattern, ids, n=NEAR, cutoff=0.3)
        hint = "".join(f"\n  near: {one}" for one in near) or "; `attncheck run --list` shows every id"
        return f"no case matches {pattern}{hint}"

    def _load(self, path: Path, prefix: str) -> tuple[Scenario, ...]:
        if (path, prefix) not in self._loaded:
            base = scenarios_dir() if prefix else self._base
            self._loaded[path, prefix] = load([path], base, self._limit, prefix)
        return self._loaded[path, prefix]

    def files(self, file: str) -> Sequence[Path]:
        """The files that the part of an id before `::` means."""
        typed = file.removeprefix(ADDRESS)
        root = scenarios_dir() if file.startswith(ADDRESS) else self._base
        if _wild(typed):
            written = urllib.parse.unquote(typed)
            if Path(written).is_absolute():
                root, written = Path(Path(written).anchor), str(Path(written).relative_to(Path(written).anchor))
            return sorted(path for path in root.glob(written) if path.suffix in SUFFIXES and path.is_file())
        named = [root / typed, Path(typed)]
        # An id means its own case: only where there is none, a name that holds such a %XX itself.
        found = _there([*map(_read, named), *named]) or Path(typed)
        return [found.relative_to(Path.cwd()) if found.is_relative_to(Path.cwd()) else found]


def _there(paths: Sequence[Path]) -> Path | None:
    return next((path for path in paths if path.exists()), None)


def _read(path: Path) -> Path:
    """The path with its %XX read as ids write them."""
    return Path(urllib.parse.unquote(str(path)))


def _wild(text: str) -> bool:
    return not WILDCARDS.isdisjoint(text)
