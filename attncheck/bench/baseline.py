"""A former run, and how the ratios of this one stand to its own: these outlive a change of clocks and drivers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from attncheck.bench import comparison
from attncheck.bench.events import BenchEvent, CaseRefused, CaseTimed, StationReady, Timing
from attncheck.engine.baseline import departures, ran_on


@dataclass(frozen=True)
class Ratio:
    """How many times as fast, and as whom: the label of the contender that was the anchor."""

    value: float
    to: str


@dataclass(frozen=True)
class Known:
    """One row of a former run: its ratios by the anchor's name, but to itself."""

    digest: str
    ratios: Mapping[str, Ratio]


@dataclass(frozen=True)
class Baseline:
    """A former run.

    rows         (case id, label of the contender) -> what is known of it
    interrupted  whether it was ended before its time
    software     whether it ran on an adapter whose absolute speed says nothing
    made_with    backend -> what it ran on, name by name: see engine.baseline
    """

    rows: Mapping[tuple[str, str], Known]
    interrupted: bool = False
    software: bool = False
    made_with: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def ratios(self) -> list[tuple[str, str, Ratio]]:
        """All of them, each with its case and contender."""
        return [(case, label, it) for (case, label), known in self.rows.items() for it in known.ratios.values()]


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
    """What the former run timed and this one gives nothing to hold against it, and why; label: "" for a whole case."""

    case: str
    label: str
    why: str


@dataclass(frozen=True)
class Compared:
    """All of a run held against a former one; `differs`: what else is not as it was, in words."""

    changes: tuple[Change, ...]
    missing: tuple[Missing, ...]
    differs: tuple[str, ...] = ()

    def below(self, ratio: float) -> tuple[Change, ...]:
        """The changes that are for the worse by more than that."""
        return tuple(change for change in self.changes if change.ratio < ratio)


def incomparable(baseline: Baseline, cases: Collection[str], labels: Collection[str]) -> str:
    """Why a run of these cases and contenders cannot be held against it; empty where something of it can."""
    shared = [(label, ratio) for case, label, ratio in baseline.ratios if case in cases]
    if not shared:
        return "it has none of these cases"
    mine = [ratio for label, ratio in shared if label in labels]
    if not mine:
        return f"it has no ratio of {', '.join(labels)} on these cases"
    if not any(ratio.to in labels for ratio in mine):
        held = ", ".join(dict.fromkeys(ratio.to for ratio in mine))
        return f"there they are held against {held}, which is not among the contenders"
    return ""


def compared(events: Sequence[BenchEvent], baseline: Baseline) -> Compared:
    """Hold what was timed against what is known of the same cases and contenders."""
    changes: list[Change] = []
    missing: dict[Missing, None] = {}
    met = {event.case: event for event in events if isinstance(event, CaseTimed | CaseRefused)}
    for (case_id, label), before in baseline.rows.items():
        case = met.get(case_id)
        if not before.ratios:
            continue
        if not isinstance(case, CaseTimed):
            why = "it was refused" if case is not None else "it is not among the cases of this run"
            missing[Missing(case_id, "", why)] = None
            continue
        for found in _held(case, label, before):
            if isinstance(found, Change):
                changes.append(found)
            else:
                missing[found] = None
    return Compared(tuple(changes), tuple(missing), tuple(_differs(events, baseline)))


def _held(case: CaseTimed, label: str, before: Known) -> Iterator[Change | Missing]:
    """A row of the former run held against that of the same contender on the same case."""
    timing = next((it for it in case.timings if it.label == label), None)
    if timing is None:
        yield Missing(case.case, label, "it was not among the contenders")
    elif case.digest != before.digest:
        yield Missing(case.case, label, "the case has changed")
    elif not timing.timed:
        yield Missing(case.case, label, "it was not timed now")
    else:
        anchors = comparison.anchors(timing, case.timings)
        for name, ratio in before.ratios.items():
            yield _change(case, timing, ratio, name, anchors[name])


def _change(case: CaseTimed, timing: Timing, before: Ratio, name: str, anchor: Timing | None) -> Change | Missing:
    """A ratio to one contender says nothing of a ratio to another, be it another version of the same."""
    there = {it.label: it for it in case.timings}
    now = comparison.against(timing, anchor)
    if before.to not in there:
        why = "which was not among the contenders"
    elif not there[before.to].timed:
        why = "which was not timed now"
    elif now is None or anchor is None or anchor.label != before.to:
        why = "and the first contender of its kind is another now"
    else:
        return Change(case.case, timing.label, name, before.value, now)
    return Missing(case.case, timing.label, f"it was held against {before.to}, {why}")


def _differs(events: Sequence[BenchEvent], baseline: Baseline) -> Iterator[str]:
    """What would make ratios others than they were, and whether all of the former run is there."""
    if baseline.interrupted:
        yield "the baseline was interrupted: it holds what was timed until then"
    ready = [event for event in events if isinstance(event, StationReady)]
    software = any(not it.adapter.speaks for it in ready)
    if software != baseline.software:
        which, other = ("this run", "the baseline") if baseline.software else ("the baseline", "this run")
        yield f"{which} is of hardware, and {other} is not"
    now = {it.backend: ran_on(it.hello.versions, it.hello.device) for it in ready}
    yield from departures(baseline.made_with, now)

