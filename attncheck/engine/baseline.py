"""A run held against an earlier one: what is known to fail is no failure of this run, what is new or worse is. Pure.

A result is known by its case and its backend; the case by its id, or where no case had this id then, by its content.
It is worse where its margin is more than `WORSE` times what it was.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from attncheck.compare import digits
from attncheck.engine.events import BackendReady, CaseFinished, Change, Compared, Event, Expected, Result
from attncheck.vocabulary import Flag, Status, Verdict

WORSE = 2.0
"""Numbers of one fault differ a little from one processor to the next, those of another fault by more than this."""

REASON = "it fails in the baseline"

_UNTESTED = (Verdict.UNSUPPORTED, Verdict.QUARANTINED)


@dataclass(frozen=True)
class Was:
    """A result of the earlier run; `margin` is None where there were no numbers."""

    case: str
    digest: str
    backend: str
    verdict: Verdict
    flags: tuple[Flag, ...]
    margin: float | None

    @property
    def failed(self) -> bool:
        """Whether something was wrong, as it also was where an expectation, or a baseline, said that it would be."""
        return self.verdict is not Verdict.PASS and self.verdict not in _UNTESTED


@dataclass(frozen=True)
class Baseline:
    """An earlier run.

    place      the file that tells of it
    results    what was judged then
    made_with  backend -> what it ran on, name by name: "onnxruntime" -> "1.20.1", "adapter" -> ...; and "" -> attncheck
    """

    place: str
    results: tuple[Was, ...]
    made_with: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def was(self, case: str, digest: str, backend: str) -> Was | None:
        """The earlier result of `case` on `backend`."""
        return self._by_id.get((case, backend)) or self._by_content.get((digest, backend))

    def held(self, event: CaseFinished) -> CaseFinished:
        """`event` with its statuses after the baseline: a known failure is as expected."""
        results = tuple(self._held(it, event.digest) for it in event.results)
        return event if results == event.results else replace(event, results=results)

    def new_flags(self, event: CaseFinished) -> set[Flag]:
        """The flags that a result of `event` has, and had not then."""
        found: set[Flag] = set()
        for it in event.results:
            was = self.was(it.case, event.digest, it.backend)
            found |= set(it.flags) - set(was.flags if was is not None else ())
        return found

    def _held(self, result: Result, digest: str) -> Result:
        was = self.was(result.case, digest, result.backend)
        if result.status is not Status.FAILED or was is None or not was.failed:
            return result
        expected = Expected(self.place, _told(was.verdict, was.margin), REASON, "", _departure(result, was))
        return replace(result, status=Status.FAILED if expected.departure else Status.XFAILED, expected=expected)

    def knows(self, case: str, digest: str) -> bool:
        """Whether it has `case`, on whatever backend."""
        return case in self._known or digest in self._known

    @cached_property
    def _known(self) -> frozenset[str]:
        """The ids and the contents of its cases."""
        return frozenset(word for it in self.results for word in (it.case, it.digest))

    @cached_property
    def _by_id(self) -> dict[tuple[str, str], Was]:
        return {(it.case, it.backend): it for it in self.results}

    @cached_property
    def _by_content(self) -> dict[tuple[str, str], Was]:
        """Two cases of one content, relations of one case among them, say nothing of a third."""
        found: dict[tuple[str, str], list[Was]] = {}
        for it in self.results:
            found.setdefault((it.digest, it.backend), []).append(it)
        return {key: several[0] for key, several in found.items() if len(several) == 1}


def margin(result: Result) -> float | None:
    """The worst margin of a result, None where there are no numbers."""
    return result.worst.margin if result.worst is not None else None


def _departure(result: Result, was: Was) -> str:
    """How a failure is another, or larger, than the earlier one; empty where it is neither."""
    now = margin(result)
    if Flag.FLAKY in result.flags and Flag.FLAKY not in was.flags:
        return "its verdict changes between repeats"
    if result.verdict is not was.verdict:
        return f"the verdict is {result.verdict}"
    if now is not None and was.margin is not None and _exceeds(now, was.margin):
        return f"its margin, {digits.margin(now)}, is more than {WORSE:g} times that"
    return ""


def _exceeds(one: float, other: float) -> bool:
    """Whether margin `one` is clearly more than `other`; what is not finite is above all that is."""
    if math.isfinite(one) and math.isfinite(other):
        return one > WORSE * other
    return math.isfinite(other) and not math.isfinite(one)


def _told(verdict: Verdict, at: float | None) -> str:
    return str(verdict) if at is None or verdict in _UNTESTED else f"{verdict} with margin {digits.margin(at)}"


@dataclass
class Comparison:
    """Follows a run's events, to tell afterwards how it stands to its baseline.

    elsewhere  ids of cases that other shards run
    """

    baseline: Baseline
    elsewhere: Collection[str] = ()
    _ready: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _changes: list[Change] = field(default_factory=list)
    _met: set[Was] = field(default_factory=set)
    _tested: set[str] = field(default_factory=set)
    _compared: dict[str, bool] = field(default_factory=dict)
    _shared: bool = False
    _known: int = 0
    _edited: int = 0

    def note(self, event: Event) -> None:
        """Take an event of the run, after the baseline."""
        if isinstance(event, BackendReady):
            self._ready[event.backend] = ran_on(event.hello.versions, event.hello.device)
        elif isinstance(event, CaseFinished):
            met = [self._note(it, event.digest) for it in event.results]
            self._shared |= self.baseline.knows(event.origin.id, event.digest)
            self._edited += any(it is not None and it.digest != event.digest for it in met)

    def _note(self, result: Result, digest: str) -> Was | None:
        was = self.baseline.was(result.case, digest, result.backend)
        if not result.reference:
            self._tested.add(result.backend)
        if was is not None:
            self._met.add(was)
            self._compared[result.backend] = result.reference
        kind = _kind(result, was)
        self._known += kind == "known"
        if kind is not None and kind != "known":
            before = _told(was.verdict, was.margin) if was is not None else ""
            now = _told(result.verdict, margin(result))
            self._changes.append(Change(kind, result.case, result.backend, before, now))
        return was

    def compared(self, attncheck: str, *, complete: bool) -> Compared:
        """What there is to tell, of a run by this version of attncheck."""
        gone = [
            Change("gone", it.case, it.backend, _told(it.verdict, it.margin), "")
            for it in self.baseline.results
            if complete and it not in self._met and it.backend in self._ready and it.verdict not in _UNTESTED
            if it.case not in self.elsewhere
        ]
        changes = sorted([*self._changes, *gone], key=lambda it: ORDER.index(it.kind))
        differs = tuple(self._differs(attncheck))
        return Compared(self.baseline.place, self._known, tuple(changes), differs, self._incomparable())

    def _incomparable(self) -> str:
        """Why nothing, or the reference alone, could be compared; empty where a backend that is tested could."""
        if not all(self._compared.values()):
            return ""
        tested = ", ".join(sorted(self._tested))
        if not self._tested and not self._compared:
            why = "no case was judged here"
        elif not self._shared:
            why = "it has none of these cases"
        elif self._tested.isdisjoint(it.backend for it in self.baseline.results):
            why = f"it has no result of {tested}"
        else:
            why = f"it has none of these cases on {tested}"
        compared = f"only the reference, {', '.join(self._compared)}," if self._compared else "nothing"
        return f"{compared} could be compared: {why}"

    def _differs(self, attncheck: str) -> Sequence[str]:
        """What else is not as it was, in words."""
        found = departures(self.baseline.made_with, {"": {"attncheck": attncheck}, **self._ready})
        if self._edited:
            cases = "1 case has" if self._edited == 1 else f"{self._edited} cases have"
            found.append(f"{cases} other content than in the baseline, and the id of then")
        return found


ORDER = ("new", "worse", "better", "gone")
"""The kinds of change, in the order in which they are told."""


def _kind(result: Result, was: Was | None) -> str | None:
    """What became of a result: a kind of change, "known" for a failure of then, None where there is nothing to tell."""
    if result.status is Status.FAILED:
        same = was is not None and was.failed and was.verdict is result.verdict
        return "worse" if same else "new"
    if was is None or result.verdict in _UNTESTED:
        return "gone" if was is not None and was.verdict not in _UNTESTED else None
    if not was.failed:
        return None
    if result.verdict is Verdict.PASS:
        return "better"
    now = margin(result)
    return "better" if now is not None and was.margin is not None and _exceeds(was.margin, now) else "known"


def ran_on(versions: Mapping[str, str], device: Mapping[str, object]) -> dict[str, str]:
    """What a backend's worker told of itself, as far as it may change numbers."""
    adapter = {"adapter": str(device["adapter"])} if "adapter" in device else {}
    return {**dict(versions), **adapter}


def departures(before: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> list[str]:
    """In words, what backends run on now and did not then; each is told by name, as `Baseline.made_with` says."""
    found = []
    for backend, here in now.items():
        there = before.get(backend, {})
        said = f"{backend}: " if backend else ""
        if not there:
            found.append(f"{backend} is not in the baseline")
        found += [
            f"{said}{name} was {there.get(name, 'not there')}, is {here.get(name, 'not there')}"
            for name in dict.fromkeys([*there, *here])
            if there and there.get(name) != here.get(name)
        ]
    missing = [name for name in before if name and name not in now]
    return [*found, *(f"{name} is in the baseline and did not run here" for name in missing)]
