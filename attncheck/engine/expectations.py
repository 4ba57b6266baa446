"""Results held against what was expected of them, and which cases are better not run at all. Pure.

An expectation means a result when case, backend, versions and adapter all fit. Where several mean one result, it is as
expected when it fits any of them. A pass where a failure was expected is xpassed: the entry must go, or it would hide
the fault's return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from attncheck.backends.base import Hello
from attncheck.engine import status
from attncheck.engine.events import BackendReady, CaseFinished, Event, Expected, Result
from attncheck.scenario.expectation import QUARANTINED, Expectation
from attncheck.scenario.select import matches, wildcards
from attncheck.vocabulary import Flag, Status, Verdict

NEVER_JUDGED = (Verdict.UNSUPPORTED, Verdict.QUARANTINED)


@dataclass(frozen=True)
class Expectations:
    """What is expected to fail in a run; `run_quarantined` says to run also what may take the backend down."""

    entries: tuple[Expectation, ...] = ()
    run_quarantined: bool = False

    def quarantine(self, case: str, backend: str, hello: Hello) -> Expected | None:
        """Why `case` must not be run on `backend`, or None: to be asked before it is run."""
        if self.run_quarantined:
            return None
        meant = (it for it in self._meaning(case, backend, hello) if it.verdict in QUARANTINED)
        return next((_expected(it) for it in meant), None)

    def held(self, result: Result, hello: Hello) -> Result:
        """`result` with its status after expectations, and with what was expected of it.

        A verdict that changes between repeats stays failed: nothing that it shows once can be relied upon.
        """
        if result.verdict in NEVER_JUDGED:
            return result
        meant = self._meaning(result.case, result.backend, hello)
        if not meant:
            return result
        departures = [_departure(it, result) for it in meant]
        for expectation, departure in zip(meant, departures, strict=True):
            if not departure:
                return replace(result, status=Status.XFAILED, expected=_expected(expectation))
        now = Status.XPASSED if result.status is Status.PASSED else Status.FAILED
        return replace(result, status=now, expected=replace(_expected(meant[0]), departure=departures[0]))

    def again(self, results: Sequence[Result], hellos: Mapping[str, Hello]) -> tuple[Result, ...] | None:
        """Results of an earlier run, which may have expected otherwise, held anew; the workers' `hellos` by backend.

        None where one was quarantined then and is not now: it must be run.
        """
        found = []
        for result in results:
            hello = hellos[result.backend]
            if result.verdict is Verdict.QUARANTINED:
                reason = self.quarantine(result.case, result.backend, hello)
                if reason is None:
                    return None
                found.append(quarantined(result.case, result.backend, reason, result.reference))
            else:
                blank = replace(result, status=status.of_verdict(result.verdict), expected=None)
                found.append(self.held(blank, hello))
        return tuple(found)

    def _meaning(self, case: str, backend: str, hello: Hello) -> list[Expectation]:
        return [it for it in self.entries if addresses(it, case, backend) and not elsewhere(it, hello)]


def quarantined(case: str, backend: str, expected: Expected, reference: bool) -> Result:
    """The result of a case that was not run."""
    message = f"quarantined by {expected.place} as {expected.said}: {expected.reason} ({expected.link})"
    blank = Result(case, backend, "", False, Verdict.QUARANTINED, Status.SKIPPED)
    return replace(blank, message=message, reference=reference, expected=expected)


def addresses(expectation: Expectation, case: str, backend: str) -> bool:
    """Whether an expectation names this case and this backend."""
    return wildcards(expectation.backend).fullmatch(backend) is not None and any(
        matches(pattern, case) for pattern in expectation.cases
    )


def elsewhere(expectation: Expectation, hello: Hello) -> str:
    """Why an expectation is about another adapter or version than the worker's that said `hello`; or nothing."""
    return _another_adapter(expectation, hello) or _another_version(expectation, hello)


def _another_adapter(expectation: Expectation, hello: Hello) -> str:
    if expectation.adapter is None:
        return ""
    adapter = str(hello.device.get("adapter", ""))
    fits = adapter and wildcards(expectation.adapter.lower()).fullmatch(adapter.lower())
    return "" if fits else f"the adapter is {adapter or 'not known'}, not {expectation.adapter}"


def _another_version(expectation: Expectation, hello: Hello) -> str:
    installed = {canonicalize_name(package): version for package, version in hello.versions.items()}
    for package, wanted in expectation.versions.items():
        version = installed.get(canonicalize_name(package))
        if version is None:
            return f"it does not run on {package}"
        if not _contains(wanted, version):
            return f"{package} is {version}, not {wanted}"
    return ""


def _contains(wanted: SpecifierSet, version: str) -> bool:
    try:
        return wanted.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False


def _departure(expectation: Expectation, result: Result) -> str:
    """How a result differs from what was expected of it, in words; empty where it does not."""
    if Flag.FLAKY in result.flags:
        return "its verdict changes between repeats"
    if result.verdict is Verdict.PASS:
        return "it passes"
    if result.verdict is not expectation.verdict:
        return f"the verdict is {result.verdict}"
    if expectation.max_abs is not None:
        error, band = largest_error(result), expectation.max_abs
        if not band.low <= error <= band.high:
            return f"its largest error, {error:.3g}, lies {'above' if error > band.high else 'below'} that"
    if expectation.says and expectation.says.lower() not in f"{result.diagnosis}\n{result.message}".lower():
        return f"nothing says `{expectation.says}`"
    return ""


def largest_error(result: Result) -> float:
    """The largest absolute error of all differences out of tolerance."""
    return max((it.max_abs for it in result.differences if not it.passed), default=0.0)


def _expected(expectation: Expectation) -> Expected:
    band = expectation.max_abs
    said = str(expectation.verdict)
    if band is not None:
        said += f" with max_abs from {band.low:g} to {band.high:g}"
    if expectation.says:
        said += f", saying `{expectation.says}`"
    return Expected(expectation.place, said, expectation.reason, expectation.link)


@dataclass
class Usage:
    """Follows a run's events, to tell afterwards which expectations meant no result of it.

    An entry about cases, a backend or an adapter that had no part in the run is left alone: the run says nothing of it.
    """

    entries: Sequence[Expectation]
    _hellos: dict[str, list[Hello]] = field(default_factory=dict)
    _results: list[Result] = field(default_factory=list)

    def note(self, event: Event) -> None:
        """Take an event of the run."""
        if isinstance(event, BackendReady):
            self._hellos.setdefault(event.backend, []).append(event.hello)
        elif isinstance(event, CaseFinished):
            self._results += event.results

    def unused(self) -> tuple[str, ...]:
        """One line for each entry that meant none of the run's results although it names some, with the reason."""
        reasons = ((it, self._why_unused(it)) for it in self.entries)
        return tuple(f"{it.place}: unused, {it.verdict} on {it.backend}: {why}" for it, why in reasons if why)

    def _why_unused(self, expectation: Expectation) -> str:
        named = [it for it in self._results if addresses(expectation, it.case, it.backend)]
        found = [(it, hello) for it in named for hello in self._hellos.get(it.backend, [])]
        here = [(it, hello) for it, hello in found if not _another_adapter(expectation, hello)]
        if not here:
            return ""
        versions = [_another_version(expectation, hello) for _, hello in here]
        if all(versions):
            return versions[0]
        meant = [it for (it, _), another in zip(here, versions, strict=True) if not another]
        if all(it.verdict is Verdict.UNSUPPORTED for it in meant):
            return "the backend declares all that it means unsupported"
        return ""
