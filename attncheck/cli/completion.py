"""``attncheck completion``: the script that makes a shell complete attncheck's words."""

from __future__ import annotations

import click

from attncheck.cli import options
from attncheck.cli.shells import SHELLS


@click.command(short_help="Print the script for completion in a shell.", context_settings=options.CONTEXT)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the script that lets SHELL complete commands, options, case ids, backends, kernels and verdicts.

    \b
    bash:  eval "$(attncheck completion bash)"            in ~/.bashrc
    zsh:   eval "$(attncheck completion zsh)"             in ~/.zshrc, behind compinit
    fish:  attncheck completion fish > ~/.config/fish/completions/attncheck.fish
    """  # noqa: D301 - the \b is click's mark for lines that stay as they are
    from attncheck.cli.main import COMPLETING, PROGRAM, cli
    from attncheck.cli.shells import script

    click.echo(script(cli, PROGRAM, COMPLETING, shell))
    return 0
