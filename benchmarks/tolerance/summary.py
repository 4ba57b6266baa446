"""What a measurement found, as the tables of docs/tolerance.md: a function of its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from attncheck.vocabulary import Verdict
from benchmarks.tolerance.records import OtherMeasurement, Record, same

WORST = 10
"""Cases listed by margin, and by factor."""


def report(folders: Sequence[tuple[Record, list[Record]]]) -> str:
    """Markdown: what was run on what, margins and factors, the largest margins, what failed, and the wrong kernels.

    Raises OtherMeasurement where the folders hold different draws, or the same draw on different versions of a backend.
    """
    folders = [(setup, records) for setup, records in folders if setup]
    if not folders:
        return "nothing was measured"
    draws = {_draw(setup) for setup, _ in folders}
    if len(draws) > 1:
        raise OtherMeasurement(f"these are different draws: {', '.join(sorted(draws))}")
    setups = [setup for setup, _ in folders]
    records = _merged(record for _, found in folders for record in found)
    parts = (
        _what(setups, records),
        _margins(records),
        *(_worst(records, by) for by in ("margin", "factor")),
        _failed(records),
        *_wrong_kernels(records),
    )
    return "\n\n".join(part for part in parts if part)


def _draw(setup: Record) -> str:
    always = setup.get("always", [])
    return f"seed {setup.get('seed')}" + (f", always with {' and '.join(always)}" if always else "")


def _merged(records: Iterable[Record]) -> list[Record]:
    """Each case once, with the results of every backend that had it anywhere."""
    cases: dict[int, Record] = {}
    for record in records:
        known = cases.get(record["index"], record)
        results = {it["backend"]: it for it in (*known["results"], *record["results"])}
        cases[record["index"]] = {**known, **record, "results": list(results.values())}
        cases[record["index"]]["wrong"] = {**known["wrong"], **record["wrong"]}
    return [cases[index] for index in sorted(cases)]


def _what(setups: Sequence[Record], records: Sequence[Record]) -> str:
    versions = {name: said for setup in setups for name, said in setup["versions"].items()}
    for setup in setups:
        if not same({**setup, "versions": {name: versions[name] for name in setup["backends"]}}, setup):
            raise OtherMeasurement("a backend has different versions in these folders")
    ops = Counter((record["op"], record["dtype"]) for record in records)
    lines = [f"{len(records):,} drawn cases, {_draw(setups[0])}:"]
    lines += [f"- {op}, {dtype}: {count:,}" for (op, dtype), count in sorted(ops.items())]
    lines += [f"- `{name}`: {said}" for name, said in versions.items()]
    told = {
        "invalid": "that must be refused",
        "incomparable": "without a finite bound",
        "fault": "at which attncheck failed",
    }
    lines += [f"- {count} cases {words}" for key, words in told.items() if (count := sum(key in it for it in records))]
    return "\n".join(lines)


def _rows(records: Iterable[Record]) -> Iterable[tuple[Record, Record]]:
    return ((record, result) for record in records for result in record["results"])


@dataclass
class _Column:
    """The results of one backend in one dtype."""

    statuses: Counter[str] = field(default_factory=Counter)
    margins: list[float] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def cells(self) -> tuple[str, ...]:
        judged = sum(count for status, count in self.statuses.items() if status != "skipped")
        flagged = self.statuses["failed"]
        known = self.statuses["xfailed"]
        return (
            *(f"{count:,}" for count in (judged, self.statuses["skipped"], known, flagged)),
            *(_quantiles(self.margins)),
            *(_quantiles(self.factors)),
        )


def _quantiles(values: Sequence[float]) -> tuple[str, ...]:
    if not values:
        return ("", "", "")
    return tuple(f"{value:.2g}" for value in (*np.quantile(values, (0.5, 0.99)), max(values)))


def _margins(records: Sequence[Record]) -> str:
    """A row a backend and dtype; margins and factors are those of results that pass."""
    columns: dict[tuple[str, str], _Column] = {}
    for record, result in _rows(records):
        column = columns.setdefault((result["backend"], record["dtype"]), _Column())
        column.statuses[result["status"]] += 1
        if result["verdict"] == Verdict.PASS and "margin" in result:
            column.margins.append(result["margin"])
            column.factors.append(max(result["factor"].values()))
    counts = ("judged", "unsupported", "known fault", "flagged")
    heading = ("backend", "dtype", *counts, "margin p50", "p99", "max", "factor p50", "p99", "max")
    return table(heading, [(f"`{name}`", dtype, *it.cells()) for (name, dtype), it in sorted(columns.items())])


def _worst(records: Sequence[Record], by: str) -> str:
    """The passing results with the largest margin, or the largest factor: storage, which fills a margin, has none."""
    found = [
        ({"margin": it["margin"], "factor": max(it["factor"].values())}, it, record)
        for record, it in _rows(records)
        if it["verdict"] == Verdict.PASS and "margin" in it
    ]
    found.sort(key=lambda one: -one[0][by])
    rows = [
        (f"{sizes['margin']:.2g}", f"{sizes['factor']:.2g}", f"`{it['backend']}`", f"`{record['case']}`")
        for sizes, it, record in found[:WORST]
    ]
    return table(("margin", "factor", "backend", f"case, by largest {by}"), rows)


def _failed(records: Sequence[Record]) -> str:
    """What nobody expected, one by one; what is known, counted by the entry that knows it."""
    lines = [f"- attncheck failed at `{it['case']}`: {it['fault'].splitlines()[-1]}" for it in records if "fault" in it]
    for record, result in _rows(records):
        if result["status"] == "failed":
            said = result.get("diagnosis") or result.get("message", "").splitlines()[:1]
            margin = f", margin {result['margin']:.2g}" if "margin" in result else ""
            lines.append(f"- `{result['backend']}` {result['verdict']}{margin}: `{record['case']}` {said}")
    known = Counter((it["backend"], it["expected"]) for _, it in _rows(records) if it["status"] == "xfailed")
    lines += [f"- known: {count:,} of `{backend}` by {place}" for (backend, place), count in known.most_common()]
    return "\n".join(lines)


@dataclass
class _Wrong:
    """What became of one wrong kernel in the cases where it is relevant."""

    rejected: int = 0
    by_poison: int = 0
    survived: list[float] = field(default_factory=list)

    def row(self, name: str, honest: float) -> tuple[str, ...]:
        relevant = self.rejected + self.by_poison + len(self.survived)
        hidden = sum(it <= honest for it in self.survived)
        beyond = [it for it in self.survived if it > honest]
        told = relevant - hidden
        share = f"{(self.rejected + self.by_poison) / told:.2%}" if told else ""
        least = f"{min(beyond):.2g} to {max(beyond):.2g}" if beyond else ""
        numbers = (f"{it:,}" for it in (relevant, hidden, self.by_poison, len(beyond)))
        return (f"`{name}`", *numbers, share, least)


def _wrong_kernels(records: Sequence[Record]) -> Iterable[str]:
    """A table for each arithmetic that the backends declare."""
    computes = dict.fromkeys(compute for record in records for compute in record["wrong"])
    for compute in computes:
        yield _wrong_table([it for it in records if compute in it["wrong"]], compute)


def _wrong_table(cases: Sequence[Record], compute: str) -> str:
    """Wrong kernels against the tolerance.

    On data where a wrong kernel's answer is a right one's within what correct backends themselves err by (their largest
    factor here), no tolerance can tell it, and the case is no test of it. Of the others the share that is rejected is
    said, and the factors of those that passed: they lie in the headroom, between correct backends and the constant.
    """
    right = [it for _, it in _rows(cases) if it["verdict"] == Verdict.PASS and it["compute"] == compute]
    honest = max((max(it["factor"].values()) for it in right), default=1.0)
    kernels: dict[str, _Wrong] = {}
    for case in cases:
        found = case["wrong"][compute]
        for name in found["rejected"]:
            kernels.setdefault(name, _Wrong()).rejected += 1
        for name in found["by_poison"]:
            kernels.setdefault(name, _Wrong()).by_poison += 1
        for name, factor in found["survivors"].items():
            kernels.setdefault(name, _Wrong()).survived.append(factor)
    whole = _Wrong()
    for kernel in kernels.values():
        whole.rejected += kernel.rejected
        whole.by_poison += kernel.by_poison
        whole.survived += kernel.survived
    heading = (
        f"wrong kernel ({compute})",
        "relevant",
        "equal",
        "by NaN alone",
        "passed",
        "rejected",
        "factors of passed",
    )
    rows = [it.row(name, honest) for name, it in sorted(kernels.items())]
    said = f"Equal: a factor of at most {honest:.3g}, the largest of a correct backend here."
    return f"{said}\n\n{table(heading, [whole.row('all', honest), *rows])}"


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    if not rows:
        return ""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
