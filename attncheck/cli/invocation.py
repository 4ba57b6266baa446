"""The command that runs one case again as this call ran it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from attncheck.cli.options import Bytes

KEPT = {
    *("memory_limit", "backend", "reference", "adapter", "kernel", "threshold", "thresholds", "shaders", "time_limit"),
    *("backend_memory", "repeat", "inputs", "dim"),
    *("expect", "run_quarantined"),
}
"""Parameters that shape the backends and the judgement. An id says all of a case, also what `--set` and `--seed`
changed; every other parameter chooses among cases or shapes the report."""


SHRINKING = KEPT - {"backend", "reference", "repeat", "inputs", "dim", "expect", "run_quarantined"}
"""Those of them that `minimize` takes too; it is given its one backend by name."""


@dataclass(frozen=True)
class Invocation:
    """The options of this call that a repetition needs, as words of a command line, and the command they belong to.

    folder   where the command must be given, None where it may be given from here
    """

    words: tuple[str, ...]
    program: tuple[str, ...] = ("attncheck", "run")
    folder: Path | None = None

    @classmethod
    def of(cls, ctx: click.Context, *program: str, kept: Collection[str] = KEPT) -> Invocation:
        """Keep what the command line or the environment said; a configuration file is found again by itself."""
        words: list[str] = []
        for option in ctx.command.params:
            if isinstance(option, click.Option) and option.name in kept and said(ctx, option.name):
                words += _written(option, ctx.params[option.name])
        return cls(tuple(words), program or cls.program)

    def command(self, case: str) -> str:
        """The shell command that runs `case` alone."""
        if self.folder is None:
            return shlex.join(self.on(case))
        file, mark, name = case.partition("::")
        path = Path(file).absolute()
        within = path.relative_to(self.folder).as_posix() if path.is_relative_to(self.folder) else file
        return f"cd {shlex.quote(str(self.folder))} && {shlex.join(self.on(within + mark + name))}"

    def on(self, case: str, backend: str | None = None) -> tuple[str, ...]:
        """The words of the shell command for `case`, and for a `backend` where it is none of the words."""
        return (*self.program, case, *(() if backend is None else ("--backend", backend)), *self.words)


def said(ctx: click.Context, parameter: str) -> bool:
    """Whether the command line or the environment gave this parameter, not a file or a default."""
    source = ctx.get_parameter_source(parameter)
    return source in {click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT}


def _written(option: click.Option, value: object) -> list[str]:
    name = max(option.opts, key=len)
    if option.is_flag:
        return [name] if value else []
    values: Iterable[object] = value if option.multiple and isinstance(value, tuple) else (value,)
    return [word for one in values for word in (name, _typed(one, option.type))]


def _typed(value: object, kind: click.ParamType[Any]) -> str:
    """`value` as somebody would type it: 2 seconds, 4G."""
    if isinstance(kind, Bytes) and isinstance(value, int):
        return kind.written(value)
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)
