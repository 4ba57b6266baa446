"""``attncheck explain``: what a word of a report means."""

from __future__ import annotations

import click

from attncheck.cli import completing, options
from attncheck.vocabulary import ExitCode


@click.command(short_help="Explain a verdict, status, flag or exit code.", context_settings=options.CONTEXT)
@click.argument("word", required=False, metavar="[VERDICT|STATUS|FLAG|CODE]", shell_complete=completing.words)
def explain(word: str | None) -> int:
    """Explain a word of the table: what it means, likely causes, and what to run next.

    Without a word, all of them are listed.
    """
    from attncheck.cli.messages import Stop
    from attncheck.cli.output import Printer
    from attncheck.reports import words
    from attncheck.shipped import verdicts_dir

    printer = Printer()
    if word is None:
        printer.print(words.every(printer.width))
        return 0
    known = words.words().get(word.lower())
    if known is None:
        near = words.nearest(word)
        hint = f"did you mean {near!r}?" if near else "`attncheck explain` lists them all"
        raise Stop(f"there is no verdict, status, flag or exit code {word!r}; {hint}", ExitCode.USAGE)
    printer.print(words.explained(known, verdicts_dir(), printer.width))
    return 0
