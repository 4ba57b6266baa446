"""The kinds of value that an axis may hold, each with its own words for what is allowed."""

from __future__ import annotations

from dataclasses import dataclass

from attncheck.scenario.diagnostics import listed

INT32 = 2**31 - 1


@dataclass(frozen=True)
class Integer:
    """An integer within bounds, or one word in its place."""

    minimum: int
    maximum: int = INT32
    word: str | None = None

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        upper = f" to {self.maximum:,}" if self.maximum != INT32 else " up"
        return f"an integer from {self.minimum}{upper}" + (f", or `{self.word}`" if self.word else "")


FLOAT32 = (1.1754943508222875e-38, 3.4028234663852886e38)
"""Smallest normal and largest number of float32."""


@dataclass(frozen=True)
class Positive:
    """A number above 0 that float32 holds as a normal number, as operators' attributes do, or one word in its place."""

    word: str | None = None

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        return "a number above 0 within float32's range" + (f", or `{self.word}`" if self.word else "")


@dataclass(frozen=True)
class Number:
    """0, or any number that float32 holds as a normal number, or one word in their place."""

    word: str | None = None

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        return "a number within float32's range" + (f", or `{self.word}`" if self.word else "")


@dataclass(frozen=True)
class Choice:
    """One of a closed list of words."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        return listed(self.words)


@dataclass(frozen=True)
class Boolean:
    """true or false."""

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        return "`true` or `false`"


@dataclass(frozen=True)
class PerBatch:
    """An integer for every batch entry, or a list with one for each, or one word in their place."""

    minimum: int
    word: str | None = None

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        other = f", or `{self.word}`" if self.word else ""
        return f"an integer from {self.minimum} up, or a list of them, one a batch entry{other}"


FLOAT16 = 65504.0
"""The largest number of float16."""


@dataclass(frozen=True)
class NumberList:
    """A number, or a list of numbers that is repeated as needed, or one word in their place; float16 holds them."""

    word: str

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        return f"a number from -{FLOAT16:.0f} to {FLOAT16:.0f}, or a list of them, or `{self.word}`"


@dataclass(frozen=True)
class Broadcast:
    """The shape of an array over the scores, each axis full or 1, or the word `none`.

    shapes   the shapes that may be written: B batch, N heads, S queries, T keys
    """

    shapes: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        return "`none`, or a shape over the scores with each axis full or 1, from `SxT` to `BxNxSxT`, like `1xNxSxT`"

    @property
    def words(self) -> tuple[str, ...]:
        """Every value that is allowed."""
        return ("none", *self.shapes)


@dataclass(frozen=True)
class Steps:
    """The calls of a session: a list of mappings, each with the keys of a step."""

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        return (
            "a list of steps, each {q_len: N, repeat: N, accept: N, refused: true, label: WORD} with at least `q_len`; "
            "on the command line 5-1x6-4a2.speculative"
        )


Values = Integer | Number | NumberList | Positive | Choice | Boolean | PerBatch | Broadcast | Steps
