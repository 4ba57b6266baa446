"""The parts of a report's document: plain data, written as JSON and read back. docs/report.schema.json is made of them.

Within a version of the format keys are only added, each with a default, so that an older document can still be read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import WithJsonSchema

from attncheck.compare.difference import Term
from attncheck.compare.picture import Picture
from attncheck.engine.events import Expected
from attncheck.oracle.conventions import Convention
from attncheck.vocabulary import Flag, Status, Verdict

Number = Annotated[
    float, WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]})
]
"""A float; the strings stand for those that JSON cannot say."""


@dataclass(frozen=True)
class Worst:
    """The element with the largest error in relation to its tolerance; `row` is a slot in a present."""

    output: str
    batch: int
    head: int
    row: int
    dim: int
    got: Number
    expected: Number


@dataclass(frozen=True)
class DifferenceEntry:
    """One output held against one expectation, at its worst element.

    role       what the output is: "output", "present_key", "scores", ...; output: its name in the graph
    subject    the kernel judged; against: "oracle", or the other kernel under `--kernel auto`
    where      the worst element in words; batch, head, row, dim: the same in numbers
    error      absolute difference there; tolerance: what it may be; margin: error / tolerance
    max_abs    the largest absolute difference of all compared elements
    above      how many of the failing elements are larger than they must be
    terms      what the tolerance at the worst element is the sum of
    """

    role: str
    output: str
    subject: str
    against: str
    where: str
    batch: int
    head: int
    row: int
    dim: int
    got: Number
    expected: Number
    error: Number
    tolerance: Number
    margin: Number
    max_abs: Number
    compared: int
    failing: int
    nonfinite: int
    above: int
    passed: bool
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Ran:
    """What ran, as the backend's runtime told it."""

    provider: str
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class Alone:
    """Who is alone, in words, and the largest difference of each pair; null where there is none to compare."""

    said: str
    candidate_oracle: Number | None
    reference_oracle: Number | None
    candidate_reference: Number | None


@dataclass(frozen=True)
class Noticed:
    """Which known wrong kernels the tolerance of a passing case rejects.

    by_poison  of the rejected, those that nothing but NaN or infinity gave away
    """

    relevant: tuple[str, ...]
    rejected: tuple[str, ...]
    survivors: tuple[str, ...]
    by_poison: tuple[str, ...]


@dataclass(frozen=True)
class StepEntry:
    """A step of a session: `number` from 1 on, `of` how many, and what it is called there."""

    number: int
    of: int
    label: str


@dataclass(frozen=True)
class ResultEntry:
    """One case on one backend.

    instead      why `kernel` is not the kernel that was asked for; empty where it is
    error        absolute difference from the expected value at the worst element; null without numbers to compare
    tolerance    what it may be there; margin: error / tolerance
    against      "oracle", or the kernel that the worst element was compared with
    max_abs      the largest absolute difference of all compared elements
    wrong        the known wrong kernels that give these numbers, by name
    step         of a session: the first step that went wrong, which the rest is about; of those that passed, the worst
    auto         whether a policy chose the kernel
    repeat       which repeat this is the result of, from 0 on
    differences  every output of every kernel against the oracle, and the kernels against each other
    sharpness    for right numbers, where it was asked for
    explanation  what the report on the terminal says below the row, at its longest, one paragraph an entry
    stderr       the last lines that the backend's process wrote, without colours
    minimize     the shell command that shrinks the case on this backend; empty where there is none
    picture      for wrong numbers: the worst output that differs from the oracle, in maps
    """

    backend: str
    reference: bool
    verdict: Verdict
    status: Status
    flags: tuple[Flag, ...]
    kernel: str
    instead: str
    error: Number | None
    tolerance: Number | None
    margin: Number | None
    max_abs: Number | None
    against: str | None
    compared: int
    failing: int
    worst: Worst | None
    message: str
    diagnosis: str
    wrong: tuple[str, ...]
    convention: Convention | None
    attribution: Alone | None
    expected: Expected | None
    evidence: Ran | None
    step: StepEntry | None
    seconds: Number
    auto: bool = False
    repeat: int = 0
    differences: tuple[DifferenceEntry, ...] = ()
    sharpness: Noticed | None = None
    explanation: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()
    minimize: str = ""
    picture: Picture | None = None


@dataclass(frozen=True)
class CaseEntry:
    """One case.

    file, line   where it was written; line 0 for a model that was there before
    axes         what `--case` takes to make it again; empty for such a model
    status       the worst of its results'
    about, tags  what the scenario says of itself; described: its axes, or what the model is, in a sentence
    reproduce    the shell command that runs it alone; empty where it is not known
    """

    id: str
    digest: str
    file: str
    line: int
    axes: str
    status: Status
    results: tuple[ResultEntry, ...]
    about: str = ""
    tags: tuple[str, ...] = ()
    described: str = ""
    reproduce: str = ""

    @property
    def written(self) -> bool:
        """Whether a line of a file says it: neither the command line nor a model has one."""
        return self.line > 0 and not self.file.startswith("--")


@dataclass(frozen=True)
class BackendEntry:
    """A backend of the run; `message` says why it could not start, empty where it did."""

    name: str
    reference: bool
    started: bool
    versions: dict[str, str] = field(default_factory=dict)
    device: dict[str, Any] = field(default_factory=dict)
    message: str = ""
