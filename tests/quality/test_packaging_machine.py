"""The two commands of the README on a machine that has nothing yet: a minimal Debian made for the test.

By hand, as root, with debootstrap installed: `.venv/bin/python -m pytest -m provisioning`. The machine is a folder
entered by chroot; this one lends it the package sources and certificates that it is itself configured for, no more.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITES = ("bookworm", "trixie")
GIVEN = "ca-certificates,git,make,python3"
LENT = (
    "/etc/apt/sources.list.d/debian.sources",
    "/etc/apt/apt.conf.d",
    "/etc/hosts",
    "/etc/pip.conf",
    "/etc/resolv.conf",
    "/etc/ssl/certs/ca-certificates.crt",
)
Command = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = [
    pytest.mark.provisioning,
    pytest.mark.skipif(
        os.name != "posix" or os.geteuid() != 0 or shutil.which("debootstrap") is None,
        reason="needs root and debootstrap",
    ),
]


def lend(machine: Path, suite: str) -> None:
    """Let the machine reach packages the way that this one does."""
    for name in LENT:
        source, target = Path(name), machine / name[1:]
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    sources = machine / "etc/apt/sources.list.d/debian.sources"
    here = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(encoding="utf-8"), re.MULTILINE)
    assert here is not None
    sources.write_text(sources.read_text(encoding="utf-8").replace(here[1], suite), encoding="utf-8")
    (machine / "etc/apt/sources.list").unlink(missing_ok=True)
    for stale in (machine / "var/lib/apt/lists").glob("*_*"):
        stale.unlink()


@pytest.fixture(scope="module", params=SUITES)
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root folder of a minimal machine with a clone of what is committed here."""
    path = tmp_path_factory.mktemp("machine") / "root"
    mirror = re.search(r"^URIs:\s*(\S+)", Path(LENT[0]).read_text(encoding="utf-8"), re.MULTILINE)
    assert mirror is not None
    debootstrap = ["debootstrap", "--variant=minbase", f"--include={GIVEN}", request.param, str(path), mirror[1]]
    subprocess.run(debootstrap, check=True, capture_output=True, timeout=900)
    lend(path, request.param)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(path / "srv/attncheck")], check=True, timeout=60)
    return path


@pytest.fixture
def command(machine: Path) -> Command:
    """Run a shell command in the clone on the machine, as root or as another user."""

    def run(text: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        # A mount and a process namespace of its own: whatever the command leaves behind goes with it.
        mounted = f"mount -t proc proc {machine}/proc && mount --bind /dev {machine}/dev"
        bare = "env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin"
        inside = f"exec chroot --userspec={user} {machine} {bare} sh -c 'cd /srv/attncheck && {text}'"
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "sh", "-c", f"{mounted} && {inside}"],
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )

    return run


def test_where_nothing_may_be_installed_the_package_to_install_is_named(command: Command) -> None:
    outcome = command("make run", user="nobody")
    assert outcome.returncode == 2
    assert re.search(r"^ +sudo apt-get install python3\.\d+-venv$", outcome.stderr, re.MULTILINE), outcome.stderr


def test_make_run_sets_up_and_passes(command: Command) -> None:
    outcome = command("make run")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "installing the package mesa-vulkan-drivers" in outcome.stderr
    passed = re.search(r"^(\d+) passed", outcome.stdout.splitlines()[-1])
    assert passed is not None, outcome.stdout
    assert int(passed[1]) >= 80


def test_a_second_set_up_says_nothing(command: Command) -> None:
    outcome = command("make setup")
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "")


def test_make_test_is_green(command: Command) -> None:
    outcome = command("make test")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
