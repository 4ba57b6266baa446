"""What is told of a bench: the table at two widths, the document, the picture, the comparison with a former run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from attncheck.backends.base import Hello
from attncheck.bench.adapter import Adapter
from attncheck.bench.baseline import Baseline, Change, Missing, compared, incomparable
from attncheck.bench.events import (
    BenchEvent,
    BenchFinished,
    BenchStarted,
    CaseRefused,
    CaseTimed,
    Part,
    Rates,
    StationFailed,
    StationReady,
    Timing,
)
from attncheck.bench.work import Work
from attncheck.reports import bench_json, bench_plot
from attncheck.reports.bench_table import Table, compared_lines, digits, duration
from attncheck.vocabulary import Verdict
from tests.cli.frozen import ROOT, assert_golden

GPU = {"adapter": "Some GPU", "software": False, "limits": {}}
HARDWARE, SOFTWARE = Adapter("hardware", "Some GPU"), Adapter("software", "Some GPU")
RATES = Rates(fma=6e13, copy=4e12)


def row(label: str, median: float, kernel: str = "", apart: float = 0.0) -> Timing:
    backend, _, asked = label.partition(" ")
    seconds = (median * 0.9, median, median, median * 1.3)
    parts = [Part(kernel or asked or "GroupQueryAttention", False, False, seconds)]
    if apart:
        parts.append(Part("append", True, True, (apart,) * 4))
    clock = "gpu timestamps"
    told = (label, Verdict.PASS, "", clock, seconds, tuple(parts))
    return Timing(backend, kernel or asked, *told, use=backend, adapter=HARDWARE)


def lacking(label: str, verdict: Verdict, message: str) -> Timing:
    backend, _, kernel = label.partition(" ")
    return Timing(backend, kernel, label, verdict, message)


PREFILL = CaseTimed(
    "bench.yaml::prefill", "op=gqa q_len=4096", "d1", "float16", Work(68_719_476_736, 1 << 24, 80 << 20),
    "64 of 4096 rows a head",
    (
        row("wgsl naive", 0.080, apart=1.2e-5),
        row("wgsl auto", 0.012, "online", apart=1.3e-5),
        lacking("wgsl flash", Verdict.UNSUPPORTED, "flash does not cover a softcap; online would run"),
        lacking("wgsl-dawn naive", Verdict.MISMATCH, "output differs by 0.5 where 1e-06 is allowed"),
        row("ort-webgpu", 0.0102),
        replace(row("torch efficient", 0.00324), message="keys and values were repeated for every query head before"),
    ),
)  # fmt: skip
DECODE = CaseTimed(
    "bench.yaml::decode", "op=gqa past_len=8192", "d2", "float16", Work(1_073_741_824, 1 << 28, (1 << 28) + (1 << 17)),
    "all rows of 2 of 8 batch entries",
    (row("wgsl naive", 2e-3, apart=3e-4), row("wgsl online", 80e-6)),
)  # fmt: skip


def on(adapter: Adapter, case: CaseTimed) -> CaseTimed:
    """The case as contenders on that adapter take it."""
    return replace(case, timings=tuple(replace(timing, adapter=adapter) for timing in case.timings))


def events(software: bool = False) -> list[BenchEvent]:
    device = {**GPU, "software": software}
    hello, runtime = Hello({"wgpu": "0.32.0"}, device), {"provider": "WebGpuExecutionProvider", **device}
    where = SOFTWARE if software else HARDWARE
    return [
        BenchStarted(("bench.yaml::prefill", "bench.yaml::decode", "bench.yaml::vast"), ("wgsl naive", "wgsl online")),
        StationReady("wgsl", hello, RATES),
        StationReady("ort-webgpu", Hello({"onnxruntime": "1.27.0"}, runtime)),
        StationFailed("torch", "the package torch is not installed"),
        on(where, PREFILL),
        on(where, DECODE),
        CaseRefused("bench.yaml::vast", "it would take 43.0 GiB, more than the limit of 11.7 GiB: past and present"),
        BenchFinished(12.3, interrupted=False),
    ]


@pytest.mark.parametrize("width", [None, 80])
@pytest.mark.parametrize("software", [False, True])
def test_the_table_reads_as_frozen(width: int | None, software: bool) -> None:
    table = Table(width)
    lines = [line.text for event in events(software) for line in table.lines(event)]
    assert_golden(f"bench-{'software' if software else 'gpu'}-{width or 'unlimited'}.txt", "\n".join(lines) + "\n")


UNKNOWN = Hello({"onnxruntime": "1.27.0"}, {"provider": "WebGpuExecutionProvider", "software": None})


def written(*events: BenchEvent) -> str:
    table = Table(None)
    return "\n".join(line.text for event in events for line in table.lines(event))


def test_an_adapter_of_which_nothing_is_known_is_not_spoken_of_in_absolute_terms() -> None:
    ready, alone = StationReady("ort-webgpu", UNKNOWN), replace(PREFILL, timings=(row("ort-webgpu", 0.0102),))
    timed = on(Adapter("unknown"), alone)
    said = written(ready, timed)
    assert "whether its adapter is hardware or software cannot be known here" in said
    assert "median" not in said
    assert "10.2ms" not in said
    assert json.loads(bench_json.text([ready, timed]))["software"] is True
    assert "10.2ms" not in bench_plot.text([ready, timed])


def test_beside_hardware_the_row_of_an_unknown_adapter_has_ratios_alone() -> None:
    first, unknown = PREFILL.timings[0], replace(row("ort-webgpu", 0.0102), adapter=Adapter("unknown"))
    case = replace(PREFILL, timings=(first, unknown))
    *_, own, other = written(StationReady("wgsl", Hello({}, GPU), RATES), StationReady("it", UNKNOWN), case).split("\n")
    assert "80.0ms" in own
    assert other.split() == ["ort-webgpu", "7.84", "1.00", "gpu", "timestamps"]


SLOW, CPU = Adapter("hardware", "Slow GPU"), Adapter("processor")
MIXED: list[BenchEvent] = [
    StationReady("wgsl", Hello({}, GPU), RATES),
    StationReady("slow", Hello({}, {**GPU, "adapter": "Slow GPU"}), Rates(fma=6e12, copy=4e11)),
    StationReady("ort-cpu", Hello({}, {"provider": "CPUExecutionProvider"})),
    replace(
        DECODE,
        timings=(
            row("wgsl naive", 2e-3), row("wgsl online", 80e-6),
            replace(row("slow naive", 8e-3), adapter=SLOW), replace(row("slow online", 800e-6), adapter=SLOW),
            replace(row("ort-cpu", 5e-2), adapter=CPU),
        ),
    ),
    BenchFinished(1.0, interrupted=False),
]  # fmt: skip


def test_each_adapter_has_its_own_rates_and_anchors() -> None:
    assert_golden("bench-adapters.txt", written(*MIXED) + "\n")
    rows = json.loads(bench_json.text(MIXED))["cases"][0]["rows"]
    assert [row["to_naive"] for row in rows] == [1.0, pytest.approx(25.0), 1.0, pytest.approx(10.0), None]
    shares = ["3.4%", "83.9%", "8.4%", "83.9%"]
    assert re.findall(r"[0-9.]+%", bench_plot.text(MIXED).partition("<rect x")[2]) == shares


def test_a_picture_without_floors_holds_against_the_slowest_on_the_same_adapter() -> None:
    software = on(SOFTWARE, DECODE)
    other = replace(row("ort-cpu", 5e-2), adapter=CPU)
    ready = StationReady("wgsl", Hello({}, {**GPU, "software": True}), RATES)
    drawn = bench_plot.text([ready, replace(software, timings=(*software.timings, other))])
    assert re.findall(r">([0-9.]+)x<", drawn) == ["1.00", "25.0", "1.00"]


def test_a_ratio_across_adapters_of_an_older_report_is_passed_over(tmp_path: Path) -> None:
    document = json.loads(bench_json.text(MIXED))
    document["cases"][0]["rows"][-1]["to_naive"] = 0.04
    (tmp_path / "b.json").write_text(json.dumps(document), encoding="utf-8")
    known = bench_json.baseline(tmp_path / "b.json")
    assert known.rows["bench.yaml::decode", "ort-cpu"].ratios == {}
    assert known.rows["bench.yaml::decode", "slow online"].ratios["naive"].to == "slow naive"


def test_what_the_processor_is_made_for_has_an_absolute_speed() -> None:
    cpu = Hello({}, {"provider": "CPUExecutionProvider"})
    case = replace(PREFILL, timings=(replace(row("ort-cpu", 0.0102), adapter=Adapter("processor", "cpu")),))
    assert "10.2ms" in written(StationReady("ort-cpu", cpu), case)


@pytest.mark.parametrize("why", [
    "not timed: 8.0 GiB of wgsl naive + 4.0 GiB of wgsl online = 12.0 GiB on the device, more than 8.0 GiB",
    "not timed: interrupted",
])  # fmt: skip
def test_what_is_right_and_was_not_timed_says_so_and_why_once(why: str) -> None:
    spared = tuple(lacking(f"wgsl {it}", Verdict.PASS, why) for it in ("naive", "online"))
    case = replace(DECODE, timings=(*spared, lacking("wgsl flash", Verdict.UNSUPPORTED, "flash does not cover it")))
    assert [line.text for line in Table(None).lines(case)][4:] == [
        "  wgsl naive          right, and not timed",
        "  wgsl online         right, and not timed",
        "  wgsl flash          unsupported: flash does not cover it",
        f"    {why}",
    ]
    rows = json.loads(bench_json.text([case]))["cases"][0]["rows"]
    assert [row["message"] for row in rows[:2]] == [why, why]


@pytest.mark.parametrize(("seconds", "written"), [
    (0.0000004, "0.400us"), (0.0000083, "8.30us"), (0.000083, "83.0us"), (0.00152, "1.52ms"), (0.0102, "10.2ms"),
    (0.9994, "999ms"), (0.9996, "1.00s"), (12.34, "12.3s"),
])  # fmt: skip
def test_a_duration_has_three_digits(seconds: float, written: str) -> None:
    assert duration(seconds) == written


@pytest.mark.parametrize(("value", "written"), [(0.0523, "0.052"), (0.9996, "1.00"), (9.996, "10.0"), (152.4, "152")])
def test_a_number_has_three_digits(value: float, written: str) -> None:
    assert digits(value) == written


def test_the_floor_is_that_of_matrix_units_where_a_shader_reaches_them() -> None:
    table = Table(None)
    table.lines(StationReady("wgsl", Hello({}, GPU), RATES))
    assert " 9.5%" in "\n".join(line.text for line in table.lines(PREFILL)), "1.145 ms at 60 TFLOP/s, of 12 ms"
    table.lines(StationReady("wgsl-dawn", Hello({}, GPU), replace(RATES, matrix=6e14)))
    assert " 1.0%" in "\n".join(line.text for line in table.lines(PREFILL)), "0.1145 ms at 600 TFLOP/s"
    assert " 83.9%" in "\n".join(line.text for line in table.lines(DECODE)), "67.1 us at 4 TB/s, of 80 us"


def test_the_document_keeps_to_its_schema_and_holds_the_ratios(tmp_path: Path) -> None:
    text = bench_json.text(events())
    document = json.loads(text)
    schema = json.loads((ROOT / "docs" / "bench.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    assert schema == json.loads(bench_json.schema_text())
    rows = {row["label"]: row for row in document["cases"][0]["rows"]}
    assert rows["wgsl auto"]["to_naive"] == pytest.approx(80 / 12)
    assert rows["wgsl auto"]["to_ort_webgpu"] == pytest.approx(10.2 / 12)
    assert rows["wgsl auto"]["apart"] == 1.3e-5
    assert rows["wgsl flash"]["median"] is None
    assert document["software"] is False
    (tmp_path / "b.json").write_text(text, encoding="utf-8")
    known = bench_json.baseline(tmp_path / "b.json").rows
    assert known["bench.yaml::prefill", "wgsl auto"].ratios["ort-webgpu"].value == pytest.approx(10.2 / 12)
    assert known["bench.yaml::prefill", "wgsl auto"].ratios["ort-webgpu"].to == "ort-webgpu"
    assert known["bench.yaml::prefill", "wgsl flash"].ratios == {}
    assert set(known["bench.yaml::prefill", "wgsl naive"].ratios) == {"ort-webgpu"}, "to itself it is none"


def test_parts_that_were_timed_alone_say_so_and_leave_the_run_its_own_time() -> None:
    split, merge = (Part(name, False, True, (60e-6,) * 4) for name in ("decode", "decode_merge"))
    case = replace(DECODE, timings=(replace(DECODE.timings[1], parts=(split, merge)),))
    (found,) = json.loads(bench_json.text([case]))["cases"][0]["rows"]
    assert found["median"] == 80e-6
    told = [(part["name"], part["alone"], part["median"]) for part in found["parts"]]
    assert told == [("decode", True, pytest.approx(60e-6)), ("decode_merge", True, pytest.approx(60e-6))]


def test_a_report_of_an_earlier_format_is_refused_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text('{"bench": 1, "cases": [{"rows": "of another kind"}]}', encoding="utf-8")
    with pytest.raises(bench_json.Unreadable, match="has format 1; this attncheck reads format 2"):
        bench_json.baseline(tmp_path / "b.json")


def test_a_run_that_has_not_finished_is_a_document_that_says_so() -> None:
    document = json.loads(bench_json.text(events()[:5]))
    assert document["interrupted"]
    assert len(document["cases"]) == 1


@pytest.mark.parametrize(("text", "said"), [
    ("{}", "is no report of attncheck bench at bench: Field required"),
    ("no json", "is no report of attncheck bench: Invalid JSON"),
    (json.dumps({**json.loads(bench_json.text([])), "bench": 99}), "has format 99; this attncheck reads format 2"),
])  # fmt: skip
def test_a_file_that_is_no_document_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(text, encoding="utf-8")
    with pytest.raises(bench_json.Unreadable, match=said):
        bench_json.baseline(tmp_path / "b.json")


NUMBERS = ("median", "to_naive", "to_ort_webgpu")
"""Of a row, each above zero where there is one."""


@pytest.mark.parametrize("field", [*NUMBERS, "p10", "p90", "apart"])
@pytest.mark.parametrize("value", ["0", "-1", "NaN", "Infinity", "-Infinity", "1e400", "true", '"2"'])
def test_a_number_that_no_bench_writes_is_refused_by_its_place(field: str, value: str, tmp_path: Path) -> None:
    document = json.loads(bench_json.text(events()))
    document["cases"][1]["rows"][1][field] = "HERE"
    (tmp_path / "b.json").write_text(json.dumps(document).replace('"HERE"', value), encoding="utf-8")
    if value == "0" and field not in NUMBERS:
        bench_json.baseline(tmp_path / "b.json")
        return
    with pytest.raises(bench_json.Unreadable, match=rf"b\.json is no .* at cases\.1\.rows\.1\.{field}: .* should be"):
        bench_json.baseline(tmp_path / "b.json")


@pytest.mark.parametrize(("place", "value", "said"), [
    (("bench",), "2", "at bench: Input should be a valid integer, not '2'"),
    (("bench",), True, "at bench: Input should be a valid integer, not True"),
    (("interrupted",), 0, "at interrupted: Input should be a valid boolean, not 0"),
    (("cases",), [], "holds no ratio: in none of its cases (0) was a contender timed beside the naive kernel or"),
    (("cases", 0, "flop"), -1, "at cases.0.flop: Input should be greater than or equal to 0, not -1"),
    (("cases", 1, "rows", 1, "label"), "wgsl naive", "at cases.1.rows.1: a second row of wgsl naive on bench.yaml:"),
    (("cases", 1, "rows", 0, "median"), None, "at cases.1.rows.1: a ratio to naive is allowed where both were timed"),
    (("cases", 1, "rows", 1, "to_ort_webgpu"), 2.0, "at cases.1.rows.1: a ratio to ort-webgpu is allowed where both"),
    (("backends", 0, "rates", "copy"), 0, "at backends.0.rates.copy: Input should be greater than 0, not 0"),
])  # fmt: skip
def test_what_no_bench_writes_is_refused_before_anything_is_held_against_it(
    place: tuple[str | int, ...], value: object, said: str, tmp_path: Path
) -> None:
    document = json.loads(bench_json.text(events()))
    at = document
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    (tmp_path / "b.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(bench_json.Unreadable) as refused:
        bench_json.baseline(tmp_path / "b.json")
    assert said in str(refused.value)
    assert str(tmp_path / "b.json") in str(refused.value)


def test_a_baseline_in_which_nothing_was_timed_beside_an_anchor_is_refused(tmp_path: Path) -> None:
    alone = replace(DECODE, timings=DECODE.timings[:1])
    (tmp_path / "b.json").write_text(bench_json.text([alone]), encoding="utf-8")
    with pytest.raises(bench_json.Unreadable, match=r"holds no ratio: in none of its cases \(1\)"):
        bench_json.baseline(tmp_path / "b.json")


def test_the_kept_results_are_baselines() -> None:
    kept = list((ROOT / "benchmarks" / "results").glob("*.json"))
    assert kept
    assert all(bench_json.baseline(path).ratios for path in kept)


def former(tmp_path: Path, *changed: CaseTimed) -> Baseline:
    """What a report of `events()` is as a baseline, with cases of their own in the place of PREFILL and DECODE."""
    told = [it for it in events() if not (changed and isinstance(it, CaseTimed))]
    (tmp_path / "b.json").write_text(bench_json.text([*told[:-1], *changed, told[-1]]), encoding="utf-8")
    return bench_json.baseline(tmp_path / "b.json")


def now(*cases: CaseTimed) -> list[BenchEvent]:
    """A run of `cases` on the same adapters."""
    return [*events()[:3], *cases]


def test_ratios_are_held_against_those_of_a_former_run(tmp_path: Path) -> None:
    known = former(tmp_path)
    slower = replace(DECODE, timings=(DECODE.timings[0], row("wgsl online", 100e-6)))
    changed = replace(PREFILL, digest="other")

    found = compared(now(slower, changed), known)
    assert found.changes == (Change("bench.yaml::decode", "wgsl online", "naive", 25.0, 20.0),)
    assert found.changes[0].ratio == 0.8
    assert found.below(0.9) == found.changes
    assert found.below(0.8) == ()
    labels = [timing.label for timing in PREFILL.timings if timing.timed]
    assert found.missing == tuple(Missing("bench.yaml::prefill", label, "the case has changed") for label in labels)
    assert found.differs == ()
    text = "\n".join(line.text for line in compared_lines(found, 0.9, None))
    assert_golden("bench-compared.txt", text + "\n")


ONLINE = ("bench.yaml::decode", "wgsl online")
NAIVE = DECODE.timings[0]


@pytest.mark.parametrize(("timings", "missing"), [
    ((NAIVE, lacking("wgsl online", Verdict.CRASH, "it died")), Missing(*ONLINE, "it was not timed now")),
    ((NAIVE,), Missing(*ONLINE, "it was not among the contenders")),
    (DECODE.timings[1:], Missing(*ONLINE, "it was held against wgsl naive, which was not among the contenders")),
    ((lacking("wgsl naive", Verdict.CRASH, "it died"), DECODE.timings[1]),
     Missing(*ONLINE, "it was held against wgsl naive, which was not timed now")),
    ((row("wgsl-dawn naive", 1e-3), DECODE.timings[1]),
     Missing(*ONLINE, "it was held against wgsl naive, which was not among the contenders")),
    (None, Missing("bench.yaml::decode", "", "it is not among the cases of this run")),
])  # fmt: skip
def test_what_the_baseline_holds_and_the_run_has_nothing_to_set_against_is_listed(
    timings: tuple[Timing, ...] | None, missing: Missing, tmp_path: Path
) -> None:
    found = compared(now() if timings is None else now(replace(DECODE, timings=timings)), former(tmp_path, DECODE))
    assert found.changes == ()
    assert found.missing == (missing,)
    told = "\n".join(line.text for line in compared_lines(found, None, None))
    assert ", ".join(filter(None, (missing.case, missing.label))) + f": {missing.why}" in told


def test_a_case_that_is_refused_now_is_listed_once_for_all_of_its_rows(tmp_path: Path) -> None:
    found = compared([*now(DECODE), CaseRefused(PREFILL.case, "it would take 43.0 GiB")], former(tmp_path))
    assert found.missing == (Missing(PREFILL.case, "", "it was refused"),)
    assert [change.label for change in found.changes] == ["wgsl online"]


def test_a_ratio_to_another_release_of_the_anchor_is_not_compared(tmp_path: Path) -> None:
    old, new = (replace(row(f"ort-webgpu@{it}", 0.01), use="ort-webgpu") for it in ("1.26.0", "1.27.0"))
    own = row("wgsl online", 0.005)
    known = former(tmp_path, replace(PREFILL, timings=(old, new, own)))
    assert len(compared(now(replace(PREFILL, timings=(old, new, own))), known).changes) == 2
    found = compared(now(replace(PREFILL, timings=(new, old, own))), known)
    why = "it was held against ort-webgpu@1.26.0, and the first contender of its kind is another now"
    assert found.changes == ()
    assert {(it.label, it.why) for it in found.missing} == {("ort-webgpu@1.27.0", why), ("wgsl online", why)}


def test_a_baseline_of_another_adapter_or_one_that_was_interrupted_is_told_as_such(tmp_path: Path) -> None:
    known = replace(former(tmp_path), interrupted=True)
    other = StationReady("wgsl", Hello({"wgpu": "0.33.0"}, {**GPU, "adapter": "llvmpipe", "software": True}))
    found = compared([other, DECODE], known)
    assert found.differs == (
        "the baseline was interrupted: it holds what was timed until then",
        "the baseline is of hardware, and this run is not",
        "wgsl: wgpu was 0.32.0, is 0.33.0",
        "wgsl: adapter was Some GPU, is llvmpipe",
        "ort-webgpu is in the baseline and did not run here",
    )
    told = [line.text.strip() for line in compared_lines(found, None, None)]
    assert told[-5:] == list(found.differs)


@pytest.mark.parametrize(("cases", "labels", "why"), [
    ({"bench.yaml::decode"}, ["wgsl naive", "wgsl online"], ""),
    ({"other.yaml::decode"}, ["wgsl naive", "wgsl online"], "it has none of these cases"),
    ({"bench.yaml::decode"}, ["wgsl naive", "wgsl flash"], "it has no ratio of wgsl naive, wgsl flash on these cases"),
    ({"bench.yaml::decode"}, ["wgsl online"],
     "there they are held against wgsl naive, which is not among the contenders"),
])  # fmt: skip
def test_that_nothing_can_be_compared_is_known_before_anything_runs(
    cases: set[str], labels: list[str], why: str, tmp_path: Path
) -> None:
    assert incomparable(former(tmp_path), cases, labels) == why


@pytest.mark.parametrize("software", [False, True])
def test_the_picture_is_an_svg_with_a_bar_for_whoever_was_timed(software: bool) -> None:
    root = ET.fromstring(bench_plot.text(events(software)))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    bars = [it for it in root.iter("{http://www.w3.org/2000/svg}rect") if it.get("fill", "").startswith("#")]
    timed = [timing for case in (PREFILL, DECODE) for timing in case.timings if timing.timed]
    assert len(bars) == len(timed)
    words = " ".join(text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text"))
    assert ("TFLOP/s" in words) is not software
    lengths = {timing.label: float(bar.get("width", "0")) for timing, bar in zip(timed[:4], bars[:4], strict=True)}
    assert lengths["wgsl naive"] < lengths["wgsl auto"] < lengths["ort-webgpu"] < lengths["torch efficient"]
