"""The command that runs one case again as this call ran it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import click

KEPT = ("changes", "seed", "memory_limit", "backends", "reference", "adapter", "kernel", "threshold", "shaders", "time_limit")
"""Parameters that shape a case or its backends; the others choose among cases or shape the report."""


@dataclass(frozen=True)
class Invocation:
    """The options of this call that a repetition needs, and the cases that were given without a file (id -> text)."""

    words: tuple[str, ...]
    unfiled: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, ctx: click.Context) -> Invocation:
        """Keep what the command line or the environment said; a configuration file is found again by itself."""
        words: list[str] = []
        for option in ctx.command.params:
            if isinstance(option, click.Option) and option.name in KEPT and _said(ctx, option.name):
                words += _written(option, ctx.params[option.name])
        return cls(tuple(words))

    def command(self, case: str) -> str:
        """The shell command that runs `case` alone."""
        target = ("--case", self.unfiled[case]) if case in self.unfiled else (case,)
        return shlex.join(("attncheck", "run", *target, *self.words))


def _written(option: click.Option, value: object) -> list[str]:
    name = max(option.opts, key=len)
    values: Iterable[object] = value if option.multiple and isinstance(value, tuple) else (value,)
    return [word for one in values for word in (name, str(one))]


def _said(ctx: click.Context, parameter: str) -> bool:
    source = ctx.get_parameter_source(parameter)
    return source in {click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT}
