"""The largest difference of one output against one expectation, and where it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Coordinates of one element.

    `row` is the query index of an output, the buffer slot of a present tensor; `dim` is the key's slot among scores.
    Of an output in pages, `batch` is the page and `row` the row in it: `paged` says so.
    """

    output: str
    batch: int
    head: int
    row: int
    dim: int
    paged: bool = False


AXES = {
    "output": ("query", "dim"),
    "scores": ("query", "key"),
    "turned": ("row", "dim"),
    "present_state": ("key dim", "dim"),
}
"""What the last two axes of an output are, by its role; those of any other are slots and dims."""


def axes(where: Place, role: str) -> tuple[str, str, str, str]:
    """What the four coordinates of an element are called."""
    row, dim = AXES.get(role, ("slot", "dim"))
    return ("page", "head", "row", dim) if where.paged else ("batch", "head", row, dim)


@dataclass(frozen=True)
class Term:
    """One of the numbers that a tolerance is the sum of: which, and how much (docs/tolerance.md)."""

    of: str
    value: float


@dataclass(frozen=True)
class Difference:
    """One output held against one expectation, at its worst element (largest error / tolerance).

    role       "output", "present_key", "present_value" or "scores"
    subject    what was judged, e.g. the kernel "online"
    against    "oracle", or the other kernel under `--kernel auto`
    max_abs    largest absolute difference over all compared elements (inf where one side is not finite)
    error      absolute difference at the worst element; tolerance: the tolerance there; margin: error / tolerance
    got, expected   the two values at the worst element
    compared, failing, nonfinite   numbers of elements
    above      how many of the failing ones are larger than they must be; NaN is neither larger nor smaller
    terms      what the tolerance at the worst element is the sum of; empty where it is another result's
    """

    role: str
    subject: str
    against: str
    max_abs: float
    error: float
    tolerance: float
    margin: float
    place: Place
    got: float
    expected: float
    compared: int
    failing: int
    nonfinite: int
    above: int = 0
    terms: tuple[Term, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every compared element is finite where it must be and within its tolerance."""
        return self.failing == 0
