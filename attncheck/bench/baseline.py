"""A former run, and how the ratios of this one stand to its own: these outlive a change of clocks and drivers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attncheck.bench import comparison
from attncheck.bench.events import CaseTimed, Timing


@dataclass(frozen=True)
class Known:
    """One row of a former run: how many times as fast as each anchor, by the anchor's name."""

    digest: str
    ratios: Mapping[str, float]


Baseline = Mapping[tuple[str, str], Known]
"""(case id, label of the contender) -> what is known of it."""


@dataclass(frozen=True)
class Change:
    """A contender's speed in relation to an anchor's, before and now."""

    case: str
    label: str
    anchor: str
    before: float
    now: float

    @property
    def ratio(self) -> float:
        """Above 1 it has become faster."""
        return self.now / self.before


@dataclass(frozen=True)
class Missing:
    """What the former run timed and this one gives nothing to hold against it, and why."""

    case: str
    label: str
    why: str


@dataclass(frozen=True)
class Compared:
    """All of a run held against a former one."""

    changes: tuple[Change, ...]
    missing: tuple[Missing, ...]

    def below(self, ratio: float) -> tuple[Change, ...]:
        """The changes that are for the worse by more than that."""
        return tuple(change for change in self.changes if change.ratio < ratio)


def ratios(timing: Timing, timings: Sequence[Timing]) -> dict[str, float]:
    """How many times as fast as naive and as ONNX Runtime's WebGPU provider it is; not those that say nothing."""
    anchors = {
        comparison.NAIVE: comparison.naive_of(timing, timings),
        comparison.WEBGPU: comparison.webgpu_of(timings),
    }
    found = {name: comparison.against(timing, anchor) for name, anchor in anchors.items() if anchor is not timing}
    return {name: ratio for name, ratio in found.items() if ratio is not None}


def compared(cases: Sequence[CaseTimed], known: Baseline) -> Compared:
    """Hold what was timed against what is known of the same cases and contenders."""
    changes: list[Change] = []
    missing: list[Missing] = []
    now = {(case.case, timing.label): (case, timing) for case in cases for timing in case.timings}
    ran = {case.case for case in cases}
    for (case_id, label), before in known.items():
        if not before.ratios or case_id not in ran:
            continue
        if (case_id, label) not in now:
            missing.append(Missing(case_id, label, "it was not among the contenders"))
            continue
        case, timing = now[case_id, label]
        if case.digest != before.digest:
            missing.append(Missing(case_id, label, "the case has changed"))
        elif not timing.timed:
            missing.append(Missing(case_id, label, "it was not timed now"))
        else:
            changes += _changes(case, timing, before)
    return Compared(tuple(changes), tuple(missing))


def _changes(case: CaseTimed, timing: Timing, before: Known) -> Iterator[Change]:
    for anchor, ratio in ratios(timing, case.timings).items():
        if anchor in before.ratios:
            yield Change(case.case, timing.label, anchor, before.ratios[anchor], ratio)
