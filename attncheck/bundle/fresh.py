"""Running a script in a fresh process: a clean environment, its own folder, and no attncheck to import."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

KEPT = (
    *("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "WINDIR", "LOCALAPPDATA"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DISPLAY", "WAYLAND_DISPLAY"),
)
"""Variables that any program has; of others only those that choose a GPU, by their first letters."""

_OF_GPUS = ("VK_", "XDG_", "MESA_", "LIBGL_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_")

_CHOOSING = re.compile(r"(VK|MESA|LIBGL)_.+|.+_VISIBLE_DEVICES")
"""Those of them that say which GPU, or whose driver."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

LIMIT = 300.0
"""Seconds that the script may take."""

_ISOLATED = """\
import importlib.abc, importlib.machinery, os, runpy, sys

class OnlyBeside(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "attncheck":
            return None
        found = importlib.machinery.PathFinder.find_spec(name, [os.path.join(os.getcwd(), "beside")])
        if found is None:
            raise ModuleNotFoundError("attncheck is kept away: the script must not need it", name=name)
        return found

sys.meta_path.insert(0, OnlyBeside())
# In front, as any Python has it: what is installed as well may be another version.
sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
sys.argv = sys.argv[1:]
runpy.run_path(os.path.abspath(sys.argv[0]), run_name="__main__")
"""


@dataclass(frozen=True)
class Rerun:
    """What a script came to: its exit code, None where it did not end in time, and what it printed."""

    code: int | None
    output: str
    seconds: float

    @property
    def shows(self) -> bool:
        """Whether the failure showed."""
        return self.code == 1

    @property
    def words(self) -> str:
        """What it came to, in a sentence."""
        if self.code is None:
            return f"did not end within {LIMIT:.0f} seconds"
        meaning = {0: "the failure did not show", 1: "the failure shows", 2: "it could not run"}
        return f"exit code {self.code}: {meaning.get(self.code, 'it ended in another way than a script of ours does')}"


def rerun(script: Path, python: str | None, environment: Mapping[str, str]) -> Rerun:
    """Run `script` in its folder, isolated, under `python` or this interpreter."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(_OF_GPUS)}
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [python or sys.executable, "-I", "-c", _ISOLATED, script.name],
            cwd=script.parent,
            env={**kept, **_places(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
        return Rerun(None, _without(said, script.parent), time.perf_counter() - began)
    return Rerun(done.returncode, _without(done.stdout, script.parent), time.perf_counter() - began)


def _places() -> dict[str, str]:
    """PYTHONPATH, where a runtime may lie as well as among the installed packages, but for what holds attncheck."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = [str(Path(it).absolute()) for it in given if it and not (Path(it) / "attncheck").exists()]
    return {"PYTHONPATH": os.pathsep.join(kept)} if kept else {}


def _without(said: str, folder: Path) -> str:
    """What was printed, without colours, files of the folder by their names: where they lie is nobody's matter."""
    return _COLOUR.sub("", said).replace(f"{folder}{os.sep}", "")


def choosing() -> dict[str, str]:
    """The variables of this process that choose a GPU or its driver."""
    return {name: value for name, value in sorted(os.environ.items()) if _CHOOSING.fullmatch(name)}


def version(python: str | None) -> str:
    """Which Python that is."""
    asked = [python or sys.executable, "-I", "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
