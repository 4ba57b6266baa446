"""What a session that runs scenarios holds: what `attncheck run` was asked for, and the backends' workers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import click
import pytest

from attncheck.cli import asked, selection, session
from attncheck.cli.invocation import said
from attncheck.cli.main import configured
from attncheck.cli.messages import Stop, progress
from attncheck.engine.events import CaseFinished, Result
from attncheck.engine.run import Given
from attncheck.engine.warm import Warm
from attncheck.reports import rows, summary
from attncheck.reports.layout import Layout
from attncheck.reports.lines import BLANK, Line
from attncheck.reports.table import Detail, Table
from attncheck.vocabulary import ExitCode

RUN = "run"
FOR_PYTEST = {
    "case": "name a scenario file",
    "exit_zero": "pytest says how a session ended",
    "fail_fast": "pytest has -x",
    "journal": "pytest has --lf, and keeps its own record",
    "list": "pytest has --collect-only",
    "quiet": "pytest has -q",
    "report": "pytest has --junitxml",
    "resume": "pytest has --lf",
    "shard": "pytest-xdist shares items among processes",
    "shard_times": "pytest-xdist shares items among processes",
    "shuffle": "pytest decides in which order items run",
    "shuffle_seed": "pytest decides in which order items run",
    "verbose": "pytest has -v",
    "what": "name files and ids as pytest's own arguments",
}
"""Parameters of `run` that mean nothing here, and what does."""


class Workers:
    """The backends of a session; their workers start with the first item and stay warm until the session ends."""

    def __init__(self, ctx: click.Context, *, verbose: bool) -> None:
        """Raises Stop for what `attncheck run` would not take either."""
        self._ctx = ctx
        self._verbose = verbose
        self.wanted = asked.wanted(ctx, ctx.params)
        self._chosen = session.backends(self.wanted)
        self._warm: Warm | None = None
        self._failed: dict[str, str] = {}

    @classmethod
    def of(cls, config: pytest.Config) -> Workers:
        """Read the session's options. Raises pytest.UsageError."""
        # As `attncheck` itself does, before NumPy is imported: the cores are the backends'.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        words = [word for name in config.getoption("attncheck_backend") for word in ("--backend", name)]
        words += [word for text in config.getoption("attncheck_args") for word in shlex.split(text)]
        try:
            ctx = configured(RUN, words)
            for parameter, instead in FOR_PYTEST.items():
                if ctx.params[parameter] and said(ctx, parameter):
                    raise pytest.UsageError(f"--attncheck-args: {_option(ctx, parameter)} is not for here: {instead}")
            return cls(ctx, verbose=config.get_verbosity() > 0)
        except click.ClickException as wrong:
            raise pytest.UsageError(f"--attncheck: {wrong.format_message()}") from None
        except Stop as stop:
            raise pytest.UsageError(f"--attncheck: {stop}") from None

    @property
    def names(self) -> tuple[str, ...]:
        """Every backend: the candidates, and behind them the reference."""
        return tuple(backend.name for backend in self._chosen.every)

    def cases(self, file: Path, *, named: bool) -> list[Given]:
        """The cases of a file; `named`: whether the call names it, and not only a folder around it. Raises Stop.

        Cases that are set apart, huge ones say, are left out as `attncheck run` leaves them out of a folder.
        """
        here = Path.cwd()
        shown = file.relative_to(here) if file.is_relative_to(here) else file
        given = {**self._ctx.params, "what": (str(shown),)}
        try:
            found = selection.selected(self._ctx.obj, given, lone=named)
        except Stop as stop:
            if stop.code is ExitCode.NOTHING:
                return []
            raise
        session.check_tolerances(found, self.wanted)
        return found

    def failure(self, backend: str) -> str:
        """Why `backend` could not start, or empty; the first to ask has all of them started."""
        if self._warm is None:
            self._warm = Warm(self._chosen.every, self._chosen.reference, session.judging(self.wanted))
            self._failed = self._warm.start(lambda name, text: progress(f"{name}: {text}"))
        return self._failed.get(backend, "")

    def result(self, case: Given, backend: str, later: Iterable[Given]) -> tuple[Result, list[Line]]:
        """What `case` came to on `backend`, and what the table says of that; the cases `later` are begun meanwhile."""
        assert self._warm is not None, "a backend is asked whether it could start before it is given a case"
        self._warm.ask(case)
        for one in later:
            self._warm.ask(one)
        finished = self._warm.finished(case)
        result = next(it for it in finished.results if it.backend == backend)
        return result, self._told(finished, result)

    def _told(self, finished: CaseFinished, result: Result) -> list[Line]:
        """What the table says of one result, and the commands that run and shrink it."""
        commands = session.commands_of(self.wanted, self._chosen)
        layout = Layout.fit([result.case], [result.backend], None)
        table = Table(layout, Detail.VERBOSE if self._verbose else Detail.NORMAL, commands.run, inspect=commands.show)
        lines = table.lines(replace(finished, results=(result,)))
        shrink = commands.minimize(result.case, result.backend) if rows.shrinks(result, finished.origin) else ""
        return [*lines, BLANK, *summary.reproduce([commands.run(result.case, [result])], shrink)]

    def end(self) -> None:
        """End the workers."""
        if self._warm is not None:
            self._warm.end()


def _option(ctx: click.Context, parameter: str) -> str:
    """The parameter as the command line writes it."""
    return next((max(it.opts, key=len) for it in ctx.command.params if it.name == parameter), parameter)
