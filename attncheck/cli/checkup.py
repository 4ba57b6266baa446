"""What `attncheck doctor` finds. Whatever touches a driver happens in a worker process, since a driver may crash."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

from attncheck import __version__
from attncheck.backends.base import Backend, BackendUnavailable, Launch
from attncheck.backends.registry import Settings, create
from attncheck.cli.options import DEFAULT_CANDIDATE, DEFAULT_REFERENCE
from attncheck.cli.output import Printer
from attncheck.engine.worker import Worker
from attncheck.reports import device
from attncheck.reports.lines import BLANK, Line, Span, line, paragraph
from attncheck.shipped import scenarios_dir, shaders_dir
from attncheck.vocabulary import ExitCode

PACKAGES = ("numpy", "onnx", "onnxruntime", "wgpu", "click", "rich", "pydantic", "ruamel.yaml")


def run() -> ExitCode:
    """Print the findings; exit code 4 when a default backend cannot run here."""
    printer = Printer()
    printer.print([*_host(), BLANK, *_packages(), BLANK])
    printer.print([*_adapters(printer.width), BLANK])
    healthy = True
    for name in (DEFAULT_CANDIDATE, DEFAULT_REFERENCE):
        (backend,) = create(name, Settings())
        lines, well = _backend(backend, printer.width)
        healthy &= well
        printer.print([*lines, BLANK])
    verdict = line("attncheck can run here", "good") if healthy else line("a default backend cannot run here", "bad")
    printer.print([verdict])
    return ExitCode.OK if healthy else ExitCode.BACKEND


def _host() -> list[Line]:
    return [
        line(f"attncheck {__version__}", "heading"),
        *device.table(
            {
                "python": f"{platform.python_version()} ({sys.executable})",
                "platform": platform.platform(),
                "processors": str(os.cpu_count()),
                "scenarios": str(scenarios_dir()),
                "shaders": str(shaders_dir()),
                "shader cache": _shader_cache(),
            }
        ),
    ]


def _packages() -> list[Line]:
    found = {name: _version(name) for name in PACKAGES}
    missing = [name for name, version in found.items() if version is None]
    lines = [line("packages", "heading"), *device.table({name: text or "missing" for name, text in found.items()})]
    if missing:
        lines.append(line(f"  to install: python -m pip install {' '.join(missing)}", "caution"))
    return lines


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _adapters(width: int | None) -> list[Line]:
    """Every adapter that wgpu finds, the one used by default first."""
    title = line("adapters", "heading")
    try:
        worker = Worker(Launch("survey"))
    except BackendUnavailable as failure:
        return [title, *paragraph(f"cannot be listed: {failure}", width, "  ")]
    try:
        found = worker.hello.device["adapters"]
    finally:
        worker.close()
    if not found:
        return [title, line("  none", "caution")]
    lines = [title]
    for number, adapter in enumerate(found):
        spans = [Span(f"  {device.adapter(adapter)}")]
        if adapter["software"]:
            spans.append(Span("  software", "caution"))
        if number == 0:
            spans.append(Span("  (default)"))
        lines.append(Line(tuple(spans)))
    return lines


def _backend(backend: Backend, width: int | None) -> tuple[list[Line], bool]:
    """Start the backend's worker as a run would, and tell what it says of itself."""
    try:
        worker = Worker(backend.launch())
        try:
            backend.check(worker.hello)
            told = device.details(worker.hello)
        finally:
            worker.close()
    except BackendUnavailable as failure:
        title = Line((Span(f"backend {backend.name}: ", "heading"), Span("cannot run", "bad")))
        return [title, *paragraph(str(failure), width, "  ")], False
    return [Line((Span(f"backend {backend.name}: ", "heading"), Span("ready", "good"))), *told], True


def _shader_cache() -> str:
    """Where Mesa keeps compiled shaders: other drivers have their own places, which they do not tell."""
    if os.environ.get("MESA_SHADER_CACHE_DISABLE", "").lower() in {"1", "true", "yes"}:
        return "off (MESA_SHADER_CACHE_DISABLE)"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folders = [Path(os.environ.get("MESA_SHADER_CACHE_DIR") or home) / name for name in _MESA_FOLDERS]
    there = next((folder for folder in folders if folder.is_dir()), None)
    return f"{there} (Mesa)" if there is not None else "none yet (Mesa makes one)"


_MESA_FOLDERS = ("mesa_shader_cache_db", "mesa_shader_cache")
