"""The files that `attncheck init` writes, and what it says then."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from attncheck import __version__
from attncheck.cli.configuration import NAME, PYPROJECT
from attncheck.cli.messages import Stop, unwritten
from attncheck.engine.files import write_whole
from attncheck.scenario.document import schema_text
from attncheck.vocabulary import ExitCode

STARTER = Path(__file__).parent / "starter"
"""The folder of the files that are written as they are."""

FIRST = "scenarios/first.yaml"
SCHEMA = "scenarios/attncheck.schema.json"
WORKFLOW = ".github/workflows/attncheck.yml"


UNPUBLISHED = f"attncheck=={__version__}"
"""What pip is told to install where nothing better is known."""


def contents(requirement: str = UNPUBLISHED) -> Mapping[str, str]:
    """Path below the folder -> what stands in the file; `requirement` is what the workflow tells pip to install."""
    return {
        NAME: _starter("attncheck.toml"),
        FIRST: _starter("first.yaml"),
        SCHEMA: schema_text(),
        WORKFLOW: _starter("workflow.yml").replace("@REQUIREMENT@", requirement),
    }


def write(folder: Path) -> None:
    """Write all files, or none where one of them is there already. Raises Stop (exit code 2)."""
    requirement, reachable = origin(_direct_url())
    made = contents(requirement)
    there = [name for name in made if (folder / name).exists() or (folder / name).is_symlink()]
    if there:
        raise Stop(f"{_listed(folder, there)} there already; nothing was written", ExitCode.USAGE)
    if _configured(folder / PYPROJECT):
        raise Stop(
            f"{folder / PYPROJECT} has [tool.attncheck], which {NAME} beside it would hide; nothing was written",
            ExitCode.USAGE,
        )
    for name, text in made.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode())
        except OSError as failed:
            raise unwritten(path, failed) from None
        click.echo(f"wrote {path}")
    click.echo(_next(folder, "" if reachable else requirement))


def origin(direct_url: str | None) -> tuple[str, bool]:
    """What pip is to be told to install this attncheck on another machine, and whether that can be reached from there.

    direct_url   what pip noted of an installation from an address or a path (PEP 610), "" of one from an index, None
                 where there is no installation, only a checkout on Python's path
    """
    noted: Any = json.loads(direct_url) if direct_url else {}
    url = str(noted.get("url", ""))
    if not url.startswith("https://"):
        return UNPUBLISHED, direct_url == ""
    vcs = noted.get("vcs_info")
    folder = f"#subdirectory={noted['subdirectory']}" if "subdirectory" in noted else ""
    address = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url
    return f"attncheck @ {address}{folder}", True


def _direct_url() -> str | None:
    try:
        return metadata.distribution("attncheck").read_text("direct_url.json") or ""
    except metadata.PackageNotFoundError:
        return None


def _next(folder: Path, unreachable: str) -> str:
    """The commands to go on with; a shell knows what is behind their #.

    unreachable   what the workflow installs, where that stands on no index: then it is to be edited
    """
    commands = {
        f"cd {shlex.quote(str(folder))}": "" if folder == Path() else "ids and paths are relative to it",
        "attncheck doctor": "what can run on this machine",
        "attncheck run": "attncheck's own kernels, beside ONNX Runtime's",
        "attncheck run --backend kernel.py:attention": "your function instead",
        f"edit {WORKFLOW}": f"{unreachable} is on no index: in Install name what pip can reach" if unreachable else "",
    }
    told = {command: why for command, why in commands.items() if why}
    width = max(map(len, told))
    return "\n".join(["next:", *(f"  {command.ljust(width)}  # {why}" for command, why in told.items())])


def _starter(name: str) -> str:
    return (STARTER / name).read_text(encoding="utf-8")


def _listed(folder: Path, names: list[str]) -> str:
    return f"{', '.join(str(folder / name) for name in names)} {'is' if len(names) == 1 else 'are'}"


def _configured(path: Path) -> bool:
    """Whether a pyproject.toml holds attncheck's options."""
    try:
        return "attncheck" in tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, ValueError):
        return False
