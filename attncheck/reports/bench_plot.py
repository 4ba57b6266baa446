"""What a bench has timed as a picture: a bar a contender, grouped by case. A function of events; the text of an SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from attncheck.bench import comparison, floor
from attncheck.bench.adapter import Adapter
from attncheck.bench.events import BenchEvent, CaseTimed, Rates, StationReady, Timing
from attncheck.reports.bench_table import digits, duration

LEFT, WIDTH, BAR, GAP, TOP = 330, 560, 16, 26, 60
PALETTE = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b")


@dataclass(frozen=True)
class Bar:
    """One contender: how long its bar is, from 0 to 1, and what stands behind it."""

    label: str
    share: float
    told: str


@dataclass(frozen=True)
class Group:
    """One case."""

    title: str
    bars: tuple[Bar, ...]


def text(events: Sequence[BenchEvent]) -> str:
    """The picture: shares of the floor where adapters' rates say one, else speed in relation to the slowest."""
    ready = [event for event in events if isinstance(event, StationReady)]
    ratios_only = any(not event.adapter.speaks for event in ready)
    measured = [(event.adapter, event.rates) for event in ready if event.rates is not None]
    cases = [event for event in events if isinstance(event, CaseTimed)]
    if measured and not ratios_only:
        groups = [_by_floor(case, measured) for case in cases]
        axis = "share of what the adapter could do at its measured rates"
    else:
        groups = [_by_slowest(case) for case in cases]
        axis = "times as fast as the slowest of the case on the same adapter, each doubling as long"
    return _svg([group for group in groups if group.bars], axis)


def _timed(case: CaseTimed) -> list[Timing]:
    return [timing for timing in case.timings if timing.timed]


def _by_floor(case: CaseTimed, measured: Sequence[tuple[Adapter, Rates]]) -> Group:
    bars = []
    for timing in _timed(case):
        median = timing.summary.median
        rates = floor.best(timing.adapter, measured)
        share = 0.0 if rates is None else floor.seconds(case.work, case.dtype, rates) / median
        told = "" if rates is None else f"{100 * share:.1f}%  "
        rate = f"{digits(case.work.flop / median / 1e12)} TFLOP/s, {digits(case.work.bytes / median / 1e9)} GB/s"
        bars.append(Bar(timing.label, min(1.0, share), f"{told}{duration(median)}  {rate}"))
    return Group(case.case, tuple(bars))


def _by_slowest(case: CaseTimed) -> Group:
    timed = _timed(case)
    ratios = [
        max(comparison.against(it, other) or 1.0 for other in timed if it.adapter.same(other.adapter)) for it in timed
    ]
    longest = max([2.0, *ratios])
    return Group(
        case.case,
        tuple(
            Bar(timing.label, math.log2(2.0 * ratio) / math.log2(2.0 * longest), f"{digits(ratio)}x")
            for timing, ratio in zip(timed, ratios, strict=True)
        ),
    )


def _svg(groups: Sequence[Group], axis: str) -> str:
    labels = list(dict.fromkeys(bar.label for group in groups for bar in group.bars))
    colours = {label: PALETTE[at % len(PALETTE)] for at, label in enumerate(labels)}
    height = TOP + sum(GAP + BAR * len(group.bars) + 8 for group in groups) + 20
    body = "\n".join(_drawn(groups, colours))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 330}" height="{height}" '
        'font-family="sans-serif" font-size="12">\n'
        '<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="16" y="24" font-size="16">attncheck bench</text>\n'
        f'<text x="16" y="44" fill="#555">{escape(axis)}</text>\n'
        f"{body}\n</svg>\n"
    )


def _drawn(groups: Sequence[Group], colours: dict[str, str]) -> Iterator[str]:
    top = TOP
    for group in groups:
        yield f'<text x="16" y="{top + 16}" font-weight="bold">{escape(group.title)}</text>'
        top += GAP
        for bar in group.bars:
            middle = top + BAR - 4
            length = max(1.0, bar.share * WIDTH)
            yield f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{escape(bar.label)}</text>'
            yield (
                f'<rect x="{LEFT}" y="{top + 1}" width="{length:.1f}" height="{BAR - 3}" '
                f'fill="{colours[bar.label]}"/>'
            )
            yield f'<text x="{LEFT + length + 6:.1f}" y="{middle}" fill="#333">{escape(bar.told)}</text>'
            top += BAR
        top += 8
