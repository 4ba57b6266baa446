"""The table of a bench: a block a case, a row a contender. A function of events."""

from __future__ import annotations

from collections.abc import Iterator

from attncheck.bench import comparison, floor
from attncheck.bench.adapter import Adapter
from attncheck.bench.baseline import Compared
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
from attncheck.vocabulary import Verdict

LABEL = 18
NUMBER = 9
TITLES = ("median", "p10", "p90", "apart", "TFLOP/s", "GB/s", "floor", "x naive", "x ort")
RATIOS = TITLES[-2:]
SPARED = ("p10", "p90", "apart")
"""Columns that a narrow terminal does without."""

WIDE = 2 + LABEL + NUMBER * len(TITLES) + len("  gpu timestamps")
SOFTWARE = "a software adapter: its absolute speed says nothing, so that only ratios are shown"
UNKNOWN = (
    "whether its adapter is hardware or software cannot be known here: only ratios are shown, and these may be to "
    "another adapter"
)
ACROSS = "-"
ELSEWHERE = "it computes on another adapter than what it would be held against, which would say nothing of a kernel"
RIGHT = "right, and not timed"


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
        self._adapters: list[Adapter] = []
        self._rates: list[tuple[Adapter, Rates]] = []
        self._apart = False
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
                spared = f"{', '.join(SPARED)} and the clock: in {WIDE} columns, or in --report json=FILE"
                hint = [] if self._ratios_only or not self._narrow else [line(spared)]
                across = paragraph(f"{ACROSS}: {ELSEWHERE}", self._width, "") if self._apart else []
                return [BLANK, *across, *hint, line(self._closing(event))]
        return []

    def _ready(self, event: StationReady) -> list[Line]:
        device = event.hello.device
        name = str(device.get("adapter") or device.get("provider") or device.get("device") or "")
        versions = ", ".join(f"{package} {version}" for package, version in event.hello.versions.items())
        told = [f"{event.backend}: {name} ({versions})"]
        if event.rates is not None:
            self._rates.append((event.adapter, event.rates))
        self._adapters.append(event.adapter)
        if not event.adapter.speaks:
            told.append(SOFTWARE if event.adapter.kind == "software" else UNKNOWN)
        elif event.rates is not None:
            told.append(_rates(event.rates))
        return [part for text in told for part in paragraph(text, self._width, "")]

    def _case(self, event: CaseTimed) -> list[Line]:
        head = "".join(title.rjust(NUMBER) for title in self._titles)
        gflop, mebi = event.work.flop / 1e9, event.work.bytes / 2**20
        lines = [
            BLANK,
            Line((Span(event.case, "heading"),)),
            line(f"  {digits(gflop)} GFLOP, {digits(mebi)} MiB at least; judged {event.judged}"),
            Line((Span("  " + "contender".ljust(LABEL) + head, "title"),)),
        ]
        for timing in event.timings:
            lines += self._row(event, timing)
        # What keeps those that are right from being timed is the case's, or the call's: it is said once.
        for why in dict.fromkeys(timing.message for timing in event.timings if _spared(timing)):
            lines += paragraph(why, self._width, "    ")
        return lines

    def _row(self, event: CaseTimed, timing: Timing) -> list[Line]:
        label = timing.label if timing.label.endswith(timing.kernel) else f"{timing.label}: {timing.kernel}"
        if not timing.timed:
            self._others += 1
            role: Role = "bad" if timing.failed else "caution"
            said = RIGHT if _spared(timing) else ": ".join(filter(None, (timing.verdict, timing.message)))
            first, *rest = paragraph(said, self._width, "  " + " " * LABEL + "  ", "")
            return [Line((Span("  " + label.ljust(LABEL) + "  "), Span(first.text.strip(), role))), *rest]
        self._timed += 1
        cells = self._cells(event, timing)
        numbers = "".join(cells[title].rjust(NUMBER) for title in self._titles)
        clock = f"  {timing.clock}" if self._ratios_only or not self._narrow else ""
        row = Line((Span("  " + label.ljust(LABEL)), Span(numbers), Span(clock)))
        return [row, *(paragraph(timing.message, self._width, "    ") if timing.message else [])]

    @property
    def _narrow(self) -> bool:
        return self._width is not None and self._width < WIDE

    @property
    def _ratios_only(self) -> bool:
        """Whether no adapter's absolute speed can be told; backends that the processor is made for alone have one."""
        kinds = {it.kind for it in self._adapters}
        return "hardware" not in kinds and not kinds <= {"processor"}

    @property
    def _titles(self) -> list[str]:
        if self._ratios_only:
            return list(RATIOS)
        return [title for title in TITLES if not (self._narrow and title in SPARED)]

    def _cells(self, event: CaseTimed, timing: Timing) -> dict[str, str]:
        """What stands under each title."""
        of, moving = timing.summary, timing.moving
        rates = floor.best(timing.adapter, self._rates)
        least = None if rates is None else floor.seconds(event.work, event.dtype, rates)
        absolute = [
            *(duration(it) for it in (of.median, of.p10, of.p90)),
            "" if moving is None else duration(moving.median),
            digits(event.work.flop / of.median / 1e12),
            digits(event.work.bytes / of.median / 1e9),
            "" if least is None else f"{100 * least / of.median:.1f}%",
        ]
        told = absolute if timing.adapter.speaks else [""] * len(absolute)
        return dict(zip(TITLES, [*told, *self._ratios(event, timing)], strict=True))

    def _ratios(self, event: CaseTimed, timing: Timing) -> Iterator[str]:
        """Those under x naive and x ort."""
        elsewhere = comparison.elsewhere(timing, event.timings)
        self._apart |= bool(elsewhere)
        for name, anchor in comparison.anchors(timing, event.timings).items():
            ratio = comparison.against(timing, anchor)
            yield ACROSS if name in elsewhere else "" if ratio is None else digits(ratio)

    def _closing(self, event: BenchFinished) -> str:
        ended = ", interrupted" if event.interrupted else ""
        return f"{plural(self._timed, 'row')} timed, {self._others} not, in {seconds(event.seconds)}{ended}"


def compared_lines(compared: Compared, fail_below: float | None, width: int | None) -> list[Line]:
    """The ratios of a former run beside those of this one, the worst first."""
    rows = sorted(compared.changes, key=lambda change: change.ratio)
    titles = "".join(title.rjust(NUMBER) for title in ("before", "now", "change"))
    column = max([LABEL, *(len(change.label) + len(change.anchor) + 3 for change in rows)])
    lines = [BLANK, line("against the baseline, in times as fast as", "heading")]
    lines.append(line("  " + "".ljust(column) + titles + "  case"))
    for change in rows:
        numbers = "".join(digits(it).rjust(NUMBER) for it in (change.before, change.now, change.ratio))
        role: Role = "bad" if fail_below is not None and change.ratio < fail_below else "plain"
        label = f"{change.label} / {change.anchor}".ljust(column)
        lines.append(Line((Span(f"  {label}"), Span(numbers, role), Span(f"  {change.case}"))))
    for each in compared.missing:
        lines += paragraph(f"{', '.join(filter(None, (each.case, each.label)))}: {each.why}", width, "  ")
    for text in compared.differs:
        lines += paragraph(text, width, "  ")
    return lines


def _spared(timing: Timing) -> bool:
    """Whether the contender is right and was not timed all the same."""
    return timing.verdict is Verdict.PASS and not timing.timed


def _rates(rates: Rates) -> str:
    told = [f"{digits(rates.fma / 1e12)} TFLOP/s of f32", f"{digits(rates.copy / 1e9)} GB/s of copying"]
    if rates.matrix is not None:
        told.insert(1, f"{digits(rates.matrix / 1e12)} TFLOP/s of f16 matrices")
    return f"measured here: {', '.join(told)}"
