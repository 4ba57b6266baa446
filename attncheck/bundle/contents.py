"""The bundle as files: made beside its place, its script run in a fresh process, then put there as a whole."""

from __future__ import annotations

import io
import json
import math
import platform
import re
import shlex
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck import __version__
from attncheck.backends.base import BackendUnavailable
from attncheck.backends.environments import project
from attncheck.backends.tables import Table
from attncheck.bundle import endings, fresh, issue, script, words
from attncheck.bundle.again import ENVIRONMENT, FORMAT, MINIMAL, OURS, TABLE, Again, again
from attncheck.bundle.fresh import Rerun
from attncheck.bundle.runtimes import beside
from attncheck.bundle.runtimes.ort import CPU
from attncheck.bundle.runtimes.several import numbered
from attncheck.bundle.subject import Piece, Subject, plain
from attncheck.engine import trial
from attncheck.engine.files import write_whole
from attncheck.graph.session import session
from attncheck.reports import device as device_words
from attncheck.scenario import ScenarioErrors, load
from attncheck.scenario.model import Scenario
from attncheck.scenario.written import file_text

CASE, MODEL, INPUTS, EXPECTED = "case.yaml", "model.onnx", "inputs.npz", "expected.npz"
SCENARIO = "failing"
"""What the one scenario of case.yaml is called."""

MARKS = (CASE, MODEL, MINIMAL, ENVIRONMENT, "journal.lock")
"""A folder with one of these may be written into: a bundle, or what minimize has left."""

MORE_RUNS, MOST_RUNS = 10, 200
"""How often the script tries a failure that does not show in every run: so often at least, and at most."""

_NUMBERED = re.compile(r"[a-z]+-\d+\.[a-z]+")

_STAMP = (1980, 1, 1, 0, 0, 0)


class NoPlace(Exception):
    """The bundle cannot be written there. The message says why."""


@dataclass(frozen=True)
class Bundle:
    """What was written: the folder, the zip file, the names in them, and what the script came to.

    lacks   why it cannot run by itself, where that is known
    """

    folder: Path
    archive: Path
    files: tuple[str, ...]
    rerun: Rerun
    lacks: str = ""

    @property
    def wanting(self) -> str:
        """Why the script does not show the failure by itself, as far as that is known; empty where it does."""
        if self.rerun.shows:
            return ""
        printed = f"what it printed stands in {ENVIRONMENT}"
        return f"{self.lacks}; {printed}" if self.lacks else printed


def check_place(folder: Path) -> None:
    """Raise NoPlace where the folder may hold what is not ours."""
    if folder.is_dir() and any(folder.iterdir()) and not any((folder / it).exists() for it in MARKS):
        raise NoPlace(f"{folder} is a folder with other things in it; name one that is empty or not there yet")
    table = folder / TABLE
    if table.is_file() and not table.read_bytes().startswith(OURS.encode()):
        raise NoPlace(f"{table} is a configuration of your own; name another folder")
    if folder.exists() and not folder.is_dir():
        raise NoPlace(f"{folder} is a file; name a folder")


def clear(folder: Path) -> None:
    """Remove what a bundle or `minimize` has left, but for its journal and what its backend is made of. Raises OSError.

    So what is not written again is of no older case.
    """
    names = (CASE, MODEL, INPUTS, EXPECTED, MINIMAL, ENVIRONMENT, script.NAME, issue.NAME)
    for path in [*(folder / name for name in names), *_of_earlier_calls(folder)]:
        path.unlink(missing_ok=True)
    shutil.rmtree(folder / beside.FOLDER, ignore_errors=True)


def _of_earlier_calls(folder: Path) -> list[Path]:
    """Files of calls of a session before its last."""
    found = (path for name in (MODEL, INPUTS, EXPECTED) for path in folder.glob(name.replace(".", "-*.")))
    return [path for path in found if _NUMBERED.fullmatch(path.name)]


def write(
    folder: Path,
    it: Subject,
    scenario: Scenario | None,
    minimal: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    table: Table | None = None,
) -> Bundle:
    """Write the bundle of `it` into `folder`, and beside it as a zip file. Raises NoPlace, Unscripted, OSError.

    scenario  what the case was asked for as: a session, say, of which `it` is one step
    minimal   what `minimize` has found, as minimal.json holds it; without, that of the folder, where it has one
    options   of the call, those that decide what the case comes to, by parameter name
    table     what the configuration says of the backend, where it does
    """
    check_place(folder)
    minimal = _minimal(folder) if minimal is None else minimal
    parts = script.piece(it)
    run = again(it, options or {}, table, parts.needs)
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.absolute().parent) as name:
        made = Path(name) / folder.absolute().name
        made.mkdir()
        rerun = _fill(made, it, scenario, minimal, run, parts)
        files = tuple(sorted(path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()))
        archive = folder.absolute().with_name(f"{folder.absolute().name}.zip")
        content = _zipped(made, files)
        _move(made, folder)
    write_whole(archive, content)
    return Bundle(folder, folder.with_name(archive.name) if folder.name else archive, files, rerun, parts.lacks)


def _fill(
    made: Path, it: Subject, scenario: Scenario | None, minimal: Mapping[str, Any] | None, run: Again, parts: Piece
) -> Rerun:
    case = _case_file(made, scenario, run, words.title(it, minimal))
    for number, call in enumerate(it.calls):
        model, inputs, expected = (numbered(name, it)[number] for name in (MODEL, INPUTS, EXPECTED))
        stated = {answer.output: np.where(answer.stated, answer.values, np.nan) for answer in call.answers}
        (made / model).write_bytes(call.case.model)
        (made / inputs).write_bytes(_npz(call.case.inputs))
        (made / expected).write_bytes(_npz(stated))
    for name, content in {**parts.files, **run.files}.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(content)
    text, rerun = _shown(made, it, parts, minimal)
    environment = _environment(it, rerun, run, parts.needs)
    (made / ENVIRONMENT).write_text(json.dumps(environment, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if minimal is not None:
        minimal = {**minimal, "backend": run.backend, "settings": _within(minimal.get("settings"), run)}
        (made / MINIMAL).write_text(json.dumps(minimal, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    told = issue.text(it, environment, text, rerun, case, minimal, "" if rerun.shows else parts.lacks)
    (made / issue.NAME).write_text(told, encoding="utf-8")
    return rerun


def _shown(made: Path, it: Subject, parts: Piece, minimal: Mapping[str, Any] | None) -> tuple[str, Rerun]:
    """The script, and what it came to. A failure that does not show in every run is tried more often."""
    told = words.title(it, minimal), words.about(it, minimal)
    often = _tries(it, minimal)
    text, rerun = _run(made, it, parts, told, often if words.flaky(it, minimal) else 1)
    if rerun.code == 0:
        again = _run(made, it, parts, told, often)
        text, rerun = again if again[1].code is not None else _run(made, it, parts, told, 1)
    for cache in made.rglob("__pycache__"):
        shutil.rmtree(cache, ignore_errors=True)
    return text, rerun


def _tries(it: Subject, minimal: Mapping[str, Any] | None) -> int:
    """How often the script tries: so that a failure as rare as it was seen to be is missed once in a thousand times.

    In children it is tried so often squared.
    """
    failed, of = words.how_often(minimal)
    if endings.needs_child(it.result.verdict) or not 0 < failed < of:
        return MORE_RUNS
    return max(MORE_RUNS, min(MOST_RUNS, math.ceil(math.log(1e-3) / math.log1p(-failed / of))))


def _run(made: Path, it: Subject, parts: Piece, told: tuple[str, str], runs: int) -> tuple[str, Rerun]:
    title, about = told
    text = script.text(it, parts, title, about, fresh.version(it.launch.python), runs)
    (made / script.NAME).write_text(text, encoding="utf-8")
    return text, fresh.rerun(made / script.NAME, it.launch.python, it.launch.environment)


def _within(settings: Any, run: Again) -> dict[str, Any]:
    """The settings of a search with the files that they name as they lie in the bundle."""
    named = {name: run.options.get(name) for name in ("shaders", "thresholds")}
    return {**(settings if isinstance(settings, dict) else {}), **named}


def _case_file(made: Path, scenario: Scenario | None, run: Again, title: str) -> str | None:
    """Write the scenario as a file, where it loads and gives the same case again; its text."""
    if scenario is None:
        return None
    heading = f"{title}\nRun it, in this folder: {run.command(CASE)}"
    text = file_text(scenario, SCENARIO, heading)
    (made / CASE).write_text(text, encoding="utf-8")
    try:
        (again,) = load([made / CASE], made)
        same = session(again).digest == session(scenario).digest
    except (ScenarioErrors, ValueError):
        same = False
    if not same:
        (made / CASE).unlink()
        return None
    return text


def _environment(it: Subject, rerun: Rerun, run: Again, needs: Sequence[str]) -> dict[str, Any]:
    device = {name: value for name, value in it.hello.device.items() if name not in {"limits", "file", "refuses"}}
    reference = it.reference
    return {
        "bundle": FORMAT,
        "attncheck": __version__,
        "case": it.case.id,
        "digest": it.case.digest,
        "backend": it.result.backend,
        "run": run.document,
        "kernel": it.result.kernel,
        "verdict": str(it.result.verdict),
        "reference": None if reference is None else {"backend": reference.backend, "verdict": str(reference.verdict)},
        "versions": versions(it, needs),
        "device": plain(device),
        "adapters": _adapters(it),
        "python": fresh.version(it.launch.python),
        "platform": platform.platform(),
        "requirements": list(it.required),
        "environment": dict(it.launch.environment),
        "gpu": fresh.choosing(),
        "repro": {
            "install": f"pip install {shlex.join(needs)}",
            "exit_code": rerun.code,
            "shows": rerun.shows,
            "seconds": round(rerun.seconds, 3),
            "output": rerun.output.splitlines(),
        },
    }


def _adapters(it: Subject) -> list[str]:
    """The adapters that there are, where the runtime computes on one of them and does not say on which."""
    if it.launch.runtime != "ort" or it.hello.device.get("provider") == CPU:
        return []
    try:
        return [device_words.adapter(one) for one in trial.adapters(it.launch.environment)]
    except BackendUnavailable:
        return []


def versions(it: Subject, needs: Sequence[str]) -> dict[str, str]:
    """What the worker said, and of what else the script needs what is known; the Python is told beside them."""
    pinned = (need.partition("==") for need in needs)
    told = {name: version for name, version in it.hello.versions.items() if name != "python"}
    known = {project(name) for name in told}
    return told | {name: version for name, _, version in pinned if version and project(name) not in known}


def _minimal(folder: Path) -> Mapping[str, Any] | None:
    try:
        found = json.loads((folder / MINIMAL).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _npz(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **dict(arrays))  # type: ignore[arg-type]
    return file.getvalue()


def _zipped(made: Path, files: Iterable[str]) -> bytes:
    """All files under the folder's name, the same bytes for the same files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in files:
            archive.writestr(zipfile.ZipInfo(f"{made.name}/{name}", _STAMP), (made / name).read_bytes())
    return content.getvalue()


def _move(made: Path, folder: Path) -> None:
    """Put what was made in its place: at once where nothing is there, else file by file.

    Earlier calls of another session, which an older bundle or `minimize` has left there, go, and an older table.
    """
    if not folder.exists():
        made.replace(folder)
        return
    for path in (*_of_earlier_calls(folder), folder / TABLE):
        if not (made / path.name).exists():
            path.unlink(missing_ok=True)
    for path in sorted(made.rglob("*")):
        there = folder / path.relative_to(made)
        if path.is_dir():
            there.mkdir(exist_ok=True)
        else:
            path.replace(there)
