"""How a bundle is run again: its backend and options, told so that every file that they name lies in the bundle."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from attncheck import shipped
from attncheck.backends.tables import Table, written
from attncheck.bundle.runtimes import functions
from attncheck.bundle.subject import Subject

FORMAT = 1
MINIMAL, ENVIRONMENT = "minimal.json", "environment.json"
SHADERS, RULES = "shaders", "rules"
THRESHOLDS = f"{RULES}/thresholds.toml"

FOLDERS = (functions.FOLDER, SHADERS, RULES)
"""Where in a bundle the files lie that its backend is made of."""

TABLE = "attncheck.toml"
"""The configuration that holds the table [backends.NAME] of a bundle's backend, where it was told by one."""

OURS = "# The backend of this bundle."
"""How such a file begins: any other is the user's own."""

OPTIONS = ("kernel", "threshold", "thresholds", "shaders", "time_limit", "backend_memory")
"""Options that decide what a case comes to, by parameter name. Not the adapter: a bundle goes to other machines."""

_FILES = ("shaders", "thresholds")
_OWN_KERNELS = ("webgpu", "dawn")
_FUNCTION = re.compile(r"(.+\.py)(:\w+)")


class Unreadable(Exception):
    """A folder says in no way that can be read what it is run on. The message says why."""


@dataclass(frozen=True)
class Again:
    """What a call must say to run a bundle's case as it ran.

    backend  its name, with the path of its file where it is a function
    options  of OPTIONS, those that are not as they are by themselves
    files    what must lie in the bundle for that, by path there
    verdict  what it came to, as far as a bundle that was read says that
    """

    backend: str
    options: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    verdict: str = ""

    def command(self, case: str) -> str:
        """The shell command that runs the file `case`, in the folder of the bundle."""
        options = [word for name, value in self.options.items() for word in (f"--{name}".replace("_", "-"), str(value))]
        return shlex.join(["attncheck", "run", case, "--backend", self.backend, *options])

    @property
    def document(self) -> dict[str, Any]:
        """As `environment.json` holds it."""
        return {"backend": self.backend, "options": dict(self.options)}


def again(it: Subject, options: Mapping[str, Any], table: Table | None = None, needs: Sequence[str] = ()) -> Again:
    """How `it` is run again.

    options   what the call said, by parameter name, with paths as they are here. Raises OSError where one has gone
    table     what the configuration says of its backend; needs: the packages that it ran with, as pip writes them
    """
    launch, files = it.launch, {}
    kept = {name: options[name] for name in OPTIONS if options.get(name) is not None and name not in _FILES}
    if options.get("thresholds") is not None:
        files[THRESHOLDS] = Path(options["thresholds"]).read_bytes()
        kept["thresholds"] = THRESHOLDS
    if launch.runtime in _OWN_KERNELS and any(file.read_bytes() != _shipped(file) for file in launch.files):
        files |= {f"{SHADERS}/{file.name}": file.read_bytes() for file in launch.files}
        kept["shaders"] = SHADERS
    backend, function = it.result.backend, None
    if launch.runtime == "callable":
        function = f"{functions.FOLDER}/{Path(launch.options['file']).name}:{launch.options['function']}"
    if table is None:
        return Again(function or backend, kept, files)
    name = backend.partition("@")[0]
    files[TABLE] = f"{OURS}\n{written(name, _elsewhere(table, function, needs))}".encode()
    return Again(backend, kept, files)


def _elsewhere(table: Table, function: str | None, needs: Sequence[str]) -> Table:
    """A table as it holds on another machine: without its adapter, and with packages for its interpreter."""
    packages = table.requirements or (tuple(needs) if table.python is not None else ())
    return replace(table, use=function or table.use, python=None, adapter=None, requirements=packages)


def _shipped(file: Path) -> bytes | None:
    there = shipped.shaders_dir() / file.name
    return there.read_bytes() if there.is_file() else None


def read(folder: Path) -> Again | None:
    """What a bundle, or a folder that `minimize` left, says of how to run it, with paths that hold from here.

    None where it says nothing. Raises Unreadable.
    """
    if (folder / ENVIRONMENT).is_file():
        told = _json(folder / ENVIRONMENT, "bundle", FORMAT)
        found, verdict = told.get("run", {"backend": told.get("backend")}), told.get("verdict")
    elif (folder / MINIMAL).is_file():
        found = _json(folder / MINIMAL, "minimal", FORMAT)
        settings, failure = found.get("settings"), found.get("failure")
        verdict = failure.get("verdict") if isinstance(failure, dict) else None
        found = {**found, "options": _told(settings if isinstance(settings, dict) else {})}
    else:
        return None
    backend, options = found.get("backend"), found.get("options", {})
    if not isinstance(backend, str) or not isinstance(options, dict):
        raise Unreadable(f"{folder} does not say which backend it is about")
    kept = {name: options[name] for name in OPTIONS if name in options}
    kept |= {name: _beside(folder, str(kept[name])) for name in _FILES if name in kept}
    function = _FUNCTION.fullmatch(backend)
    named = _beside(folder, function[1]) + function[2] if function is not None else backend
    return Again(named, kept, verdict=str(verdict or ""))


def _told(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a search, but for what is said where nobody has said anything."""
    unsaid = (None, "auto")
    return {name: value for name, value in settings.items() if value not in unsaid}


def _beside(folder: Path, path: str) -> str:
    """The file in the folder, or else where it says."""
    return str(folder / path) if (folder / path).exists() else path


def _json(path: Path, key: str, wanted: int) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as why:
        raise Unreadable(f"{path} cannot be read: {why}") from why
    if not isinstance(data, dict) or data.get(key) != wanted:
        was = data.get(key) if isinstance(data, dict) else None
        raise Unreadable(
            f"{path} is in format {json.dumps(was)}, and this attncheck reads {wanted}; "
            "take the attncheck that wrote it, or write it anew"
        )
    return data
