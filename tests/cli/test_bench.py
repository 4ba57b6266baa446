"""`attncheck bench` as a user calls it: a table of ratios on software, a report by its schema, mistakes said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from attncheck.vocabulary import ExitCode
from tests import swiftshader

from .frozen import ROOT, attncheck

FILE = """\
defaults: {op: gqa, heads: 4, kv_heads: 2, head_dim: 16}
scenarios:
  - {name: prefill, q_len: 24}
  - {name: decode, q_len: 1, past_len: 40}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(FILE, encoding="utf-8")
    return tmp_path


def report(folder: Path) -> Any:
    document = json.loads((folder / "bench.json").read_text(encoding="utf-8"))
    schema = json.loads((ROOT / "docs" / "bench.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    return document


def test_cases_are_timed_on_every_kernel_and_software_is_spoken_of_in_ratios(folder: Path) -> None:
    words = ("--kernel", "naive", "--kernel", "online", "--runs", "3", "--batch", "2", "--report", "json=bench.json")
    ran = attncheck("bench", "mine.yaml", "--backend", "wgsl", "--backend", "ort-cpu", *words, folder=folder)
    assert ran.code == ExitCode.OK, ran.stderr
    document = report(folder)
    assert [case["id"] for case in document["cases"]] == ["mine.yaml::prefill", "mine.yaml::decode"]
    for case in document["cases"]:
        naive, online, runtime = case["rows"]
        assert [row["label"] for row in case["rows"]] == ["wgsl naive", "wgsl online", "ort-cpu"]
        assert naive["to_naive"] == 1.0
        assert runtime["to_naive"] is None, "it computes on the processor"
        assert online["to_naive"] == pytest.approx(naive["median"] / online["median"])
        for row in case["rows"]:
            assert row["verdict"] == "pass"
            assert len(row["seconds"]) == 3
            assert all(second > 0 for second in row["seconds"])
            assert row["p10"] <= row["median"] <= row["p90"]
        assert naive["apart"] > 0
        assert online["apart"] > 0
        assert runtime["clock"] == "profiler"
        assert [(part["name"], part["apart"]) for part in runtime["parts"]] == [("GroupQueryAttention", False)]
        kernels = [part for part in naive["parts"] if not part["apart"]]
        assert [part["name"] for part in kernels] == ["naive_scores", "naive_softmax", "naive_output"]
        assert all(part["alone"] for part in naive["parts"])
        assert not any(part["alone"] for part in runtime["parts"])
    backend, other = document["backends"]
    assert other["rates"] is None
    assert backend["rates"]["fma"] > 0
    assert backend["rates"]["copy"] > 0
    if document["software"]:
        assert "only ratios are shown" in " ".join(ran.stdout.split())
        assert "TFLOP/s" not in ran.stdout
        assert "median" not in ran.stdout


def test_without_an_adapter_of_hardware_the_small_cases_are_taken(folder: Path) -> None:
    ran = attncheck("bench", "--backend", "ort-cpu", "--list", folder=folder)
    assert ran.code == ExitCode.OK, ran.stderr
    assert ran.stdout
    assert all(case.startswith("shipped/bench-small.yaml::") for case in ran.stdout.split())


@pytest.mark.slow
def test_onnx_runtime_alone_on_software_is_spoken_of_in_ratios(folder: Path) -> None:
    environment = ", ".join(f'{name} = "{value}"' for name, value in swiftshader.environment().items())
    table = "[backends.built-in]\nuse = 'ort-webgpu'\nrequirements = ['onnxruntime-webgpu==1.27.0']\n"
    (folder / "attncheck.toml").write_text(f"{table}environment = {{ {environment} }}\n", encoding="utf-8")
    words = ("--backend", "built-in", "--runs", "2", "--report", "json=bench.json")
    ran = attncheck("bench", "mine.yaml::decode", *words, folder=folder, timeout=600.0)
    assert ran.code == ExitCode.OK, ran.stderr
    assert "built-in: SwiftShader Device" in ran.stdout
    assert "only ratios are shown" in " ".join(ran.stdout.split())
    assert "GB/s" not in ran.stdout
    assert "median" not in ran.stdout
    assert report(folder)["software"] is True


BUSY = """\
import pathlib, time
import attncheck.callable

@attncheck.callable.takes_problem
def attention(problem, tensors):
    pathlib.Path(__file__).with_suffix(".began").touch()
    time.sleep(3600)
"""


def test_after_one_interrupt_no_further_contender_begins_and_the_report_is_written(folder: Path) -> None:
    for name in ("first", "second"):
        (folder / f"{name}.py").write_text(BUSY, encoding="utf-8")
    words = ("--backend", "first.py:attention", "--backend", "second.py:attention", "--report", "json=bench.json")
    process = subprocess.Popen(
        [sys.executable, "-m", "attncheck", "bench", "mine.yaml", *words],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (folder / "first.began").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=250.0)  # below the time limit of an answer
    assert process.returncode == ExitCode.INTERRUPTED, said
    assert not (folder / "second.began").exists()
    assert report(folder)["interrupted"] is True
    assert report(folder)["cases"] == []


def test_only_cases_tagged_bench_of_a_file_that_has_some_are_timed(folder: Path) -> None:
    (folder / "mine.yaml").write_text(FILE + "  - {name: meant, q_len: 2, tags: [bench]}\n", encoding="utf-8")
    assert attncheck("bench", "mine.yaml", "--list", folder=folder).stdout.split() == ["mine.yaml::meant"]


@pytest.mark.slow
def test_onnx_runtime_tells_of_its_kernels_where_its_provider_is_built_in_and_of_none_as_a_plugin(folder: Path) -> None:
    variables = {**swiftshader.environment(), "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1"}
    environment = ", ".join(f'{name} = "{value}"' for name, value in variables.items())
    packages = {
        "built-in": ["onnxruntime-webgpu==1.27.0"],
        "plugin": ["onnxruntime==1.32.0", "onnxruntime-ep-webgpu==0.4.0"],
    }
    tables = "".join(
        f"[backends.{name}]\nuse = 'ort-webgpu'\nrequirements = {json.dumps(them)}\nenvironment = {{ {environment} }}\n"
        for name, them in packages.items()
    )
    tables += f"[backends.own]\nuse = 'wgsl'\nenvironment = {{ {environment} }}\n"
    (folder / "attncheck.toml").write_text(tables, encoding="utf-8")
    words = ("--backend", "built-in", "--backend", "plugin", "--backend", "own", "--kernel", "online", "--runs", "3")
    ran = attncheck("bench", "mine.yaml::decode", *words, "--report", "json=bench.json", folder=folder, timeout=600.0)
    assert ran.code == ExitCode.OK, ran.stderr
    (case,) = report(folder)["cases"]
    built_in, plugin, own = case["rows"]
    assert (built_in["clock"], built_in["to_ort_webgpu"]) == ("profiler", 1.0)
    parts = {part["name"]: part["apart"] for part in built_in["parts"]}
    assert parts.pop("CopyKVCache") is True
    assert parts
    assert not any(parts.values())
    assert built_in["apart"] > 0
    assert own["to_ort_webgpu"] == pytest.approx(built_in["median"] / own["median"])
    assert plugin["clock"] == "wall"
    assert "its profiler tells of no kernels" in plugin["message"]


@pytest.mark.slow
def test_a_case_that_does_not_fit_is_refused_and_nothing_timed_is_exit_code_5(folder: Path) -> None:
    ran = attncheck("bench", "mine.yaml::decode", "--memory-limit", "1K", "--kernel", "online", folder=folder)
    assert ran.code == ExitCode.NOTHING
    assert "not timed: it would take" in ran.stdout
    ran = attncheck("bench", "mine.yaml::decode", "--device-memory", "1K", "--kernel", "online", folder=folder)
    assert ran.code == ExitCode.NOTHING
    assert "on the device, more than the limit of 1.0 KiB" in " ".join(ran.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--backend", "wgls"), ExitCode.USAGE, "there is no backend 'wgls', did you mean 'wgsl'?"),
        (("--backend", "wgsl", "--backend", "wgsl"), ExitCode.USAGE, "a backend is named twice"),
        (("--report", "json=nowhere/b.json"), ExitCode.USAGE, "there is no folder nowhere"),
        (("--report", "html=b"), ExitCode.USAGE, "names no format"),
        (("--report", "json", "--report", "json"), ExitCode.USAGE, "two reports cannot share stdout"),
        (("--adapter", "no-such"), ExitCode.BACKEND, "no adapter matches 'no-such'"),
        (("-k", "nothing"), ExitCode.NOTHING, "leaves none of 2 cases"),
    ],
)
def test_mistakes_are_said(folder: Path, words: tuple[str, ...], code: int, said: str) -> None:
    ran = attncheck("bench", "mine.yaml", *words, folder=folder)
    assert ran.code == code, ran.stderr
    assert said in ran.stderr


@pytest.mark.slow
def test_a_run_is_held_against_a_former_one_and_drawn(folder: Path) -> None:
    words = ("bench", "mine.yaml::decode", "--runs", "2", "--kernel", "naive", "--kernel", "online")
    assert attncheck(*words, "--report", "json=bench.json", "--plot", "b.svg", folder=folder).code == ExitCode.OK
    assert (folder / "b.svg").read_text(encoding="utf-8").startswith("<svg ")

    again = attncheck(*words, "--baseline", "bench.json", "--fail-below", "0.0001", folder=folder)
    assert again.code == ExitCode.OK, again.stderr
    assert "wgsl online / naive" in again.stdout
    fell = attncheck(*words, "--baseline", "bench.json", "--fail-below", "10000", folder=folder)
    assert fell.code == ExitCode.FAILED
    assert "--fail-below 10000: 1 ratio fell below that share of the baseline's" in fell.stderr
    (folder / "attncheck.toml").write_text('[backends.gone]\nuse = "ort-cpu"\npython = "/nowhere"\n', encoding="utf-8")
    beside = attncheck(*words, "--backend", "wgsl", "--backend", "gone", "--baseline", "bench.json", folder=folder)
    assert beside.code == ExitCode.BACKEND, "of what was timed all the same the ratios are told"
    assert "wgsl online / naive" in beside.stdout
    other = attncheck("bench", "mine.yaml::prefill", *words[2:], "--baseline", "bench.json", folder=folder)
    assert other.code == ExitCode.NOTHING
    assert "it has none of these cases\nnothing was run" in other.stderr
    alone = attncheck(*words[:4], "--kernel", "online", "--baseline", "bench.json", folder=folder)
    assert alone.code == ExitCode.NOTHING
    assert "they are held against wgsl naive, which is not among the contenders\nnothing was run" in alone.stderr


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"to_naive": 0}, ExitCode.USAGE, "at cases.0.rows.1.to_naive: Input should be greater than 0, not 0"),
        ({"to_naive": None}, ExitCode.USAGE, "b.json holds no ratio"),
        ({}, ExitCode.NOTHING, "nothing of this call could be compared with b.json: it has no ratio of ort-cpu on"),
    ],
)
def test_a_baseline_that_nothing_can_be_held_against_is_refused_before_anything_runs(
    folder: Path, changed: dict[str, Any], code: ExitCode, said: str
) -> None:
    seconds = {"median": 1e-3, "p10": 1e-3, "p90": 1e-3, "apart": None, "seconds": [1e-3], "parts": []}
    words = {"verdict": "pass", "message": "", "clock": "wall", "to_ort_webgpu": None}
    rows = [
        {"backend": "wgsl", "use": "wgsl", "label": f"wgsl {it}", "kernel": it, "to_naive": 1.0, **words, **seconds}
        for it in ("naive", "online")
    ]
    rows[1].update(changed)
    case = {"axes": "", "digest": "", "message": "", "judged": "", "dtype": "", "flop": 1, "bytes": 1, "kv_bytes": 1}
    head = {"bench": 2, "attncheck": "1", "interrupted": False, "seconds": 1, "software": False, "settings": {}}
    document = {**head, "backends": [], "cases": [{"id": "mine.yaml::decode", **case, "rows": rows}]}
    (folder / "b.json").write_text(json.dumps(document), encoding="utf-8")
    ran = attncheck("bench", "mine.yaml", "--backend", "ort-cpu", "--baseline", "b.json", folder=folder)
    assert ran.code == code
    assert said in ran.stderr
    assert ran.stderr.endswith("nothing was run\n")
    assert ran.stdout == ""


@pytest.mark.slow
def test_mistakes_about_a_baseline_are_said_before_anything_is_run(folder: Path) -> None:
    (folder / "other.json").write_text("[]", encoding="utf-8")
    ran = attncheck("bench", "mine.yaml", "--baseline", "other.json", folder=folder)
    assert ran.code == ExitCode.USAGE
    assert "other.json is no report of attncheck bench" in ran.stderr
    ran = attncheck("bench", "mine.yaml", "--fail-below", "0.9", folder=folder)
    assert ran.code == ExitCode.USAGE
    assert "--fail-below compares with a --baseline: give one" in ran.stderr
    ran = attncheck("bench", "mine.yaml", "--plot", "nowhere/b.svg", folder=folder)
    assert ran.code == ExitCode.USAGE
    assert "there is no folder nowhere" in ran.stderr


@pytest.mark.slow
def test_a_contender_that_takes_too_long_gets_no_further_turn_and_the_row_says_so(folder: Path) -> None:
    words = ("--kernel", "online", "--runs", "6", "--batch", "2", "--seconds", "0.000001")
    ran = attncheck("bench", "mine.yaml::decode", *words, folder=folder)
    assert ran.code == ExitCode.OK
    assert "2 of 6 runs, in 0 s" in ran.stdout
