"""Completion in bash, zsh and fish: click's own, but for bash, whose words end at every `:` and `=`.

A case id is full of both. So the script hands over the whole line, and gets back only what stands behind the last of
them, which is all that bash replaces.
"""

from __future__ import annotations

import contextlib
import os
import re

import click
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
    split_arg_string,
)

SHELLS = ("bash", "zsh", "fish")

_BASH = """\
%(complete_func)s() {
    local kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            nospace) compopt -o nospace ;;
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
        esac
    done < <(
        env COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
            %(complete_var)s=bash_complete "$1" 2>/dev/null
    )
} 2>/dev/null

complete -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null || complete -F %(complete_func)s %(prog_name)s
"""


class Bash(ShellComplete):
    """Completion of a line, in bash from 4.0 on; what is older lacks `compopt`, and adds a space behind all."""

    name = "bash"
    source_template = _BASH

    def __init__(
        self, cli: click.Command, ctx_args: dict[str, object], prog_name: str, complete_var: str
    ) -> None:
        super().__init__(cli, ctx_args, prog_name, complete_var)
        self._kept = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one at it."""
        line = os.environ["COMP_LINE"].encode()[: int(os.environ["COMP_POINT"])].decode(errors="ignore")
        words = split_arg_string(line)[1:]
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        breaks = [re.escape(it) for it in ":=" if it in os.environ.get("COMP_WORDBREAKS", "")]
        found = re.match(f".*(?:{'|'.join(breaks)})", incomplete) if breaks else None
        self._kept = found[0] if found is not None else ""
        return words, incomplete

    def complete(self) -> str:
        """One line for each completion; none of them is followed by a space where one of them goes on."""
        items = self.get_completions(*self.get_completion_args())
        unfinished = any(it.value.endswith(("/", ":", "=", ".yaml", ".yml")) for it in items if it.type == "plain")
        return "\n".join([*(["nospace,"] if unfinished else []), *map(self.format_completion, items)])

    def format_completion(self, item: CompletionItem) -> str:
        """What bash puts in the place of the word that it knows."""
        return f"{item.type},{item.value.removeprefix(self._kept)}"


def complete(cli: click.Command, program: str, variable: str, instruction: str) -> int:
    """Answer the shell. Whatever goes wrong, nothing is said: the person is in the middle of a line."""
    add_completion_class(Bash)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):  # noqa: PTH123
        try:
            return shell_complete(cli, {}, program, variable, instruction)
        except Exception:  # noqa: BLE001 - see above; `attncheck run` says what is wrong with the same files
            return 1


def script(cli: click.Command, program: str, variable: str, shell: str) -> str:
    """What the shell is to read."""
    add_completion_class(Bash)
    found = get_completion_class(shell)
    assert found is not None, "the command offers the shells that click knows"
    return found(cli, {}, program, variable).source()
