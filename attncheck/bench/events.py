"""What a bench says while it works; tables and reports are functions of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from attncheck.backends.base import Hello
from attncheck.bench.adapter import NOWHERE, Adapter, adapter
from attncheck.bench.statistics import Summary, summary
from attncheck.bench.work import Work
from attncheck.vocabulary import Verdict


@dataclass(frozen=True)
class Part:
    """One kernel, or several that follow each other.

    apart   it only moves rows, and no run's time holds it
    alone   it was timed by itself in further runs, with what it takes to begin and end: such parts take more together
            than the run
    """

    name: str
    apart: bool
    alone: bool
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Of its seconds."""
        return summary(self.seconds).median


@dataclass(frozen=True)
class Timing:
    """One contender on one case.

    verdict  what its outputs were worth before anything was timed; only `pass` is timed
    message  why it was not timed; what `verdict` alone does not say
    kernel   what ran, where that is not what was asked for
    clock    what measured: "gpu timestamps", "wall", "profiler", "cuda events"
    seconds  of each run, without what is apart
    parts    what runs are made of, in order
    use      the backend that `backend` configures or pins
    adapter  on what it computes
    """

    backend: str
    kernel: str
    label: str
    verdict: Verdict
    message: str = ""
    clock: str = ""
    seconds: tuple[float, ...] = ()
    parts: tuple[Part, ...] = ()
    use: str = ""
    adapter: Adapter = NOWHERE

    @property
    def failed(self) -> bool:
        """Whether the contender was to compute the case, and did not compute it right."""
        return self.verdict not in (Verdict.PASS, Verdict.UNSUPPORTED)

    @property
    def timed(self) -> bool:
        """Whether there are durations."""
        return bool(self.seconds)

    @property
    def summary(self) -> Summary:
        """Of `seconds`."""
        return summary(self.seconds)

    @property
    def moving(self) -> Summary | None:
        """Of what is apart, None where nothing is."""
        apart = (part.seconds for part in self.parts if part.apart)
        seconds = tuple(map(sum, zip(*apart, strict=True)))
        return summary(seconds) if seconds else None


@dataclass(frozen=True)
class Rates:
    """What an adapter was seen to do at its best: operations and bytes a second; bytes read and written both count.

    fma     multiplications and additions of f32, two operations each
    copy    bytes read and bytes written
    matrix  operations of f16 matrix units with f32 accumulation; None where a shader cannot reach any
    """

    fma: float
    copy: float
    matrix: float | None = None


@dataclass(frozen=True)
class BenchStarted:
    """Ids of the cases, and labels of the contenders."""

    cases: tuple[str, ...]
    contenders: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StationReady:
    """A backend's worker has started; with what its adapter can do, where that could be measured."""

    backend: str
    hello: Hello
    rates: Rates | None = None

    @property
    def adapter(self) -> Adapter:
        """On what it computes."""
        return adapter(self.hello)


@dataclass(frozen=True)
class StationFailed:
    """A backend could not start."""

    backend: str
    message: str


@dataclass(frozen=True)
class CaseRefused:
    """A case that nobody was given, and why."""

    case: str
    message: str


@dataclass(frozen=True)
class CaseTimed:
    """One case: what it asks for at least, what of its outputs was judged, and its contenders in order."""

    case: str
    axes: str
    digest: str
    dtype: str
    work: Work
    judged: str
    timings: tuple[Timing, ...]


@dataclass(frozen=True)
class BenchFinished:
    """The last event."""

    seconds: float
    interrupted: bool


BenchEvent = BenchStarted | StationReady | StationFailed | CaseRefused | CaseTimed | BenchFinished
