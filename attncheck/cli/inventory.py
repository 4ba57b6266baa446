"""This machine and the packages on it, for `attncheck doctor`: told even where one of them is missing."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

from attncheck import __version__
from attncheck.reports.lines import Line, columns, line
from attncheck.shipped import scenarios_dir, shaders_dir

PACKAGES = (
    *("numpy", "onnx", "onnxruntime", "wgpu"),
    *("click", "filelock", "jinja2", "packaging", "platformdirs", "protobuf", "psutil", "pydantic", "rich"),
    "ruamel.yaml",
)
"""What attncheck depends on, the packages that compute first."""

_MESA_FOLDERS = ("mesa_shader_cache_db", "mesa_shader_cache")


def host() -> list[Line]:
    """attncheck, Python, the platform, and where things are."""
    facts = {
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "processors": str(os.cpu_count()),
        "scenarios": str(scenarios_dir()),
        "shaders": str(shaders_dir()),
        "shader cache": _shader_cache(),
    }
    return [line(f"attncheck {__version__}", "heading"), *columns(facts)]


def missing() -> list[str]:
    """The packages that are not installed."""
    return [name for name in PACKAGES if _version(name) is None]


def packages() -> list[Line]:
    """Every package with its version, and how to install what is missing."""
    lines = [line("packages", "heading"), *columns({name: _version(name) or "missing" for name in PACKAGES})]
    if missing():
        lines.append(line(f"  to install: {sys.executable} -m pip install {' '.join(missing())}", "caution"))
    return lines


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _shader_cache() -> str:
    """Where Mesa keeps compiled shaders: other drivers have their own places, which they do not tell."""
    if os.environ.get("MESA_SHADER_CACHE_DISABLE", "").lower() in {"1", "true", "yes"}:
        return "off (MESA_SHADER_CACHE_DISABLE)"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folders = [Path(os.environ.get("MESA_SHADER_CACHE_DIR") or home) / name for name in _MESA_FOLDERS]
    there = next((folder for folder in folders if folder.is_dir()), None)
    return f"{there} (Mesa)" if there is not None else "none yet (Mesa makes one)"
