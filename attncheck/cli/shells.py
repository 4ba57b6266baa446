"""Completion in bash, zsh and fish: click's own, but for bash, whose words end at every `:` and `=`.

A case id is full of both. So the script hands over the whole line, and gets back only what stands behind the last of
them, which is all that bash replaces. Behind a quote that is open it replaces all since the quote.
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
FILES = (".yaml", ".yml")
"""Ends of a word behind which `::` and the name of a case may come."""

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
        self._quoted = False

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one at it."""
        line = os.environ["COMP_LINE"].encode()[: int(os.environ["COMP_POINT"])].decode(errors="ignore")
        inside = behind_open_quote(line)
        self._quoted = inside is not None
        words = split_arg_string(line)[1:]
        incomplete = words.pop() if words and (self._quoted or not line[-1:].isspace()) else ""
        if inside is not None:
            self._kept = incomplete.removesuffix(inside)
            return words, incomplete
        breaks = [re.escape(it) for it in ":=" if it in os.environ.get("COMP_WORDBREAKS", "")]
        found = re.match(f".*(?:{'|'.join(breaks)})", incomplete) if breaks else None
        self._kept = found[0] if found is not None else ""
        return words, incomplete

    def complete(self) -> str:
        """One line for each completion; none of them is followed by a space where one of them goes on."""
        words, incomplete = self.get_completion_args()
        items = self.get_completions(words, incomplete)
        if self._quoted:
            items = self._further(words, items)
        unfinished = any(map(_goes_on, items))
        return "\n".join([*(["nospace,"] if unfinished else []), *map(self.format_completion, items)])

    def _further(self, words: list[str], items: list[CompletionItem]) -> list[CompletionItem]:
        """What a single completion that goes on leads to: behind a single one bash would close the quote."""
        while len(items) == 1 and _goes_on(items[0]):
            value = items[0].value
            more = self.get_completions(words, f"{value}::" if value.endswith(FILES) else value)
            if not more or {it.value for it in more} == {value} or any(it.type != "plain" for it in more):
                return items
            items = more
        return items

    def format_completion(self, item: CompletionItem) -> str:
        """What bash puts in the place of the word that it knows."""
        return f"{item.type},{item.value.removeprefix(self._kept)}"


def behind_open_quote(line: str) -> str | None:
    """What stands behind the quote that is open at the end of `line`, or None where none is."""
    quote, begin, escaped = "", 0, False
    for place, char in enumerate(line):
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote, begin = char, place + 1
    return line[begin:] if quote else None


def _goes_on(item: CompletionItem) -> bool:
    return item.type == "plain" and item.value.endswith(("/", ":", "=", *FILES))


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
