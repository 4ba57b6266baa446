"""tools/setup.sh says what is missing, and does nothing a second time. What it installs: test_packaging_machine.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SYSTEM_TOOLS = ("bash", "dirname", "env", "id", "cksum", "rm")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the set-up is a POSIX shell script")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which nothing is set up yet, with as little in it as the set-up looks at."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    for name in ("pyproject.toml", "requirements-dev.lock"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def set_up(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "tools" / "setup.sh"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_python_that_was_asked_for_and_does_not_fit_is_named(checkout: Path) -> None:
    outcome = set_up(checkout, PYTHON="/bin/false")
    assert outcome.returncode == 1
    assert "PYTHON is set to '/bin/false', which is not a working Python 3.11 or newer" in outcome.stderr
    assert not (checkout / ".venv").exists()


def test_without_any_python_the_packages_to_install_are_named(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in SYSTEM_TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (tools / tool).symlink_to(found)

    outcome = set_up(checkout, PATH=str(tools))

    assert outcome.returncode == 1
    assert "no Python 3.11 or newer was found" in outcome.stderr
    assert "sudo apt-get install python3 python3-venv" in outcome.stderr
    assert not (checkout / ".venv").exists()


def is_stamped(step: str, source: str) -> bool:
    """Whether the step was completed with `source` as it is; if not, a set-up would replace .venv under this test."""
    stamp = ROOT / ".venv" / f".attncheck-{step}"
    with (ROOT / source).open("rb") as file:
        checksum = subprocess.run(["cksum"], stdin=file, capture_output=True, text=True, check=True).stdout.strip()
    return stamp.is_file() and stamp.read_text(encoding="utf-8").endswith(checksum)


@pytest.mark.skipif(Path(sys.prefix) != ROOT / ".venv", reason="not run by the interpreter that the set-up made")
def test_a_second_set_up_does_nothing() -> None:
    if not (is_stamped("packages", "requirements-dev.lock") and is_stamped("attncheck", "pyproject.toml")):
        pytest.skip("pyproject.toml or the lock file changed since the set-up: run `make setup`")
    stamps = {path: path.stat().st_mtime_ns for path in (ROOT / ".venv").glob(".attncheck-*")}
    assert {stamp.name.removeprefix(".attncheck-") for stamp in stamps} >= {"packages", "attncheck", "adapter"}

    outcome = set_up(ROOT)

    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "")
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
