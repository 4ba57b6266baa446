"""Interpreters with the packages that a backend requires: made once, kept in the user's cache, shared by all runs.

Made with uv where it is present, else with venv and pip, both as this machine is configured for them. A stamp is
written last, so that an interrupted environment is made anew; a lock keeps two runs from making the same one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import filelock
import platformdirs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from attncheck.backends.base import BackendUnavailable, Launch

Note = Callable[[str], None]
"""Takes a line on what goes on: making an environment may take a minute."""

STAMP = "attncheck-environment.json"
LAST_LINES = 6
PIP_OPTIONS = ("--disable-pip-version-check",)
ACTIVATED = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX")
"""What an activated environment leaves behind, and which would make an installer look elsewhere."""


def ready(launch: Launch, note: Note) -> Launch:
    """`launch` with an interpreter that can run it: the one named, or one with its requirements, made when need be.

    Raises BackendUnavailable: no such interpreter, or an environment that cannot be made, with the installer's words.
    """
    python = _interpreter(launch.python) if launch.python is not None else None
    if not launch.requirements:
        return replace(launch, python=python)
    made = provision(launch.requirements, python or os.path.realpath(sys.executable), note)
    return replace(launch, python=str(made), requirements=())


def provision(requirements: Sequence[str], python: str, note: Note) -> Path:
    """The interpreter of a cached environment with `requirements`, and numpy. Raises BackendUnavailable."""
    wanted = Environment(tuple(requirements), python)
    folder = wanted.folder
    if wanted.is_complete():
        return wanted.interpreter
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        return _provided(wanted, note)
    except OSError as error:
        raise BackendUnavailable(
            f"its environment with {wanted} cannot be kept in {folder}: {error.strerror or error}"
        ) from error


def _provided(wanted: Environment, note: Note) -> Path:
    """The interpreter of `wanted`, made by this run or by the one that holds the lock."""
    lock = filelock.FileLock(f"{wanted.folder}.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        note(f"waiting for another run that is installing {wanted}")
        lock.acquire()
    try:
        if not wanted.is_complete():  # the other run may have made it
            _make(wanted, note)
    finally:
        lock.release()
    return wanted.interpreter


@dataclass(frozen=True)
class Environment:
    """A virtual environment: its requirements and the interpreter that it is made from; both together are its key."""

    requirements: tuple[str, ...]
    python: str

    @property
    def packages(self) -> tuple[str, ...]:
        """What is installed: the requirements, and numpy, which the worker itself needs."""
        return (*self.requirements, *(() if any(project(it) == "numpy" for it in self.requirements) else ("numpy",)))

    @property
    def folder(self) -> Path:
        """Where it lies."""
        key = hashlib.sha256(json.dumps([sorted(self.packages), self.python]).encode()).hexdigest()
        return platformdirs.user_cache_path("attncheck", appauthor=False) / "environments" / key[:16]

    @property
    def interpreter(self) -> Path:
        """Its own Python."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def is_complete(self) -> bool:
        """Whether it was made to its end, and is still there."""
        return (self.folder / STAMP).is_file() and self.interpreter.exists()

    def __str__(self) -> str:
        return ", ".join(self.requirements)


def _make(wanted: Environment, note: Note) -> None:
    uv = _uv()
    note(f"installing {wanted} with {'uv' if uv else 'pip'} for {wanted.python} (once; kept in {wanted.folder})")
    shutil.rmtree(wanted.folder, ignore_errors=True)
    try:
        for command in _commands(wanted, uv):
            _run(command, wanted)
    except BaseException:
        shutil.rmtree(wanted.folder, ignore_errors=True)
        raise
    (wanted.folder / STAMP).write_text(json.dumps({"requirements": wanted.requirements, "python": wanted.python}))


def _commands(wanted: Environment, uv: str | None) -> list[list[str]]:
    folder, interpreter = str(wanted.folder), str(wanted.interpreter)
    if uv is not None:
        return [
            [uv, "venv", "--quiet", "--no-config", "--no-project", "--python", wanted.python, folder],
            [uv, "pip", "install", "--quiet", "--python", interpreter, *wanted.packages],
        ]
    return [
        [wanted.python, "-I", "-m", "venv", folder],
        [interpreter, "-I", "-m", "pip", "install", "--quiet", "--no-input", *PIP_OPTIONS, *wanted.packages],
    ]


def _run(command: Sequence[str], wanted: Environment) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ACTIVATED}
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return
    said = [line.rstrip() for line in done.stdout.splitlines() if line.strip()][-LAST_LINES:]
    raise BackendUnavailable(
        f"its environment with {wanted} could not be made. `{_short(command)}` failed:\n"
        + "\n".join(f"    {line}" for line in said)
        + "\n  Check the names and versions, that they exist for that Python, and that this machine can reach a "
        "package index; or name an interpreter that has them already, by `python` in the table [backends.NAME]."
    )


def _short(command: Sequence[str]) -> str:
    return " ".join([Path(command[0]).name, *command[1:]])


def _uv() -> str | None:
    """uv, where it is there and runs: a version manager's shim may stand in its place."""
    found = shutil.which("uv")
    if found is None:
        return None
    answer = subprocess.run([found, "--version"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return found if answer.returncode == 0 else None


def _interpreter(python: str) -> str:
    """The interpreter's full path. Raises BackendUnavailable."""
    found = shutil.which(python)
    if found is None:
        raise BackendUnavailable(f"the interpreter {python} does not exist or cannot be executed")
    return found


def project(requirement: str) -> str:
    """The package that a requirement names, as indexes compare names. Raises ValueError for what is no requirement."""
    return canonicalize_name(Requirement(requirement).name)
