"""Environments are made once, whole, by one process at a time, or not at all with the installer's words."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from attncheck.backends import environments
from attncheck.backends.base import BackendUnavailable, Launch
from attncheck.backends.environments import STAMP, Environment, provision
from attncheck.backends.registry import Settings, create
from attncheck.engine import run as engine
from attncheck.engine.events import BackendFailed, BackendPreparing, BackendReady, CaseFinished
from attncheck.vocabulary import Verdict
from tests.drawing import scenario

SMALL = ("filelock>=3.16",)
PYTHON = os.path.realpath(sys.executable)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for environments; uv keeps its own, so that nothing is downloaded twice."""
    kept = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    monkeypatch.setenv("UV_CACHE_DIR", os.environ.get("UV_CACHE_DIR", f"{kept}/uv"))
    monkeypatch.setenv("PIP_CACHE_DIR", os.environ.get("PIP_CACHE_DIR", f"{kept}/pip"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def silent(_: str) -> None:
    pass


def test_a_launch_without_requirements_stays_as_it_is() -> None:
    assert environments.ready(Launch("ort"), silent) == Launch("ort")
    assert environments.ready(Launch("ort", python=sys.executable), silent).python == sys.executable


@pytest.mark.parametrize("python", ["/no/such/python", "no-such-python"])
@pytest.mark.parametrize("requirements", [(), SMALL])
def test_an_interpreter_that_is_not_there_is_told(python: str, requirements: tuple[str, ...]) -> None:
    with pytest.raises(BackendUnavailable, match=f"the interpreter {python} does not exist"):
        environments.ready(Launch("ort", python=python, requirements=requirements), silent)


def test_an_environment_is_known_by_its_requirements_in_any_order_and_its_interpreter(cache: Path) -> None:
    one = Environment(("a==1", "b==2"), PYTHON)
    assert one.folder == Environment(("b==2", "a==1"), PYTHON).folder
    assert one.folder != Environment(("a==1", "b==3"), PYTHON).folder
    assert one.folder != Environment(("a==1", "b==2"), "/another/python").folder
    assert one.folder.is_relative_to(cache)


def test_numpy_comes_along_unless_it_is_asked_for() -> None:
    assert Environment(("onnxruntime==1.23.2",), PYTHON).packages == ("onnxruntime==1.23.2", "numpy")
    assert Environment(("NumPy <2",), PYTHON).packages == ("NumPy <2",)


@pytest.mark.slow
@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_an_environment_is_made_once_and_made_anew_when_it_was_interrupted(
    cache: Path, monkeypatch: pytest.MonkeyPatch, installer: str
) -> None:
    if installer == "pip":
        monkeypatch.setattr(environments, "_uv", lambda: None)
    notes: list[str] = []
    made = provision(SMALL, PYTHON, notes.append)
    assert made.exists()
    assert len(notes) == 1
    assert notes[0].startswith("installing filelock>=3.16 with ")
    assert provision(SMALL, PYTHON, notes.append) == made
    assert len(notes) == 1
    folder = Environment(SMALL, PYTHON).folder
    (folder / STAMP).unlink()
    (folder / "left-behind").touch()
    assert provision(SMALL, PYTHON, notes.append) == made
    assert len(notes) == 2
    assert not (folder / "left-behind").exists()


@pytest.mark.slow
def test_of_two_runs_at_once_one_makes_it_and_the_other_waits(cache: Path) -> None:
    notes: list[str] = []
    made: list[Path] = []
    threads = [
        threading.Thread(target=lambda: made.append(provision(SMALL, PYTHON, notes.append))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made[0] == made[1]
    assert sorted(note.split()[0] for note in notes) == ["installing", "waiting"]


@pytest.mark.slow
@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_a_version_that_does_not_exist_is_told_with_the_installers_words_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, installer: str
) -> None:
    if installer == "pip":
        monkeypatch.setattr(environments, "_uv", lambda: None)
    wanted = ("filelock==0.0.99",)
    with pytest.raises(BackendUnavailable) as caught:
        provision(wanted, PYTHON, silent)
    told = str(caught.value)
    assert "its environment with filelock==0.0.99 could not be made" in told
    assert "install" in told.splitlines()[0]
    assert any("filelock==0.0.99" in line for line in told.splitlines()[1:-1])
    assert "Check the names and versions" in told
    assert not Environment(wanted, PYTHON).folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_offline_says_what_was_tried(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installer: str
) -> None:
    if installer == "pip":
        monkeypatch.setattr(environments, "_uv", lambda: None)
    for name in ("UV_CACHE_DIR", "PIP_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "empty"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(BackendUnavailable, match="could not be made") as caught:
        provision(("filelock==3.16.1",), PYTHON, silent)
    assert "this machine can reach a package index" in str(caught.value)


@pytest.mark.slow
def test_two_versions_of_onnx_runtime_stand_side_by_side_in_one_run() -> None:
    backends = [backend for name in ("ort-cpu@1.23.2", "ort-cpu") for backend in create(name, Settings())]
    found = list(engine.run([scenario(), scenario(id="f16", dtype="float16")], backends, None, engine.Options()))
    versions = {it.backend: it.hello.versions["onnxruntime"] for it in found if isinstance(it, BackendReady)}
    assert versions["ort-cpu@1.23.2"] == "1.23.2" != versions["ort-cpu"]
    assert {it.backend for it in found if isinstance(it, BackendPreparing)} <= {"ort-cpu@1.23.2"}
    results = [it for event in found if isinstance(event, CaseFinished) for it in event.results]
    passes = [("ort-cpu@1.23.2", Verdict.PASS), ("ort-cpu", Verdict.PASS)]
    assert [(it.backend, it.verdict) for it in results] == passes * 2


@pytest.mark.slow
def test_a_backend_that_cannot_be_installed_is_a_backend_that_cannot_start() -> None:
    (backend,) = create("ort-cpu@0.0.99", Settings())
    found = list(engine.run([scenario()], [backend], None, engine.Options()))
    assert not any(isinstance(event, CaseFinished) for event in found)
    (failed,) = [event for event in found if isinstance(event, BackendFailed)]
    assert "onnxruntime==0.0.99 could not be made" in failed.message
