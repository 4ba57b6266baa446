"""Several reports made one: the shards of a run, or runs of the same cases on other machines and versions.

Cases are brought together by their id. A backend of one name is one backend where its environment is the same in all
reports and none contradicts another on a case that both judged; else each environment gets a name of its own, with the
report that it comes from behind it: `ort-webgpu (gpu-a)`. Everything that is counted is counted again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from attncheck.engine import status
from attncheck.engine.events import Compared
from attncheck.reports.brief import FAILING
from attncheck.reports.document import FORMAT, Report, counted
from attncheck.reports.entries import BackendEntry, CaseEntry, ResultEntry

Names = Mapping[str, str]
"""A backend's name in one report -> its name in all of them."""


@dataclass(frozen=True)
class Part:
    """One report, and the word that tells it from the others."""

    name: str
    report: Report


class Conflict(Exception):
    """Reports that cannot be made one. The message says of what and why."""


def parts(paths: Sequence[Path], reports: Sequence[Report]) -> list[Part]:
    """The reports with the shortest words that tell them apart: the file's name, its folder's, both, or the path."""
    ways = (
        [path.stem for path in paths],
        [path.absolute().parent.name for path in paths],
        [f"{path.absolute().parent.name}/{path.stem}" for path in paths],
        [str(path) for path in paths],
    )
    names = next((way for way in ways if len(set(way)) == len(way)), [f"{at}: {it}" for at, it in enumerate(paths, 1)])
    return [Part(name, report) for name, report in zip(names, reports, strict=True)]


def refuse_doubles(paths: Sequence[Path], reports: Sequence[Report]) -> None:
    """Raise Conflict where one run is told twice, in one file or in two: its time would count twice.

    Two runs that are told alike to the last bit of their seconds are one; those of no case say nothing twice.
    """
    for at, report in enumerate(reports):
        for other in range(at):
            if paths[at].resolve() == paths[other].resolve():
                raise Conflict(f"{paths[at]} is named twice: a run that is merged with itself counts double")
            if report.cases and report == reports[other]:
                raise Conflict(
                    f"{paths[other]} and {paths[at]} tell of one run, which would count double: leave one of them out"
                )


def merged(given: Sequence[Part]) -> Report:
    """One report of all. Raises Conflict where one id stands for cases of different content."""
    _check_contents(given)
    groups = list(_groups(given))
    names: list[dict[str, str]] = [{} for _ in given]
    for group in groups:
        for at in group.members:
            names[at][group.backend.name] = group.name
    order = [group.name for group in groups]
    cases = tuple(_cases(given, names, order))
    judged = {case.id for case in cases}
    missing = sum(it.report.selected - len(it.report.cases) for it in given)
    return Report(
        report=FORMAT,
        attncheck=", ".join(dict.fromkeys(it.report.attncheck for it in given)),
        interrupted=any(it.report.interrupted for it in given),
        seconds=sum(it.report.seconds for it in given),
        selected=len(judged) + missing,
        counts=counted(cases),
        settings=_settings(given),
        backends=tuple(replace(group.backend, name=group.name) for group in groups),
        cases=cases,
        baseline=_baseline(given, names),
    )


def _check_contents(given: Sequence[Part]) -> None:
    seen: dict[str, tuple[str, str]] = {}
    for part in given:
        for case in part.report.cases:
            name, digest = seen.setdefault(case.id, (part.name, case.digest))
            if digest != case.digest:
                raise Conflict(
                    f"{case.id} is another case in {part.name} than in {name}: its model or its inputs differ; merge "
                    "reports of the same scenarios, run by the same version of attncheck"
                )


@dataclass
class _Group:
    """One backend in one environment: the numbers of the parts that ran it, and what they found."""

    backend: BackendEntry
    members: list[int] = field(default_factory=list)
    found: dict[str, ResultEntry] = field(default_factory=dict)
    name: str = ""

    def takes(self, backend: BackendEntry, found: Mapping[str, ResultEntry]) -> bool:
        """Whether `backend` with its results can be this one."""
        return self.backend == backend and not any(
            (self.found[case].verdict, self.found[case].status) != (it.verdict, it.status)
            for case, it in found.items()
            if case in self.found
        )


def _groups(given: Sequence[Part]) -> Iterator[_Group]:
    """The backends, candidates before references, each with its new name."""
    groups: list[_Group] = []
    for at, part in enumerate(given):
        for backend in part.report.backends:
            found = {case.id: it for case in part.report.cases for it in case.results if it.backend == backend.name}
            group = next((it for it in groups if it.takes(backend, found)), None)
            if group is None:
                group = _Group(backend)
                groups.append(group)
            group.members.append(at)
            group.found |= found
    alike = [group.backend.name for group in groups]
    for group in groups:
        where = ", ".join(given[at].name for at in group.members)
        group.name = group.backend.name if alike.count(group.backend.name) == 1 else f"{group.backend.name} ({where})"
    return iter(sorted(groups, key=lambda group: group.backend.reference))


def _cases(given: Sequence[Part], names: Sequence[Names], order: Sequence[str]) -> Iterator[CaseEntry]:
    """The cases in the order in which they are met, each with the results of every backend."""
    met: dict[str, list[CaseEntry]] = {}
    for part, called in zip(given, names, strict=True):
        for case in part.report.cases:
            results = tuple(replace(it, backend=called[it.backend]) for it in case.results)
            met.setdefault(case.id, []).append(replace(case, results=results))
    for several in met.values():
        best: dict[str, ResultEntry] = {}
        for it in (it for case in several for it in case.results):
            if it.backend not in best or _margin(it) > _margin(best[it.backend]):
                best[it.backend] = it
        results = tuple(sorted(best.values(), key=lambda it: order.index(it.backend)))
        # The command to run next is that of where it fails: it names the backend.
        shown = next((it for it in several if it.status in FAILING), several[0])
        yield replace(shown, results=results, status=status.of_case(results))


def _margin(it: ResultEntry) -> float:
    return -1.0 if it.margin is None else it.margin


def _settings(given: Sequence[Part]) -> dict[str, str]:
    """What the reports agree on; and what not, with who says it."""
    told: dict[str, dict[str, list[str]]] = {}
    for part in given:
        for key, value in part.report.settings.items():
            told.setdefault(key, {}).setdefault(value, []).append(part.name)
    return {
        key: next(iter(values))
        if len(values) == 1
        else "; ".join(f"{value} ({', '.join(who)})" for value, who in values.items())
        for key, values in told.items()
    }


def _baseline(given: Sequence[Part], names: Sequence[Names]) -> Compared | None:
    held = [(it.report.baseline, called) for it, called in zip(given, names, strict=True)]
    told = [(it, called) for it, called in held if it is not None]
    if not told:
        return None
    changes = [replace(one, backend=called.get(one.backend, one.backend)) for it, called in told for one in it.changes]
    return Compared(
        place=", ".join(dict.fromkeys(it.place for it, _ in told)),
        known=sum(it.known for it, _ in told),
        changes=tuple(dict.fromkeys(changes)),
        differs=tuple(dict.fromkeys(text for it, _ in told for text in it.differs)),
        # What one part could not compare another one has, unless none could.
        incomparable="; ".join(dict.fromkeys(it.incomparable for it, _ in told))
        if all(it.incomparable for it, _ in told)
        else "",
    )
