"""What `attncheck doctor` finds. Whatever touches a driver happens in a worker process, since a driver may crash."""

from __future__ import annotations

from attncheck.backends.base import Backend, BackendUnavailable
from attncheck.backends.registry import Settings, create
from attncheck.cli.messages import progress
from attncheck.cli.options import DEFAULT_CANDIDATE, DEFAULT_REFERENCE
from attncheck.cli.output import Printer
from attncheck.engine import trial
from attncheck.reports import device
from attncheck.reports.lines import BLANK, Line, Span, line, paragraph
from attncheck.vocabulary import ExitCode


def run(printer: Printer) -> ExitCode:
    """Print what adapters and backends say; exit code 4 when a default backend cannot run here."""
    printer.print([*_adapters(printer.width), BLANK])
    healthy = True
    for name in (DEFAULT_CANDIDATE, DEFAULT_REFERENCE):
        (backend,) = create(name, Settings())
        lines, well = _backend(backend, printer.width)
        healthy &= well
        printer.print([*lines, BLANK])
    printer.print([line("`attncheck backends` tells of every other backend")])
    verdict = line("attncheck can run here", "good") if healthy else line("a default backend cannot run here", "bad")
    printer.print([verdict])
    return ExitCode.OK if healthy else ExitCode.BACKEND


def _adapters(width: int | None) -> list[Line]:
    """Every adapter that wgpu finds, the one used by default first."""
    title = line("adapters", "heading")
    try:
        found = trial.adapters()
    except BackendUnavailable as failure:
        return [title, *paragraph(f"cannot be listed: {failure}", width, "  ")]
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
        told = device.details(trial.start(backend, progress))
    except BackendUnavailable as failure:
        title = Line((Span(f"backend {backend.name}: ", "heading"), Span("cannot run", "bad")))
        return [title, *paragraph(str(failure), width, "  ")], False
    return [Line((Span(f"backend {backend.name}: ", "heading"), Span("ready", "good"))), *told], True
