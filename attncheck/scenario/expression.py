"""The language of `-k`: words to be found, with `and`, `or`, `not` and parentheses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn, Protocol

from attncheck.scenario.diagnostics import Diagnostic, Mistake, ScenarioErrors, shown

_TOKEN = re.compile(r"[()]|[^\s()]+")
_OPERATORS = ("and", "or", "not", ")")
_DEPTH_LIMIT = 100


class Expression(Protocol):
    """Something that holds of a text or does not."""

    def holds(self, text: str) -> bool:
        """Whether it holds of `text`, which is in lower case."""


@dataclass(frozen=True)
class Word:
    """Holds of a text that contains it."""

    word: str

    def holds(self, text: str) -> bool:
        """Whether the word is somewhere in `text`."""
        return self.word in text


@dataclass(frozen=True)
class Not:
    """Holds where its operand does not."""

    operand: Expression

    def holds(self, text: str) -> bool:
        """Whether the operand does not hold."""
        return not self.operand.holds(text)


@dataclass(frozen=True)
class All:
    """Holds where every operand does."""

    operands: tuple[Expression, ...]

    def holds(self, text: str) -> bool:
        """Whether every operand holds."""
        return all(operand.holds(text) for operand in self.operands)


@dataclass(frozen=True)
class Any:
    """Holds where some operand does."""

    operands: tuple[Expression, ...]

    def holds(self, text: str) -> bool:
        """Whether some operand holds."""
        return any(operand.holds(text) for operand in self.operands)


def parse(text: str) -> Expression:
    """Read an expression; `not` binds before `and`, `and` before `or`; case does not matter.

    Raises ScenarioErrors, the file being `-k`, with the column where it can be read no further.
    """
    parser = _Parser(text)
    expression = parser.either()
    if parser.word:
        wrong = "a `)` without its `(`" if parser.word == ")" else f"`{shown(parser.word)}` follows without an operator"
        parser.fail(wrong, "put `and` or `or` between two words")
    return expression


class _Parser:
    """Reads from left to right, one word ahead. `word` is empty at the end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_TOKEN.finditer(text))
        self.at = 0
        self.depth = 0

    @property
    def word(self) -> str:
        return self.tokens[self.at].group() if self.at < len(self.tokens) else ""

    def takes(self, word: str) -> bool:
        found = self.word.lower() == word
        self.at += found
        return found

    def either(self) -> Expression:
        operands = [self.both()]
        while self.takes("or"):
            operands.append(self.both())
        return operands[0] if len(operands) == 1 else Any(tuple(operands))

    def both(self) -> Expression:
        operands = [self.one()]
        while self.takes("and"):
            operands.append(self.one())
        return operands[0] if len(operands) == 1 else All(tuple(operands))

    def one(self) -> Expression:
        self.depth += 1
        if self.depth > _DEPTH_LIMIT:
            self.fail(f"nested more than {_DEPTH_LIMIT} levels deep", "write it flatter")
        expression = self._one()
        self.depth -= 1
        return expression

    def _one(self) -> Expression:
        if self.takes("not"):
            return Not(self.one())
        if self.takes("("):
            inside = self.either()
            if not self.takes(")"):
                self.fail("a `(` is not closed", "add a `)`")
            return inside
        if not self.word:
            self.fail("a word is missing at the end", "write a part of an id, or a tag")
        if self.word.lower() in _OPERATORS:
            self.fail(f"a word is missing before `{self.word}`", "write a part of an id, or a tag")
        word = self.word.lower()
        self.at += 1
        return Word(word)

    def fail(self, message: str, hint: str) -> NoReturn:
        column = self.tokens[self.at].start() + 1 if self.word else len(self.text.rstrip()) + 1
        width = max(1, len(self.word))
        raise ScenarioErrors([Diagnostic(Mistake.EXPRESSION, "-k", 1, column, message, hint, self.text, width)])
