"""One `bisect` as the terminal sees it."""

from __future__ import annotations

import sys

import click

from attncheck.backends import releases
from attncheck.backends.base import BackendUnavailable
from attncheck.backends.registry import kind_of
from attncheck.bisect import Bisection, bisect
from attncheck.cli.alone import Alone, backend
from attncheck.cli.choosing import known
from attncheck.cli.messages import Stop, error, warning
from attncheck.cli.packing import told
from attncheck.engine.single import evaluate
from attncheck.reports.numbers import plural
from attncheck.vocabulary import ExitCode


def search(asked: Alone, wanted: str) -> ExitCode:
    """Bisect over the versions, say each verdict as it comes, and the change at the end."""
    versions = _versions(asked, wanted)
    width = max(map(len, versions))
    # A version with a wrong name is a mistake in the call: it is told before anything is installed.
    for version in versions:
        backend(f"{asked.named}@{version}", asked.settings)

    def ask(version: str) -> str | None:
        try:
            placed = backend(f"{asked.named}@{version}", asked.settings)
            result = evaluate(asked.given, placed, None, asked.options, told).result
        except BackendUnavailable as unavailable:
            click.echo(f"  {version.ljust(width)}  cannot be told")
            warning(f"{asked.named}@{version}: {unavailable}")
            return None
        click.echo(f"  {version.ljust(width)}  {result.verdict}  {result.diagnosis or result.message}".rstrip())
        return str(result.verdict)

    of = f"{plural(len(versions), 'version')}, {versions[0]} to {versions[-1]}"
    click.echo(f"{asked.given.id} on {asked.named}: {of}")
    found = bisect(versions, ask)
    return say(found, len(versions))


def _versions(asked: Alone, wanted: str) -> tuple[str, ...]:
    with known():
        package = kind_of(asked.named, asked.settings).package
    if "@" in asked.named or package is None:
        why = "it has one already" if "@" in asked.named else "no one package gives it its version"
        raise Stop(f"{asked.named} cannot be bisected over versions: {why}", ExitCode.USAGE)
    table = asked.settings.tables.get(asked.named)
    python = table.python if table is not None and table.python is not None else sys.executable
    try:
        return releases.chosen(wanted, package, python)
    except releases.UnknownReleases as unknown:
        raise Stop(f"--versions: {unknown}", ExitCode.USAGE) from None


def say(found: Bisection, versions: int) -> ExitCode:
    """Say what was found over so many versions, and give the exit code."""
    answered = sum(answer is not None for _, answer in found.asked)
    passed = len(found.asked) - answered
    ran = f"{answered} of {plural(versions, 'version')} {'was' if versions == 1 else 'were'} run"
    ran += f"; {passed} could not be" if passed else ""
    for change in found.changes:
        untold = f" (between them, {', '.join(change.untold)} cannot be told)" if change.untold else ""
        click.echo(f"from {change.before} to {change.after}: {change.was} becomes {change.becomes}{untold}")
    if not found.monotone:
        warning("not monotone: the verdict changes more than once, and may do so again between versions not run")
    if not found.changes:
        answers = {answer for _, answer in found.asked if answer is not None}
        said = f"all that were run gave {answers.pop()}" if answers else "none could be told"
        error(f"no change was found: {said}")
    click.echo(ran)
    return ExitCode.OK if found.changes else ExitCode.FAILED
