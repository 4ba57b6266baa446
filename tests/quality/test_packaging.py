"""What leaves the repository: a wheel and an sdist that work anywhere, and text that names no one's machine."""

from __future__ import annotations

import ast
import itertools
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import attncheck
from attncheck.scenario.select import SET_APART

ROOT = Path(__file__).resolve().parents[2]
APART: list[list[str]] = [[], *(["--tag", tag, "--memory-limit", "999G"] for tag in SET_APART)]
"""What to ask of `run` so that every shipped case is meant."""


def build(target: str, source: Path, into: Path) -> Path:
    """Build `target` (wheel or sdist) of the tree at `source`, without the network, and return the file made."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(into)],
        cwd=source,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (made,) = into.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def members(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def shipped_files() -> set[str]:
    return {
        f"attncheck/_shipped/{path.relative_to(ROOT).as_posix()}"
        for folder, pattern in (("shaders", "*.wgsl"), ("scenarios", "*.yaml"), ("docs/verdicts", "*.md"))
        for path in (ROOT / folder).glob(pattern)
    }


def test_the_wheel_carries_every_shader_scenario_and_page_on_a_verdict(wheel: Path) -> None:
    shipped = shipped_files()
    assert any(name.endswith(".wgsl") for name in shipped)
    assert any(name.endswith(".yaml") for name in shipped)
    assert any(name.endswith("/flags.md") for name in shipped)
    assert shipped <= members(wheel)


def test_the_wheel_carries_the_files_that_init_writes(wheel: Path) -> None:
    starter = {it.relative_to(ROOT).as_posix() for it in (ROOT / "attncheck" / "cli" / "starter").iterdir()}
    assert len(starter) == 3
    assert starter <= members(wheel)


def test_the_wheel_carries_the_worker_scripts(wheel: Path) -> None:
    scripts = {path.relative_to(ROOT).as_posix() for path in (ROOT / "attncheck" / "worker").glob("*.py")}
    assert scripts
    assert scripts <= members(wheel)


def test_the_wheel_carries_what_the_html_report_is_made_of(wheel: Path) -> None:
    folder = ROOT / "attncheck" / "reports" / "html" / "templates"
    parts = {path.relative_to(ROOT).as_posix() for path in folder.iterdir()}
    assert {Path(part).suffix for part in parts} == {".html", ".css", ".js"}
    assert parts <= members(wheel)


def test_the_wheel_holds_the_package_and_nothing_beside_it(wheel: Path) -> None:
    assert {name.partition("/")[0] for name in members(wheel)} == {
        "attncheck",
        f"attncheck-{attncheck.__version__}.dist-info",
    }
    assert not [name for name in members(wheel) if "__pycache__" in name]


def test_a_wheel_built_from_the_sdist_is_the_same(wheel: Path, tmp_path: Path) -> None:
    sdist = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        # Before 3.11.4 there is no filter to be asked for.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(tmp_path / "source")
    (source,) = (tmp_path / "source").iterdir()
    assert members(build("wheel", source, tmp_path / "again")) == members(wheel)


@pytest.mark.slow
def test_an_installed_wheel_works_from_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    empty = tmp_path / "empty"
    empty.mkdir()
    bare = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    scripts = environment / ("Scripts" if os.name == "nt" else "bin")

    def run(*command: str | Path) -> str:
        outcome = subprocess.run(
            command, cwd=empty, env=bare, capture_output=True, text=True, timeout=300, check=False
        )
        assert outcome.returncode == 0, f"{command}\n{outcome.stdout}{outcome.stderr}"
        return outcome.stdout

    run(sys.executable, "-m", "venv", environment)
    pip = (scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--require-hashes", "--only-binary", ":all:", "--requirement", ROOT / "requirements.lock")
    run(*pip, "--no-deps", "--no-index", wheel)

    assert attncheck.__version__ in run(scripts / "attncheck", "--version")
    listed = "".join(run(scripts / "attncheck", "run", *tags, "--list") for tags in APART)
    for path in (ROOT / "scenarios").glob("*.yaml"):
        assert f"shipped/{path.name}::" in listed


def locked(lock: str) -> dict[str, str]:
    """Package name -> version, of a lock file."""
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE))


def requirement_name(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return re.sub(r"[._-]+", "-", name.group()).lower()


def project_table() -> dict[str, list[str]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        table = tomllib.load(file)
    extras = itertools.chain.from_iterable(table["project"]["optional-dependencies"].values())
    return {
        "runtime": table["project"]["dependencies"],
        "extras": list(extras),
        "dev": table["dependency-groups"]["dev"],
        "docs": table["dependency-groups"]["docs"],
    }


def test_the_locks_hold_every_dependency_and_agree_with_each_other() -> None:
    runtime, everything = locked("requirements.lock"), locked("requirements-dev.lock")
    assert {requirement_name(r) for r in project_table()["runtime"]} <= runtime.keys()
    assert {requirement_name(r) for r in project_table()["dev"]} <= everything.keys()
    assert runtime.items() <= everything.items()
    site = locked("requirements-docs.lock")
    assert {requirement_name(r) for r in project_table()["docs"]} <= site.keys()
    assert all(everything.get(name, version) == version for name, version in site.items())


def test_each_dependency_has_its_line_in_the_decisions() -> None:
    decisions = (ROOT / "docs" / "decisions" / "dependencies.md").read_text(encoding="utf-8")
    named = {requirement_name(name) for name in re.findall(r"^\| `([^`]+)`", decisions, re.MULTILINE)}
    required = itertools.chain.from_iterable(project_table().values())
    assert named == {requirement_name(requirement) for requirement in required}


def imported_packages() -> dict[str, str]:
    """Third-party package that attncheck imports -> one of the files that do, as a path."""
    own = {"attncheck", *(path.stem for path in (ROOT / "attncheck" / "worker").glob("*.py"))}
    found = {}
    for path in sorted((ROOT / "attncheck").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in {name.partition(".")[0] for name in names} - own - sys.stdlib_module_names:
                found[name] = str(path.relative_to(ROOT))
    return found


def test_each_import_is_a_declared_dependency() -> None:
    table = project_table()
    declared = {requirement_name(requirement) for requirement in table["runtime"] + table["extras"]}
    came_along = {"ml-dtypes", "pydantic-core"}  # required by onnx and pydantic
    renamed = {"ruamel": "ruamel-yaml", "google": "protobuf"}
    undeclared = {
        name: path
        for name, path in imported_packages().items()
        if renamed.get(name, name.replace("_", "-")) not in declared | came_along
    }
    assert undeclared == {}


FOREIGN_TEXT = re.compile(
    r"""
      https?://\S*(?:py[p]i|pythonhos[t]ed|npm[j]s|deb[.]debian|archive[.]ubuntu)  # a registry's address
    | --(?:extra-)?index-u[r]l\s+\S*://                                            # a registry, as an option of pip
    | ^\s*(?:extra-)?index-u[r]l\s*=                                               # a registry, as a setting
    | (?<![\w.])/(?:ro[o]t|wo[r]k|hom[e]/\w+|Us[e]rs/\w+)/[\w.]                        # a path of someone's machine
    """,
    re.VERBOSE | re.MULTILINE,
)


def repository_files() -> list[Path]:
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout, so what belongs to the repository is not known")
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_names_a_registry_or_a_path_of_someones_machine() -> None:
    found = []
    for path in repository_files():
        text = path.read_bytes().decode("utf-8", errors="replace")
        for match in FOREIGN_TEXT.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path.relative_to(ROOT)}:{line}: {match.group()}")
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "see https://" + "pypi.example/simple",
        "pip install --extra-index-" + "url http://mirror.example/simple x",
        "index-" + "url = http://mirror.example",
        "cd /wo" + "rk/main",
        "run /ro" + "ot/.local/bin/tool",
        "C = '/hom" + "e/someone/x'",
    ],
)
def test_such_text_would_be_found(text: str) -> None:
    assert FOREIGN_TEXT.search(text)
