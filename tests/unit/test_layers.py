"""The rooms of the house stay apart: nothing imports upward, and worker/ stands alone."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKER = ROOT / "attncheck" / "worker"
RUNTIMES = {"onnx", "onnxruntime", "torch", "wgpu", "wgpudawn"}
ARRAYS = {"ml_dtypes", "numpy"}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def imported_names(source: str) -> set[str]:
    """The top-level packages that a module imports anywhere in its text."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


def worker_modules() -> list[Path]:
    return sorted(WORKER.glob("*.py"))


def test_nothing_imports_upward() -> None:
    outcome = lint_imports(ROOT)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("problem.py", "import attncheck.graph.case"),
        ("oracle/answer.py", "import attncheck.compare.difference"),
        ("reports/__init__.py", "import attncheck.cli"),
    ],
)
def test_an_upward_import_is_caught(module: str, line: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "attncheck", tmp_path / "attncheck", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "attncheck" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")

    outcome = lint_imports(tmp_path)

    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    assert line.removeprefix("import ") in outcome.stdout


@pytest.mark.parametrize("path", worker_modules(), ids=lambda path: path.name)
def test_a_worker_module_imports_its_siblings_numpy_and_one_runtime_only(path: Path) -> None:
    siblings = {module.stem for module in worker_modules()}
    foreign = imported_names(path.read_text(encoding="utf-8")) - sys.stdlib_module_names - siblings - ARRAYS
    assert foreign <= RUNTIMES, f"{path.name} imports {sorted(foreign - RUNTIMES)}"
    assert len(foreign) <= 1, f"{path.name} imports more than one runtime: {sorted(foreign)}"


@pytest.mark.parametrize("path", worker_modules(), ids=lambda path: path.name)
def test_a_worker_module_is_written_in_syntax_that_older_interpreters_read(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 8))


def test_the_house_shares_nothing_with_the_worker_but_the_wire_format() -> None:
    shared = {
        name
        for path in (ROOT / "attncheck").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attncheck.worker")
        for name in ([node.module] if node.module != "attncheck.worker" else [alias.name for alias in node.names])
    }
    assert shared <= {"wire", "attncheck.worker.wire"}, "worker/ is run by path, so that another interpreter can run it"
