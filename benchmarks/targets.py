"""The ratios that the kernels are to reach, worked out of a report of `attncheck bench scenarios/bench.yaml`.

`python -m benchmarks.targets FILE` prints a row a target: what was seen, what is to be reached, by which contenders. A
target whose contenders were not timed has no number. Own kernels are taken at their best on any backend of the report,
and everything on one adapter: that of the first of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attncheck.backends.base import Hello
from attncheck.bench.adapter import NOWHERE, adapter
from attncheck.reports.bench_json import Bench, CaseEntry, RowEntry, Unreadable, read

OWN = "wgsl"
"""What names of our own backends begin with, and those of tables that place them otherwise: wgsl-dawn-unbounded."""
BEYOND = ("matrix", "flash-large")
"""Kernels that need more than what WebGPU promises everywhere."""


@dataclass(frozen=True)
class Seen:
    """A ratio, and whose it is."""

    value: float
    by: str


@dataclass(frozen=True)
class Target:
    """One ratio; where `least` is false a small one is good."""

    name: str
    words: str
    reach: float
    then: float
    least: bool
    seen: Seen | None

    @property
    def reached(self) -> str:
        """"reach", "then", "no", or "-" where nothing was seen."""
        if self.seen is None:
            return "-"

        def holds(bound: float) -> bool:
            assert self.seen is not None
            return self.seen.value >= bound if self.least else self.seen.value <= bound

        return "then" if holds(self.then) else "reach" if holds(self.reach) else "no"


class Report:
    """The rows of a report by case and contender."""

    def __init__(self, bench: Bench) -> None:
        self._cases = {case.id.partition("::")[2]: case for case in bench.cases}
        self._adapters = {it.name: adapter(Hello(it.versions, it.device)) for it in bench.backends}
        self._on = next((of for name, of in self._adapters.items() if name.startswith(OWN)), NOWHERE)
        self._rates = [it.rates for it in bench.backends if it.rates is not None and self._there(it.name)]

    def case(self, name: str) -> CaseEntry | None:
        """The case with this name in its file."""
        return self._cases.get(name)

    def own(self, name: str, without: Sequence[str] = (), only: Sequence[str] = ()) -> RowEntry | None:
        """The fastest of our own kernels on a case."""
        return self._fastest(
            name,
            lambda row: (
                row.backend.startswith(OWN)
                and row.kernel not in without
                and (not only or row.kernel in only)
            ),
        )

    def other(self, name: str, label: str) -> RowEntry | None:
        """Another contender on a case: by its label, or the backend that it configures or pins."""
        return self._fastest(name, lambda row: label in (row.label, row.use))

    def copy_rate(self) -> float | None:
        """Bytes read and written a second."""
        return max((rates.copy for rates in self._rates), default=None)

    def _there(self, backend: str) -> bool:
        """Whether a backend computes on the adapter that the table is of: the one of our first backend."""
        return self._on.same(self._adapters.get(backend, NOWHERE))

    def _fastest(self, name: str, meant: Callable[[RowEntry], bool]) -> RowEntry | None:
        case = self.case(name)
        timed = [row for row in case.rows if row.timed and self._there(row.backend)] if case is not None else []
        return min(filter(meant, timed), key=lambda row: row.median or 0.0, default=None)


def targets(report: Report) -> Iterator[Target]:
    """Every row of the table of targets."""
    prefill, single = "prefill:q_len=4096,dtype=float16", "prefill:q_len=4096,dtype=float32"
    decode = "decode:past_len=8192,batch=8"
    best = report.own(prefill)
    webgpu = report.other(prefill, "ort-webgpu")
    yield _speed("P1", "prefill 4096 f16: speed / ort-webgpu", 10, 20, best, webgpu)
    flash = report.other(prefill, "torch flash")
    yield _speed("P2", "prefill 4096 f16: speed / FlashAttention-2 on CUDA", 0.5, 1.0, best, flash)
    efficient = report.other(single, "torch efficient")
    yield _speed("P3", "prefill 4096 f32: speed / PyTorch memory-efficient", 0.5, 1.0, report.own(single), efficient)
    plain = report.own(prefill, without=BEYOND)
    yield _speed("P4", "the same, plain WebGPU, f16: speed / ort-webgpu", 2, 4, plain, webgpu)
    yield Target("P5", "causal useful rate / non-causal", 0.85, 0.95, True, _causal(report, prefill))
    yield _times("P6", "window 1024 at 16384: time / full causal", 0.20, 0.12, report, "prefill-window",
                 "prefill:q_len=16384,dtype=float16")  # fmt: skip
    yield Target("D1", "decode B8 8192 f16: KV bytes a second / copy bandwidth", 0.7, 0.9, True, _bytes(report, decode))
    yield _speed("D2", "the same: speed / ort-webgpu", 15, 22, report.own(decode), report.other(decode, "ort-webgpu"))
    yield _times("D3", "decode, 8 query heads a KV head against 1: time", 1.2, 1.05, report,
                 "decode-group:heads=64,batch=8", "decode-group:heads=8,batch=8")  # fmt: skip
    for size in (1024, 4096, 16384):
        name = f"prefill:q_len={size},dtype=float16"
        online, naive = report.own(name, only=("online",)), report.own(name, only=("naive",))
        yield _speed("N1", f"prefill {size} f16: online's speed / naive's", 1, 1, online, naive)


def _speed(
    name: str, words: str, reach: float, then: float, ours: RowEntry | None, theirs: RowEntry | None
) -> Target:
    return Target(name, words, reach, then, True, _ratio(theirs, ours))


def _times(name: str, words: str, reach: float, then: float, report: Report, this: str, that: str) -> Target:
    """By the kernel that is the fastest on the first of the cases, on both."""
    first = report.own(this)
    second = report.own(that, only=(first.kernel,)) if first is not None else None
    found = _ratio(first, second)
    return Target(name, words, reach, then, False, found)


def _ratio(above: RowEntry | None, below: RowEntry | None) -> Seen | None:
    if above is None or below is None or above.median is None or below.median is None:
        return None
    return Seen(above.median / below.median, f"{above.label} {above.median:.3g} s, {below.label} {below.median:.3g} s")


def _causal(report: Report, causal: str) -> Seen | None:
    every = "prefill-not-causal:dtype=float16"
    first, second = report.own(causal), None
    second = report.own(every, only=(first.kernel,)) if first is not None else None
    cases = report.case(causal), report.case(every)
    if first is None or second is None or None in cases or first.median is None or second.median is None:
        return None
    rates = [case.flop / row.median for case, row in zip(cases, (first, second), strict=True) if case and row.median]
    return Seen(rates[0] / rates[1], first.label)


def _bytes(report: Report, name: str) -> Seen | None:
    row, case, copy = report.own(name), report.case(name), report.copy_rate()
    if row is None or row.median is None or case is None or copy is None:
        return None
    return Seen(case.kv_bytes / row.median / copy, f"{row.label} {row.median:.3g} s")


def table(report: Report) -> list[str]:
    """A line a target."""
    lines = ["| id | ratio | reach | then | seen | | by |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for each in targets(report):
        value, by = ("", "") if each.seen is None else (f"{each.seen.value:.3g}", each.seen.by)
        bounds = f"{each.reach:g} | {each.then:g}"
        lines.append(f"| {each.name} | {each.words} | {bounds} | {value} | {each.reached} | {by} |")
    return lines


def main(arguments: Sequence[str]) -> int:
    """Print the table of a report."""
    if len(arguments) != 1:
        print("usage: python -m benchmarks.targets FILE", file=sys.stderr)
        return 2
    try:
        document = read(Path(arguments[0]))
    except Unreadable as wrong:
        print(wrong, file=sys.stderr)
        return 2
    print("\n".join(table(Report(document))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
