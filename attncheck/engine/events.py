"""What the engine says while it works. It knows no listener; reports are functions of these."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from attncheck.backends.base import Evidence, Hello
from attncheck.compare.difference import Difference
from attncheck.compare.picture import Picture
from attncheck.compare.sharpness import Sharpness
from attncheck.graph.case import Origin
from attncheck.oracle.conventions import Convention
from attncheck.vocabulary import Flag, Status, Verdict


@dataclass(frozen=True)
class Attribution:
    """Who is alone, in words, and the three largest differences behind it (None where there is no pair to compare)."""

    said: str
    candidate_oracle: float | None = None
    reference_oracle: float | None = None
    candidate_reference: float | None = None


@dataclass(frozen=True)
class Expected:
    """What an expectation said of a result.

    place      where it is written, `file:line`
    said       the verdict, and the band and words where there are any
    departure  how the result differs from it, in words: "it passes"; empty where it is as expected
    """

    place: str
    said: str
    reason: str
    link: str
    departure: str = ""


@dataclass(frozen=True)
class AtStep:
    """Which step of a session a result is about: `number` from 1 on, `of` how many."""

    number: int
    of: int
    label: str = ""


@dataclass(frozen=True)
class Result:
    """The unit of what is reported: one case on one backend.

    kernel       the kernel judged first, as the policy chose it ("" where the backend has no such axis)
    instead      why that is not the kernel that was asked for, or empty
    auto         whether a policy chose it (then the other kernel ran too, and the two must agree)
    differences  every output of every kernel against the oracle, and the kernels against each other
    worst        the difference with the largest margin, None when nothing could be compared
    message      for verdicts without numbers: what happened, in a sentence
    diagnosis    for wrong numbers: the known wrong kernel that they equal, or the pattern of where they are wrong
    wrong        names in the catalogue of the wrong kernels that explain every output, each by itself
    evidence     what ran, as the backend's runtime told it; None where nothing came back
    convention   where that wrong kernel only reads the operator's text in another way than the oracle: which
    sharpness    for right numbers, where it was asked for: which wrong kernels the tolerance would have rejected
    attribution  for wrong numbers: who is alone, by the oracle, the reference and the candidate
    reference    whether this backend is the reference
    repeat       which repeat this is the result of, from 0 on: the first that did not pass, or the first
    expected     what an expectation said of it, None where there is none
    picture      for wrong numbers: the worst output that differs from the oracle, in maps
    step         of a session: the first step that went wrong, or of those that passed the one with the worst margin
    """

    case: str
    backend: str
    kernel: str
    auto: bool
    verdict: Verdict
    status: Status
    flags: tuple[Flag, ...] = ()
    differences: tuple[Difference, ...] = ()
    worst: Difference | None = None
    message: str = ""
    diagnosis: str = ""
    wrong: tuple[str, ...] = ()
    evidence: Evidence | None = None
    convention: Convention | None = None
    sharpness: Sharpness | None = None
    attribution: Attribution | None = None
    stderr: str = ""
    reference: bool = False
    repeat: int = 0
    seconds: float = 0.0
    expected: Expected | None = None
    step: AtStep | None = None
    instead: str = ""
    picture: Picture | None = None

    @property
    def fails(self) -> bool:
        """Whether it makes a run fail."""
        return self.status in {Status.FAILED, Status.XPASSED}


@dataclass(frozen=True)
class Commands:
    """How one case of a run is run again by itself, and how it is shrunk: shell words, CASE and BACKEND among them.

    running    the words that run a case, BACKEND behind its option
    shrinking  those that shrink it on a backend, none where nothing does
    showing    those that show the whole of its result on a backend, none where nothing does
    called     backend -> what the command line calls it, where that is not its name
    tested     the candidates, as the command line calls them
    unsaid     whether they are tested also where the words name no backend
    """

    running: tuple[str, ...]
    shrinking: tuple[str, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)
    showing: tuple[str, ...] = ()
    tested: tuple[str, ...] = ()
    unsaid: bool = False

    CASE: ClassVar[str] = "{case}"
    BACKEND: ClassVar[str] = "{backend}"

    def run(self, case: str, results: Sequence[Result] = ()) -> str:
        """The shell command that runs `case` alone: on the backends whose `results` fail, or on all that are tested.

        A reference that fails alone is tested itself.
        """
        failing = [it for it in results if it.fails]
        suspects = [it.backend for it in failing if not it.reference] or [it.backend for it in failing]
        backends = tuple(dict.fromkeys(self.called.get(it, it) for it in suspects)) or self.tested
        if self.unsaid and set(backends) == set(self.tested):
            backends = ()
        words: list[str] = []
        for word in self.running:
            if word == self.BACKEND:
                option = words.pop()
                words += [it for backend in backends for it in (option, backend)]
            else:
                words.append(case if word == self.CASE else word)
        return shlex.join(words)

    def show(self, case: str, backend: str) -> str:
        """The shell command that shows the whole of the result of `case` on `backend`; empty where there is none."""
        return self._on(self.showing, case, backend)

    def minimize(self, case: str, backend: str) -> str:
        """The shell command that shrinks `case` on `backend`; empty where there is none."""
        return self._on(self.shrinking, case, backend)

    def _on(self, words: tuple[str, ...], case: str, backend: str) -> str:
        there = {self.CASE: case, self.BACKEND: self.called.get(backend, backend)}
        return shlex.join(there.get(word, word) for word in words)


@dataclass(frozen=True)
class RunStarted:
    """Sent once, first: how many cases, on which backends (candidates first, then the reference), and how.

    settings   whatever else decides what a backend computes, in words: kernel policy, adapter, shaders
    commands   how its cases are run again; None where there is no command line
    """

    cases: int
    backends: tuple[str, ...]
    reference: str | None
    settings: Mapping[str, str] = field(default_factory=dict)
    commands: Commands | None = None


@dataclass(frozen=True)
class BackendPreparing:
    """A backend's environment is being made, which may take a minute; `note` says what goes on."""

    backend: str
    note: str


@dataclass(frozen=True)
class BackendReady:
    """A backend's worker is up."""

    backend: str
    hello: Hello


@dataclass(frozen=True)
class BackendFailed:
    """A backend could not start; none of its results will come. `message` says why and what to do."""

    backend: str
    message: str


@dataclass(frozen=True)
class CaseFinished:
    """One case is judged on every backend; `digest` names its content, whatever its address."""

    origin: Origin
    digest: str
    results: tuple[Result, ...]


@dataclass(frozen=True)
class Counts:
    """Cases by status; a case counts once, by the worst of its results."""

    passed: int = 0
    failed: int = 0
    xfailed: int = 0
    xpassed: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class RunFinished:
    """Sent once, last, also after an interruption: the counts; engine/status.py makes the exit code of them."""

    counts: Counts
    seconds: float
    interrupted: bool = False


@dataclass(frozen=True)
class Change:
    """A result that is not what it was in the baseline.

    kind   "new" (it fails, and did not, or in another way), "worse", "better", or "gone" (it is not tested any more)
    was, now   verdict and margin, in words; empty where it was not in the baseline, or is not in this run
    """

    kind: str
    case: str
    backend: str
    was: str
    now: str


@dataclass(frozen=True)
class Compared:
    """How the run stands to its baseline; sent before RunFinished where there is one.

    place    the file; known: how many results fail as they did then
    differs  what else is not as it was then, in words: versions, adapters
    incomparable  that nothing could be compared, or the reference alone, and why; empty where more could
    """

    place: str
    known: int
    changes: tuple[Change, ...]
    differs: tuple[str, ...] = ()
    incomparable: str = ""


Event = RunStarted | BackendPreparing | BackendReady | BackendFailed | CaseFinished | Compared | RunFinished
