"""The table of targets: every row can be worked out of a report of the shipped cases, and says what it is."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from pydantic import TypeAdapter

from attncheck.backends.registry import Settings
from attncheck.backends.tables import read
from attncheck.bench.contenders import contenders
from attncheck.reports.bench_json import FORMAT, Bench, CaseEntry, RatesEntry, RowEntry, StationEntry
from attncheck.scenario import load
from attncheck.scenario.model import Kernel
from attncheck.shipped import scenarios_dir
from benchmarks.targets import Report, Target, table, targets

NAMES = {case.id.partition("::")[2] for case in load([scenarios_dir() / "bench.yaml"])}
PREFILL, DECODE = "prefill:q_len=4096,dtype=float16", "decode:past_len=8192,batch=8"


def row(label: str, median: float | None) -> RowEntry:
    backend, _, kernel = label.partition(" ")
    use = backend.partition("@")[0]
    return RowEntry(
        backend, use, label, kernel, "pass", "", "wall", median, median, median, None, None, None, (), ()
    )


def report(medians: Mapping[str, Mapping[str, float | None]], more: tuple[RowEntry, ...] = ()) -> Report:
    """Of these medians by case and label, and of `more` rows in every case."""
    cases = tuple(
        CaseEntry(
            name, "", "", "", "all rows", "float16", flop, 0, 1000, (*(row(*it) for it in rows.items()), *more)
        )
        for name, rows in medians.items()
        for flop in (100 if name == PREFILL else 200,)
    )
    named = tuple(CaseEntry("bench.yaml::" + it.id, *list(vars(it).values())[1:]) for it in cases)
    gpu = StationEntry("wgsl", started=True, rates=RatesEntry(fma=1.0, copy=500.0, matrix=None))
    return Report(Bench(FORMAT, "1", False, 1.0, False, {}, (gpu,), named))


SEEN: Mapping[str, Mapping[str, float | None]] = {
    PREFILL: {
        "wgsl naive": 90.0, "wgsl online": 8.0, "wgsl-dawn flash": 2.0, "wgsl-dawn matrix": 1.0,
        "ort-webgpu@1.27.0": 10.0, "torch flash": 0.4, "torch": 0.3,
    },
    "prefill:q_len=4096,dtype=float32": {"wgsl flash": 3.0, "torch efficient": 2.4, "torch flash": None},
    "prefill-not-causal:dtype=float16": {"wgsl-dawn matrix": 1.6, "wgsl naive": 0.1},
    "prefill-window": {"wgsl flash": 3.0, "wgsl naive": 9.0},
    "prefill:q_len=16384,dtype=float16": {"wgsl flash": 30.0, "wgsl-dawn matrix": 7.0, "wgsl online": 50.0},
    DECODE: {"wgsl decode": 2.5, "ort-webgpu@1.27.0": 40.0},
    "decode-group:heads=64,batch=8": {"wgsl decode": 2.2},
    "decode-group:heads=8,batch=8": {"wgsl decode": 2.0, "wgsl naive": 1.0},
}  # fmt: skip


@pytest.mark.parametrize(("name", "value", "reached"), [
    ("P1", 10 / 1.0, "reach"),
    ("P2", 0.4 / 1.0, "no"),
    ("P3", 2.4 / 3.0, "reach"),
    ("P4", 10 / 2.0, "then"),
    ("P5", (100 / 1.0) / (200 / 1.6), "no"),
    ("P6", 3.0 / 30.0, "then"),
    ("D1", 1000 / 2.5 / 500, "reach"),
    ("D2", 40 / 2.5, "reach"),
    ("D3", 2.2 / 2.0, "reach"),
])  # fmt: skip
def test_a_target_is_the_ratio_that_it_says(name: str, value: float, reached: str) -> None:
    found: Target = next(it for it in targets(report(SEEN)) if it.name == name)
    assert found.seen is not None
    assert found.seen.value == pytest.approx(value)
    assert found.reached == reached


def test_naive_and_online_are_compared_at_three_lengths() -> None:
    found = [it for it in targets(report(SEEN)) if it.name == "N1"]
    assert [it.seen.value if it.seen else None for it in found] == [None, 90 / 8.0, None]
    assert [it.reached for it in found] == ["-", "then", "-"]


def test_what_was_timed_on_another_adapter_is_in_no_target() -> None:
    def station(name: str, adapter: str, copy: float) -> StationEntry:
        device = {"adapter": adapter, "software": False}
        return StationEntry(name, started=True, device=device, rates=RatesEntry(fma=1.0, copy=copy, matrix=None))

    stations = (station("wgsl", "NVIDIA H200", 500.0), station("wgsl-other", "NVIDIA L4", 900.0))
    rows = {"wgsl decode": 2.5, "wgsl-other decode": 1.0}
    case = CaseEntry(f"b.yaml::{DECODE}", "", "", "", "", "float16", 1, 0, 1000, tuple(row(*it) for it in rows.items()))
    found = targets(Report(Bench(FORMAT, "1", False, 1.0, False, {}, stations, (case,))))
    seen = next(it.seen for it in found if it.name == "D1")
    assert seen is not None
    assert seen.value == pytest.approx(1000 / 2.5 / 500)


def test_every_case_that_a_target_asks_for_is_shipped() -> None:
    every = {name: {"wgsl online": 1.0, "wgsl naive": 1.0, "ort-webgpu": 1.0, "torch flash": 1.0} for name in NAMES}
    for rows in every.values():
        rows["torch efficient"] = 1.0
    assert all(it.seen is not None for it in targets(report(every)))
    assert set(SEEN) <= NAMES


ROOT = Path(__file__).resolve().parents[2]


def test_the_call_that_the_page_gives_times_all_that_the_targets_ask_for_without_robustness_too() -> None:
    page = (ROOT / "docs" / "bench.md").read_text(encoding="utf-8")
    given = page.partition("all that the targets ask for in one call")[2].partition("python -m benchmarks.targets")[0]
    written = [line[4:] for line in given.splitlines() if line.startswith("    ")]
    tables = tomllib.loads("\n".join(written[: written.index("pip install 'attncheck[dawn,torch]'")]))["backends"]
    settings = Settings(tables={name: read(name, table, ROOT) for name, table in tables.items()})
    words = shlex.split(given.partition("python -m attncheck bench")[2].replace("\\\n", " "))
    assert words[0] == "scenarios/bench.yaml"
    names = [words[at + 1] for at, word in enumerate(words) if word == "--backend"]
    timed = contenders(names, [it for it in get_args(Kernel) if it != "auto"], settings)
    rows = tuple(replace(row(it.label, 1.0), backend=it.of, use=it.use, kernel=it.kernel) for it in timed)
    every = report({name: {} for name in NAMES}, rows)
    assert all(it.seen is not None for it in targets(every))
    assert any(it.of == "wgsl-dawn-unbounded" and settings.tables[it.of].robustness is False for it in timed)


def test_the_page_shows_what_the_kept_run_says() -> None:
    kept = ROOT / "benchmarks" / "results" / "h200-2026-12-01.json"
    said = table(Report(TypeAdapter(Bench).validate_json(kept.read_bytes())))
    assert "\n".join(said) in (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
