"""What `attncheck backends` finds: each backend started in its own process, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from attncheck.backends import registry
from attncheck.backends.base import Backend, BackendUnavailable, Hello
from attncheck.backends.registry import FORMS, NAMES, Kind, Settings
from attncheck.backends.tables import Table
from attncheck.cli.choosing import known
from attncheck.cli.messages import progress
from attncheck.cli.output import Printer
from attncheck.engine import trial
from attncheck.reports import device
from attncheck.reports.lines import BLANK, Line, Role, Span, line, paragraph
from attncheck.vocabulary import ExitCode

_STATE = len("cannot start")
_FORMS = {form: kind.about for form, kind in FORMS.items()} | {
    "NAME@VERSION": "one of these, in an environment with that version of its package"
}

AT_ONCE = 4
"""Backends that are started side by side."""


@dataclass(frozen=True)
class Finding:
    """A backend of a kind, and what it said of itself, or why it could not start."""

    backend: Backend
    kind: Kind
    hello: Hello | None
    reason: str

    @property
    def state(self) -> tuple[str, Role]:
        """In a word, and how bad it is."""
        if self.hello is None:
            return "cannot start", "bad"
        return ("falls back", "bad") if self.reason else ("ready", "good")


def run(names: Sequence[str], tables: Mapping[str, Table]) -> ExitCode:
    """Print what was found; exit code 4 when a backend asked for by name cannot start, or would fall back."""
    settings = Settings(tables=tables)
    with known():
        asked = [
            (backend, registry.kind_of(name, settings))
            for name in (names or dict.fromkeys([*NAMES, *tables]))
            for backend in registry.create(name, settings)
        ]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        found = list(threads.map(lambda pair: _tried(*pair), asked))
    printer = Printer()
    printer.print(_lines(found, printer.width, forms=not names))
    return ExitCode.BACKEND if names and any(finding.reason for finding in found) else ExitCode.OK


def _tried(backend: Backend, kind: Kind) -> Finding:
    try:
        hello = trial.start(backend, lambda note: progress(f"{backend.name}: {note}"))
    except BackendUnavailable as unavailable:
        return Finding(backend, kind, None, str(unavailable))
    return Finding(backend, kind, hello, str(hello.device.get("fallback", "")))


def _lines(found: Sequence[Finding], width: int | None, forms: bool) -> list[Line]:
    """A row each, and below it what it is run by, or what it needs and why it cannot start."""
    column = max(len(name) for name in (*_FORMS, *(finding.backend.name for finding in found)))
    lines = [line(f"{'backend'.ljust(column)}  {'state'.ljust(_STATE)}  what it is", "heading")]
    for finding in found:
        word, role = finding.state
        name, about = finding.backend.name.ljust(column), finding.kind.about
        lines.append(Line((Span(name), Span(f"  {word.ljust(_STATE)}", role), Span(f"  {about}"))))
        lines += _below(finding, width, " " * (column + 2))
    if forms:
        lines.append(BLANK)
        lines += [line(f"{form.ljust(column)}  {'by name'.ljust(_STATE)}  {about}") for form, about in _FORMS.items()]
    return lines


def _below(finding: Finding, width: int | None, indent: str) -> list[Line]:
    told = [] if finding.hello is None else [device.summary(finding.hello)]
    reasons = [text.strip() for text in finding.reason.splitlines()]
    needs = [f"needs {finding.kind.needs}"] if finding.hello is None else []
    return [part for text in (*told, *reasons, *needs) for part in paragraph(text, width, indent)]
