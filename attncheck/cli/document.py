"""The parts of docs/ that the command line and the vocabulary say themselves."""

from __future__ import annotations

from collections.abc import Iterable

import click

from attncheck.cli.main import PROGRAM, cli
from attncheck.vocabulary import Flag, Status, Verdict

WIDTH = 90


def help_text(name: str) -> str:
    """The help of command `name`, as a block of Markdown."""
    parent = click.Context(cli, info_name=PROGRAM)
    command = cli.get_command(parent, name)
    if command is None:
        raise ValueError(f"there is no command {name!r}")
    with click.Context(
        command, info_name=name, parent=parent, terminal_width=WIDTH, **command.context_settings
    ) as context:
        return "\n".join(f"    {line}".rstrip() for line in command.get_help(context).splitlines())


def verdict_table() -> str:
    """Verdicts, each with the link to its page."""
    return _table("verdict", ((f"[{verdict}]({verdict}.md)", verdict.meaning) for verdict in Verdict))


def status_table() -> str:
    """Statuses with their meaning."""
    return _table("status", ((str(status), status.meaning) for status in Status))


def flag_table() -> str:
    """Flags with their meaning."""
    return _table("flag", ((f"[{flag}](flags.md#{flag})", flag.meaning) for flag in Flag))


def meaning(word: Verdict | Flag) -> str:
    """The sentence that a verdict's page begins with, or the section on a flag."""
    return f"**{word}**: {word.meaning}."


def _table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = "\n".join(f"| {word} | {text} |" for word, text in rows)
    return f"| {title} | meaning |\n| --- | --- |\n{lines}"
