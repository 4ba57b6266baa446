"""What a bench is made of, beside the clock: work, quantiles, turns, samples, what is apart, what is right."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncheck.backends.base import Evidence, Outcome
from attncheck.backends.registry import Settings
from attncheck.backends.tables import Table
from attncheck.backends.wgsl import Wgsl
from attncheck.bench import comparison, floor, memory, rates, sampling
from attncheck.bench.adapter import Adapter
from attncheck.bench.contenders import contenders
from attncheck.bench.events import Part, Rates, Timing
from attncheck.bench.interleave import turns
from attncheck.bench.judging import expected, judged
from attncheck.bench.loader import loader, waiter
from attncheck.bench.parts import apart
from attncheck.bench.station import Station
from attncheck.bench.statistics import summary
from attncheck.bench.work import Work, work
from attncheck.graph import read, write
from attncheck.graph.case import Case
from attncheck.oracle.ask import answer
from attncheck.problem import Problem
from attncheck.scenario import Scenario, from_command_line
from attncheck.vocabulary import Verdict
from tests.device import plan, runtime, worker_module
from tests.device import work as given_work

D, HEADS = 16, 4
SIZES = f"op=gqa heads={HEADS} kv_heads=2 head_dim={D}"


def posed(axes: str) -> tuple[Case, Problem]:
    """A case of SIZES, of which `axes` may say some anew."""
    said = dict(word.split("=", 1) for word in f"{SIZES} {axes}".split())
    case = write.build(from_command_line(" ".join(f"{axis}={value}" for axis, value in said.items())))
    problem = read.any_problem(case.model, case.inputs)
    assert isinstance(problem, Problem)
    return case, problem


def least(axes: str) -> Work:
    return work(posed(axes)[1])


@pytest.mark.parametrize(("axes", "pairs", "slots"), [
    ("q_len=10", 10 * 11 // 2, 10),
    ("q_len=10 causal=false", 10 * 10, 10),
    ("q_len=10 window=3", 1 + 2 + 8 * 3, 10),
    ("q_len=1 past_len=99", 100, 100),
    ("q_len=1 past_len=99 window=7", 7, 7),
    ("q_len=2 past_len=5 window=1", 2, 2),
    ("q_len=1 past_len=9+4 batch=2", 10 + 5, 10 + 5),
])  # fmt: skip
@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float16", 2)])
def test_work_is_4_operations_a_dim_for_each_visible_pair_and_every_byte_once(
    axes: str, pairs: int, slots: int, dtype: str, size: int
) -> None:
    found = least(f"{axes} dtype={dtype}")
    rows = sum(posed(axes)[1].q_len)
    assert found.flop == 4 * pairs * HEADS * D
    assert found.kv_bytes == 2 * slots * 2 * D * size
    assert found.bytes == found.kv_bytes + 2 * rows * HEADS * D * size


def test_a_floor_is_the_longer_of_arithmetic_and_memory() -> None:
    needs = Work(flop=600, kv_bytes=10, bytes=20)
    assert needs.floor(flop_rate=100.0, byte_rate=10.0) == 6.0
    assert needs.bound_by(100.0, 10.0) == "arithmetic"
    assert needs.floor(flop_rate=1000.0, byte_rate=10.0) == 2.0
    assert needs.bound_by(1000.0, 10.0) == "memory"


def test_a_summary_is_the_median_and_the_tenths_interpolated() -> None:
    found = summary([float(it) for it in range(10, -1, -1)])
    assert (found.runs, found.p10, found.median, found.p90) == (11, 1.0, 5.0, 9.0)
    assert summary([1.0, 2.0]).median == 1.5
    assert summary([3.0]).p90 == 3.0
    with pytest.raises(ValueError, match="no run"):
        summary([])


@given(st.lists(st.sampled_from("abcd"), unique=True, min_size=1), st.integers(1, 50), st.integers(1, 60))
def test_turns_give_everyone_all_runs_and_nobody_two_batches_more_than_another(
    timed: list[str], runs: int, batch: int
) -> None:
    had: Counter[str] = Counter()
    for one, count in turns(timed, runs, batch):
        assert 1 <= count <= batch
        had[one] += count
        assert max(had.values()) - min(had[it] for it in timed) <= batch
    assert dict(had) == dict.fromkeys(timed, runs)


def test_every_other_round_goes_backwards() -> None:
    assert [one for one, _ in turns("abc", 3, 1)] == list("abccbaabc")


@given(st.integers(1, 20_000))
def test_chosen_rows_are_64_and_hold_both_ends_and_the_sides_of_powers_of_two(count: int) -> None:
    rows = sampling.chosen_rows(count)
    assert len(rows) == len(set(rows)) == min(count, 64)
    assert list(rows) == sorted(rows)
    assert {0, count - 1} <= set(rows)
    if count > 4096:
        assert {63, 64, 1023, 1024, count - 64} <= set(rows)
        assert np.diff(rows).max() < count // 4


@pytest.mark.parametrize("axes", [
    "q_len=40 past_len=9",
    "q_len=40 window=7 softcap=3 dtype=float16",
    "q_len=40 batch=3 past_len=5+0+9 sink=true",
    "op=mha q_len=40 past_len=9 kv_heads=4",
])  # fmt: skip
def test_the_answer_to_sampled_rows_is_theirs_in_the_answer_to_all(axes: str) -> None:
    case, problem = posed(axes)
    sampled = sampling.Sample((0, problem.batch - 1)[: problem.batch], (0, 3, 38, 39), problem.batch, 40)
    smaller, inputs = sampling.cut(problem, case.inputs, sampled)
    (own,) = answer(smaller, inputs)
    whole = answer(problem, case.inputs)[0]
    for array in ("values", "compute", "storage"):
        of_all = {problem.output.name: getattr(whole, array)}
        expected_rows: Any = sampling.of_output(problem, of_all, sampled)[problem.output.name]
        np.testing.assert_allclose(getattr(own, array), expected_rows, rtol=1e-12, atol=1e-14)


def test_a_small_case_and_one_that_cannot_be_cut_are_judged_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sampling.sample(posed("q_len=99")[1]).words == "all rows"
    monkeypatch.setattr(sampling, "SCORES", 0)
    assert sampling.sample(posed("q_len=99")[1]).words == "64 of 99 rows a head"
    for axes in ("rotary=half", "mask=1x1xSxT op=attention", "past_len=1+2 q_len=99+3 batch=2 query_seqlens=true"):
        problem = posed(f"q_len=99 {axes}")[1]
        assert sampling.sample(problem).whole, axes
    monkeypatch.setattr(sampling, "CACHE", 0)
    assert sampling.sample(posed("q_len=99 batch=5")[1]).words == "64 of 99 rows a head of 2 of 5 batch entries"


def outcome(case: Case, problem: Problem) -> Outcome:
    """What a backend without any fault gives."""
    dtypes = {output.name: output.dtype for output in case.outputs}
    outputs: dict[str, Any] = {it.output: it.values.astype(dtypes[it.output]) for it in answer(problem, case.inputs)}
    return Outcome("online", outputs, Evidence("here", ("online",)))


@pytest.mark.parametrize("few", [False, True])
def test_what_is_timed_is_what_the_oracle_lets_pass(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if few:
        monkeypatch.setattr(sampling, "SCORES", 0)
    case, problem = posed("q_len=99 past_len=7 batch=2")
    known = expected(case, problem)
    assert known.sample.whole is not few
    right = outcome(case, problem)
    assert judged(known, Wgsl(), right) == (Verdict.PASS, "")

    def with_change(name: str, place: tuple[int, ...]) -> tuple[Verdict, str]:
        changed = right.outputs[name].copy()
        changed[place] += 1
        return judged(known, Wgsl(), replace(right, outputs={**right.outputs, name: changed}))

    verdict, message = with_change("output", (1, 98, 5))
    assert verdict is Verdict.MISMATCH
    assert message.startswith("output differs by 1 where ")
    assert with_change("present_key", (0, 1, 3, 2))[0] is Verdict.MISMATCH
    assert with_change("present_value", (1, 1, 105, 2))[0] is Verdict.MISMATCH
    failed = judged(known, Wgsl(), Outcome("online", failure=Verdict.CRASH, message="it died"))
    assert failed == (Verdict.CRASH, "it died")
    assert judged(known, Wgsl(), replace(right, outputs={}))[0] is Verdict.MALFORMED


def sides(axes: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Shaders and what they write into: those apart, and the others."""
    words = f"heads={HEADS} kv_heads=2 head_dim={D} {axes}"
    given = given_work(from_command_line(words))
    made = asdict(plan(given, "online"))
    written = {"online": [-3], "append": [-3, -1]}
    told = [
        (it["shader"], " and ".join(it["bindings"][place] for place in written.get(it["shader"], [-1])))
        for it in made["dispatches"]
    ]
    moves = apart(made, given.problem.output.name)
    return (
        [it for it, moving in zip(told, moves, strict=True) if moving],
        [it for it, moving in zip(told, moves, strict=True) if not moving],
    )


def test_only_what_moves_rows_of_the_cache_is_apart() -> None:
    moved, kept = sides("op=gqa q_len=2 past_len=3 dtype=float16")
    assert moved == [("append", "present_key and present_value")] * 2
    assert kept == [("append", "[query in f32] and [no slots]"), ("online", "output")]
    moved, kept = sides("op=gqa q_len=2 past_len=3 present=absent rotary=half")
    assert moved == [("append", "[present key] and [present value]")] * 2
    assert kept == [("append", "[query in f32] and [no slots]"), ("online", "output")]
    moved, kept = sides("op=paged q_len=2+1 past_len=3+2 batch=2")
    gathered = [target for shader, target in moved if shader == "gather"]
    assert gathered == ["[gathered past key]", "[gathered past value]"]
    assert ("scatter", "output") in kept


def test_dispatches_are_parts_of_their_own_unless_they_are_too_many_for_the_clock() -> None:
    timing = worker_module("timing")
    few = [{"shader": name} for name in ("append", "a", "b")]
    assert [tuple(it) for it in timing.parts_of(few, [True, False, False])] == [
        ("append", True, [0]),
        ("a", False, [1]),
        ("b", False, [2]),
    ]
    many = few + [{"shader": name} for _ in range(50) for name in ("a", "b")]
    found = timing.parts_of(many, [True, *[False] * 102])
    assert [(it.name, it.apart, len(it.dispatches)) for it in found] == [("append", True, 1), ("a + b", False, 102)]


@pytest.mark.parametrize(("one", "beyond", "most", "sets"), [
    (100, 1000, 10_000, 10),
    (100, 1001, 10_000, 11),
    (100, 1000, 550, 5),
    (100, 0, 550, 1),
    (1000, 2500, 900, 1),
])  # fmt: skip
def test_sets_of_buffers_exceed_the_cache_as_far_as_memory_goes(one: int, beyond: int, most: int, sets: int) -> None:
    assert memory.sets(one, beyond, most) == sets


def test_a_case_beyond_the_memory_is_refused_with_its_arithmetic() -> None:
    large: Scenario = from_command_line(f"{SIZES} q_len=1 past_len=9999 batch=8 dtype=float16")
    assert memory.refusal(large, 1 << 40) is None
    # past and present of keys and values: 4 x 8 x 2 x 10,000 x 16 elements of 2 bytes, and 8 in the oracle
    assert memory.refusal(large, 1 << 20) == (
        "it would take 97.7 MiB, more than the limit of 1.0 MiB: past and present, "
        "4 x batch 8 x kv_heads 2 x keys 10000 x head_dim 16 x 10 bytes = 97.7 MiB"
    )


def timing(label: str, *seconds: float, verdict: Verdict = Verdict.PASS) -> Timing:
    backend, _, kernel = label.partition(" ")
    parts = (Part("append", True, True, tuple(9.0 for _ in seconds)),) if seconds else ()
    use = backend.partition("@")[0]
    return Timing(backend, kernel, label, verdict, seconds=seconds, parts=parts, use=use)


def test_ratios_are_how_many_times_as_fast_and_leave_out_what_is_apart() -> None:
    every = [timing("wgsl naive", 8.0, 6.0, 100.0), timing("wgsl online", 2.0), timing("wgsl-dawn online", 4.0)]
    every += [timing("ort-webgpu@1.27.0", 16.0), timing("wgsl flash", verdict=Verdict.MISMATCH)]
    naive = [comparison.naive_of(it, every) for it in every]
    assert [it is every[0] for it in naive] == [True] * 5, "where a backend has none, another's"
    assert [comparison.against(it, naive[0]) for it in every] == [1.0, 4.0, 2.0, 0.5, None]
    webgpu = comparison.webgpu_of(every[0], every)
    assert [comparison.against(it, webgpu) for it in every] == [2.0, 8.0, 4.0, 1.0, None]
    named = [every[0], replace(every[3], backend="built-in", label="built-in"), replace(every[3], seconds=())]
    assert comparison.webgpu_of(named[0], named) is named[1], "whatever its name, as its table says what it is"
    assert comparison.webgpu_of(named[0], named[::-1]) is named[1], "one that was timed"
    assert comparison.against(every[1], None) is None
    moving = every[1].moving
    assert moving is not None
    assert moving.median == 9.0


def test_a_contender_is_told_by_what_its_table_uses_or_its_name_pins() -> None:
    settings = Settings(tables={"built-in": Table("ort-webgpu", python="/there/python")})
    found = contenders(("built-in", "ort-cpu@1.23.2", "wgsl"), ("naive", "online"), settings)
    assert [(it.label, it.use) for it in found] == [
        ("built-in", "ort-webgpu"), ("ort-cpu@1.23.2", "ort-cpu"), ("wgsl naive", "wgsl"), ("wgsl online", "wgsl"),
    ]  # fmt: skip


def profiled(tmp_path: Path, events: list[dict[str, Any]]) -> str:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(events), encoding="utf-8")
    return str(path)


def node(provider: str, op: str, micros: int) -> dict[str, Any]:
    return {"cat": "Node", "name": f"{op}_kernel_time", "dur": micros, "args": {"provider": provider, "op_name": op}}


def test_a_profile_tells_of_gpu_kernels_before_nodes_and_of_nodes_on_the_cpu_alone(tmp_path: Path) -> None:
    timing = worker_module("ort_timing")
    session = {"cat": "Session", "name": "model_run", "dur": 99}
    kernels = [{"cat": "Api", "name": f"Node&Op&{name}", "dur": dur} for name, dur in (("CopyKVCache", 3), ("QK", 5))]
    started = node("WebGpuExecutionProvider", "GroupQueryAttention", 1)
    both = profiled(tmp_path, [session, started, session, started, *kernels, *kernels])
    assert timing.profile(both, 2) == [[("CopyKVCache", pytest.approx(3e-6)), ("QK", pytest.approx(5e-6))]] * 2
    assert timing.profile(profiled(tmp_path, [session, started]), 1) == [], "the start of a kernel is not the kernel"
    on_cpu = [node("CPUExecutionProvider", "GroupQueryAttention", 7)] * 3
    assert timing.profile(profiled(tmp_path, on_cpu), 3) == [[("GroupQueryAttention", pytest.approx(7e-6))]] * 3
    failure = worker_module("failure").Failure
    with pytest.raises(failure, match="tells of 3 kernels in 2 equal runs"):
        timing.profile(profiled(tmp_path, on_cpu), 2)


def test_a_run_of_onnx_runtime_is_the_sum_of_its_kernels_but_for_those_that_only_move_rows() -> None:
    timing = worker_module("ort_timing")
    run = [("CopyKVCache", 3.0), ("QK", 5.0), ("VxReduce", 1.0), ("QK", 0.5)]
    told = timing._told(timing.PROFILER, [run, run], "")
    assert told["seconds"].tolist() == [6.5, 6.5]
    assert told["part_seconds"].tolist() == [[3.0, 5.5, 1.0]] * 2
    assert [(it["name"], it["apart"], it["alone"]) for it in told["parts"]] == [
        ("CopyKVCache", True, False), ("QK", False, False), ("VxReduce", False, False),
    ]  # fmt: skip


def test_a_loader_gives_every_array_of_floats_back_and_no_other() -> None:
    inputs: dict[str, Any] = {"q": np.ones((2, 3), np.float16), "lengths": np.ones(2, np.int32)}
    inputs["k"] = np.full((1,), 5, np.float32)
    session = onnxruntime.InferenceSession(loader(inputs), providers=["CPUExecutionProvider"])
    assert [it.name for it in session.get_inputs()] == ["q", "k"]
    found = session.run(None, {"q": inputs["q"], "k": inputs["k"]})
    assert [array.dtype for array in found] == [np.float16, np.float32]
    assert np.array_equal(found[0], inputs["q"])
    assert np.array_equal(found[1], inputs["k"])


TINY = rates.Size(groups=2, rounds=3, copied=2, runs=1)


def images(task: rates.Task) -> Any:
    """What a plan of rates.py leaves in the buffer that it writes."""
    plan = {**task.payload["plan"]}
    written = plan["buffers"][-1]
    plan["buffers"] = (*plan["buffers"][:-1], {**written, "output": "written"})
    outputs = [{"name": "written", "dtype": "uint32", "shape": [written["nbytes"] // 4]}]
    prepared = runtime().prepare({"plan": plan, "outputs": outputs})
    return runtime().run(prepared, task.inputs)[0]["written"]


def test_the_rate_of_arithmetic_counts_the_operations_that_are_done() -> None:
    task = rates.arithmetic(TINY)
    assert task.amount == 2 * 256 * 3 * 8 * 4 * 2, "invocations x rounds x chains x lanes x multiply and add"
    start = np.stack([np.arange(512.0), *(np.full(512, it) for it in (1.0, 2.0, 3.0))], axis=-1)
    values = start[None] + np.arange(8.0)[:, None, None]
    for _ in range(3):
        values = values * 0.9990234375 + 0.0009765625
    np.testing.assert_allclose(images(task).view(np.float32).reshape(512, 4), values.sum(axis=0), rtol=1e-5)


def test_the_rate_of_copying_counts_bytes_read_and_bytes_written() -> None:
    task = rates.copying(TINY)
    assert task.amount == 2 * task.inputs["source"].nbytes == 2 * 2 * 1024 * 16
    assert np.array_equal(images(task), task.inputs["source"])


def test_the_rate_of_matrix_units_counts_two_operations_a_product() -> None:
    task = rates.multiplying(TINY)
    assert task.amount == 1 * 4 * 3 * 16 * (2 * 16 * 16 * 16), "workgroups x subgroups x rounds x products"
    assert len(task.payload["plan"]["dispatches"]) == 1


def test_outputs_are_held_to_what_the_kernel_that_ran_promises() -> None:
    """Weights that are rounded to float16 before they meet the values are no fault where a kernel says so."""
    case, problem = posed("q_len=40 dtype=float16")
    known = expected(case, problem)
    right = outcome(case, problem)
    exact = known.answers[0]
    moved = (exact.values + 8 * 2.0**-11 * np.abs(exact.compute) * 0.5).astype(np.float16)
    rounded = replace(right, outputs={**right.outputs, "output": moved})
    assert judged(known, Wgsl(), rounded)[0] is Verdict.MISMATCH
    assert judged(known, Wgsl(), replace(rounded, compute="native"))[0] is Verdict.PASS


def test_a_station_tells_what_the_request_promises() -> None:
    case, problem = posed("q_len=4")
    station = Station(Wgsl(), 60.0, None)
    hello = station.start(lambda _: None)
    try:
        (request, *_) = Wgsl().requests(case, problem, hello)
        ran = station.run(station.prepare(request.payload), replace(request, compute="mixed"), case)
    finally:
        station.close()
    assert ran.failure is None
    assert ran.compute == "mixed"


def test_inputs_that_no_device_takes_come_from_the_host_and_that_is_said() -> None:
    case, _ = posed("q_len=4")
    timing = worker_module("ort_timing")

    def opened(model: bytes, profiled: bool) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.enable_profiling = profiled
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    payload = {"loader": loader(case.inputs)}
    given = timing.resident(opened, payload, case.inputs, 3, "webgpu")
    assert given.device == "cpu"
    assert given.note.startswith("inputs come from the host: ")
    told = timing.timed(opened, {"model": case.model, "waiter": waiter()}, given, {}, 4, 0.0)
    parts = [{"name": "GroupQueryAttention", "apart": False, "alone": False}]
    assert (told["clock"], told["parts"]) == ("profiler", parts)
    assert told["part_seconds"].shape == (4, 1)
    assert np.array_equal(told["seconds"], told["part_seconds"][:, 0])
    assert told["note"] == given.note
    there = timing.resident(opened, payload, case.inputs, 3, "cpu")
    assert (there.device, there.note, len(there.sets)) == ("cpu", "", 1)


H200, L4, CPU = Adapter("hardware", "NVIDIA H200"), Adapter("hardware", "NVIDIA L4"), Adapter("processor")


def test_ratios_are_those_within_one_adapter() -> None:
    slow, fast = replace(timing("slow naive", 8.0), adapter=L4), replace(timing("fast naive", 1.0), adapter=H200)
    other = replace(timing("fast-unbounded online", 0.5), adapter=H200)
    torch = replace(timing("torch", 2.0), adapter=H200)
    runtime, cpu = replace(timing("ort-webgpu", 4.0), adapter=L4), replace(timing("ort-cpu", 99.0), adapter=CPU)
    every = [slow, fast, other, torch, runtime, cpu]
    assert [comparison.naive_of(it, every) for it in every] == [slow, fast, fast, fast, slow, None]
    assert [comparison.webgpu_of(it, every) for it in every] == [runtime, None, None, None, runtime, None]
    both = {comparison.NAIVE, comparison.WEBGPU}
    assert [comparison.elsewhere(it, every) for it in (slow, other, cpu)] == [set(), {comparison.WEBGPU}, both]
    assert comparison.elsewhere(cpu, [cpu]) == set()


def test_the_rates_of_an_adapter_are_the_best_of_the_backends_on_it() -> None:
    measured = [(H200, Rates(4.0, 10.0)), (L4, Rates(9.0, 9.0, 9.0)), (H200, Rates(5.0, 8.0, 7.0))]
    assert floor.best(H200, measured) == Rates(5.0, 10.0, 7.0)
    assert floor.best(L4, measured) == Rates(9.0, 9.0, 9.0)
    assert floor.best(CPU, measured) is None
    nameless = Adapter("hardware")
    assert floor.best(nameless, measured) is None, "it may be either"
    assert floor.best(nameless, measured[:1]) == Rates(4.0, 10.0)
    assert floor.best(Adapter("unknown"), measured[:1]) is None, "it may be software"


def clocked(*seconds: float) -> Timing:
    return Timing("it", "", "it", Verdict.PASS, clock="wall", seconds=seconds)


@pytest.mark.parametrize(("share", "verdict"), [(1.0, Verdict.PASS), (0.6, Verdict.PASS), (0.4, Verdict.ERROR)])
def test_what_is_faster_than_any_kernel_can_be_is_an_error_of_its_clock(share: float, verdict: Verdict) -> None:
    """Seen: ONNX Runtime's WebGPU plugin, whose runs return before the device is done, at 60 times the floor."""
    _, problem = posed("q_len=64")
    asked, rates = work(problem), Rates(fma=1e12, copy=1e12)
    least = floor.seconds(asked, "float32", rates)
    found = floor.believed(clocked(*[share * least] * 5), asked, "float32", rates)
    assert found.verdict is verdict
    assert found.timed is (verdict is Verdict.PASS)
    assert ("does not wait for the kernel" in found.message) is (verdict is Verdict.ERROR)


def test_nothing_but_no_time_at_all_is_disbelieved_where_no_rate_is_known() -> None:
    """A profiler that counts whole microseconds may say 0, of which no ratio can be made."""
    _, problem = posed("q_len=64")
    assert floor.believed(clocked(1e-30), work(problem), "float32", None).timed
    found = floor.believed(clocked(0.0, 0.0, 1e-6), work(problem), "float32", None)
    assert (found.verdict, found.timed) == (Verdict.ERROR, False)
    assert "its clock (wall) says 0 s: it does not wait for the kernel, or counts in longer steps" in found.message


def test_a_row_of_runs_is_ended_by_what_waits_and_shared_among_them() -> None:
    timing = worker_module("ort_timing")
    asked: list[str] = []

    class Session:
        def run_with_iobinding(self, binding: Any) -> None:
            asked.append("run")

    class Binding:
        def synchronize_outputs(self) -> None:
            pass

    def wait() -> None:
        asked.append("wait")
        time.sleep(0.04)

    seconds = timing._run(Session(), [Binding()] * 4, wait)
    assert asked == ["run"] * 4 + ["wait"]
    assert 0.01 <= seconds < 0.04


def test_the_waiting_model_runs_on_every_provider_and_gives_its_number_back() -> None:
    session = onnxruntime.InferenceSession(waiter(), providers=["CPUExecutionProvider"])
    wait = worker_module("ort_timing")._waiting(session)
    assert wait() is None
