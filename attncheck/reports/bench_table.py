"""The table of a bench: a block a case, a row a contender. A function of events."""

from __future__ import annotations

from attncheck.bench import comparison
from attncheck.bench.events import (
    BenchEvent,
    BenchFinished,
    CaseRefused,
    CaseTimed,
    Rates,
    StationReady,
    Timing,
)
from attncheck.reports.lines import BLANK, Line, Role, Span, line, paragraph
from attncheck.reports.numbers import plural, seconds

LABEL = 18
NUMBER = 9
TITLES = ("median", "p10", "p90", "apart", "TFLOP/s", "GB/s", "floor", "x naive", "x ort")
SOFTWARE = "a software adapter: its absolute speed says nothing, so that only ratios are shown"


def duration(value: float) -> str:
    """Write seconds in the unit that gives three digits before the point at most: ``83.0us``, ``1.52ms``."""
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if value * factor < 999.5:
            return f"{digits(value * factor)}{unit}"
    return f"{digits(value)}s"


def digits(value: float) -> str:
    """Write a number in three digits: ``0.052``, ``1.52``, ``83.0``, ``152``."""
    places = 3 if value < 0.9995 else 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{places}f}"


class Table:
    """The lines of each event, in the order in which they come."""

    def __init__(self, width: int | None) -> None:
        self._width = width
        self._software = False
        self._rates: dict[str, Rates] = {}
        self._timed = 0
        self._others = 0

    def lines(self, event: BenchEvent) -> list[Line]:
        """What to print of an event."""
        match event:
            case StationReady():
                return self._ready(event)
            case CaseRefused():
                self._others += 1
                told = paragraph(f"not timed: {event.message}", self._width, "  ")
                return [BLANK, line(event.case, "heading"), *told]
            case CaseTimed():
                return self._case(event)
            case BenchFinished():
                return [BLANK, line(self._closing(event))]
        return []

    def _ready(self, event: StationReady) -> list[Line]:
        device = event.hello.device
        name = str(device.get("adapter") or device.get("provider") or device.get("device") or "")
        versions = ", ".join(f"{package} {version}" for package, version in event.hello.versions.items())
        told = [f"{event.backend}: {name} ({versions})"]
        if event.rates is not None:
            self._rates[event.backend] = event.rates
        if device.get("software"):
            self._software = True
            told.append(SOFTWARE)
        elif event.rates is not None:
            told.append(_rates(event.rates))
        return [part for text in told for part in paragraph(text, self._width, "")]

    def _case(self, event: CaseTimed) -> list[Line]:
        titles = TITLES if not self._software else TITLES[-2:]
        head = "".join(title.rjust(NUMBER) for title in titles)
        gflop, mebi = event.work.flop / 1e9, event.work.bytes / 2**20
        lines = [
            BLANK,
            Line((Span(event.case, "heading"),)),
            line(f"  {digits(gflop)} GFLOP, {digits(mebi)} MiB at least; judged {event.judged}"),
            Line((Span("  " + "contender".ljust(LABEL) + head, "title"),)),
        ]
        for timing in event.timings:
            lines += self._row(event, timing)
        return lines

    def _row(self, event: CaseTimed, timing: Timing) -> list[Line]:
        label = timing.label if timing.label.endswith(timing.kernel) else f"{timing.label}: {timing.kernel}"
        if not timing.timed:
            self._others += 1
            role: Role = "bad" if timing.failed else "caution"
            said = f"{timing.verdict}" + (f": {timing.message}" if timing.message else "")
            first, *rest = paragraph(said, self._width, "  " + " " * LABEL + "  ", "")
            return [Line((Span("  " + label.ljust(LABEL) + "  "), Span(first.text.strip(), role))), *rest]
        self._timed += 1
        numbers = "".join(cell.rjust(NUMBER) for cell in self._cells(event, timing))
        row = Line((Span("  " + label.ljust(LABEL)), Span(numbers), Span(f"  {timing.clock}")))
        return [row, *(paragraph(timing.message, self._width, "    ") if timing.message else [])]

    def _cells(self, event: CaseTimed, timing: Timing) -> list[str]:
        ratios = [
            comparison.against(timing, comparison.naive_of(timing, event.timings)),
            comparison.against(timing, comparison.webgpu_of(event.timings)),
        ]
        told = ["" if ratio is None else digits(ratio) for ratio in ratios]
        if self._software:
            return told
        of, moving = timing.summary, timing.moving
        floor = floor_of(event, self._best())
        return [
            *(duration(it) for it in (of.median, of.p10, of.p90)),
            "" if moving is None else duration(moving.median),
            digits(event.work.flop / of.median / 1e12),
            digits(event.work.bytes / of.median / 1e9),
            "" if floor is None else f"{100 * floor / of.median:.1f}%",
            *told,
        ]

    def _best(self) -> Rates | None:
        """The rates of the adapter: of several compilers' on one, each at its best."""
        if not self._rates:
            return None
        every = list(self._rates.values())
        matrix = [it.matrix for it in every if it.matrix is not None]
        return Rates(max(it.fma for it in every), max(it.copy for it in every), max(matrix, default=None))

    def _closing(self, event: BenchFinished) -> str:
        ended = ", interrupted" if event.interrupted else ""
        return f"{plural(self._timed, 'row')} timed, {self._others} not, in {seconds(event.seconds)}{ended}"


def floor_of(event: CaseTimed, rates: Rates | None) -> float | None:
    """Seconds below which nobody comes on this adapter: by its matrix units in float16, where there are any."""
    if rates is None:
        return None
    flops = rates.matrix if event.dtype == "float16" and rates.matrix is not None else rates.fma
    return event.work.floor(flops, rates.copy)


def _rates(rates: Rates) -> str:
    told = [f"{digits(rates.fma / 1e12)} TFLOP/s of f32", f"{digits(rates.copy / 1e9)} GB/s of copying"]
    if rates.matrix is not None:
        told.insert(1, f"{digits(rates.matrix / 1e12)} TFLOP/s of f16 matrices")
    return f"measured here: {', '.join(told)}"
