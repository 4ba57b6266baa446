"""One call or several: the same text of a script, in which `at` says which of the calls, from 0 on."""

from __future__ import annotations

from collections.abc import Sequence

from attncheck.bundle.subject import Subject

_MARKS = {"{, at}": ", at", "{at}": "at", "{[at]}": "[at]", "{once}": "@functools.cache\n"}
"""What stands in a text -> what becomes of it where there are several calls; with one call it goes."""


def written(text: str, subject: Subject) -> str:
    """`text` for as many calls as `subject` takes."""
    for mark, several in _MARKS.items():
        text = text.replace(mark, several if subject.earlier else "")
    return text


def numbered(name: str, subject: Subject) -> tuple[str, ...]:
    """A file's name for each call: the last, which fails, has it as it is, the others with their number in it."""
    stem, dot, suffix = name.rpartition(".")
    return (*(f"{stem}-{number}{dot}{suffix}" for number in range(1, len(subject.calls))), name)


def listed(name: str, values: Sequence[str], subject: Subject) -> str:
    """A constant: the value of the one call, or a list with one for each."""
    return f"{name} = {values[0]}" if not subject.earlier else f"{name} = [{', '.join(values)}]"
