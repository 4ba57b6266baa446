"""The WebGPU executor: what it catches, what it says, and what it costs."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attncheck.backends.base import BackendUnavailable, Launch
from attncheck.engine.worker import Worker
from attncheck.kernels.plan import Buffer, Dispatch, Plan
from tests.device import compute, hello, plan, runtime, work, worker_module
from tests.drawing import scenario

PARAMS = """
struct Params { first: u32, count: u32, }
@group(0) @binding(0) var<uniform> params: Params;
"""

FILL = (
    PARAMS
    + """
@group(0) @binding(1) var<storage, read_write> data: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.count) { data[params.first + id.x] = 1.0; }
}
"""
)


def run(source: str, *, first: int = 0, count: int = 4, buffer: dict[str, Any] | None = None, prelude: str = "") -> Any:
    """Run one dispatch over a buffer of four floats; the output "y" where the buffer is one."""
    fields: dict[str, Any] = {"name": "y", "nbytes": 16, "output": "y"} | (buffer or {})
    given = Buffer(**fields)
    packed = np.array([first, count, 0, 0], np.uint32).tobytes()
    dispatch = Dispatch("x", prelude, packed, (given.name,), (1, 1, 1))
    made = Plan("test", (given,), (dispatch,), {"x": (source, "some/x.wgsl")})
    outputs = [{"name": "y", "dtype": "float32", "shape": [4]}]
    inputs = {"x": np.arange(4, dtype=np.float32)}
    prepared = runtime().prepare({"plan": asdict(made), "outputs": outputs})
    return runtime().run(prepared, inputs)


def failure(source: str, **how: Any) -> Any:
    with pytest.raises(worker_module("failure").Failure) as caught:
        run(source, **how)
    return caught.value


def test_an_output_comes_back_with_evidence_of_what_ran() -> None:
    outputs, evidence = run(FILL)
    assert outputs["y"].tolist() == [1.0] * 4
    assert evidence["kernels"] == ["x"]
    assert hello().device["adapter"] in evidence["provider"]


def test_what_no_kernel_writes_comes_back_as_nan() -> None:
    outputs, _ = run(FILL, count=2)
    assert outputs["y"][:2].tolist() == [1.0, 1.0]
    assert np.isnan(outputs["y"][2:]).all()


@pytest.mark.parametrize("beyond", [0, 1, 500, 1000])
def test_a_write_beyond_the_end_of_a_buffer_is_reported_with_its_name(beyond: int) -> None:
    found = failure(FILL, first=4 + beyond, count=1)
    assert found.verdict == "oob-write"
    assert found.message == (
        f"a kernel wrote past the end of y: the first stray byte is {4 * beyond} bytes behind its 16 bytes"
    )


def test_a_write_beyond_the_end_of_scratch_is_reported_too() -> None:
    found = failure(FILL, first=3, count=2, buffer={"name": "[scratch]", "output": None})
    assert found.verdict == "oob-write"
    assert "past the end of [scratch]" in found.message


def test_a_write_into_an_input_is_reported() -> None:
    """1.0 is written over 2.0, 00 00 00 40: the first byte that changes is the third of the third float."""
    found = failure(FILL, first=2, count=1, buffer={"name": "x", "input": "x", "output": None})
    assert (found.verdict, found.message) == ("oob-write", "a kernel wrote into the input x, first at byte 10")


def test_a_buffer_of_half_words_is_guarded_from_its_first_byte_behind() -> None:
    """Six bytes of float16: the guard starts in the middle of a word."""
    found = failure(FILL, first=1, count=1, buffer={"nbytes": 6, "output": None})
    assert found.message.endswith("the first stray byte is 0 bytes behind its 6 bytes")


@pytest.mark.parametrize(
    ("old", "new", "place", "reason"),
    [
        ("{ data[", "{ dat[", "some/x.wgsl:8:32: ", "no definition in scope for identifier: `dat`"),
        ("= 1.0;", "= 1u;", "some/x.wgsl:8:32: ", "automatic conversions cannot convert elements of `u32` to `f32`"),
        ("read_write", "read", "some/x.wgsl:8:32: ", "valid destination for a store"),
        ("fn main(", "fn main((", "some/x.wgsl:7:9: ", 'expected identifier, found "("'),
        ("fn main(", "fn other(", "some/x.wgsl: ", "main"),
    ],
)
@pytest.mark.parametrize("prelude", ["", "alias elem = f32;\nalias stored = f32;\n"])
def test_a_shader_that_does_not_compile_is_named_with_file_and_line(
    old: str, new: str, place: str, reason: str, prelude: str
) -> None:
    found = failure(FILL.replace(old, new), prelude=prelude)
    assert found.verdict == "error"
    assert found.message.startswith(place)
    assert reason in found.message
    assert "\n" not in found.message


def test_a_shader_with_other_bindings_than_the_plan_is_refused() -> None:
    found = failure(FILL.replace("@binding(1)", "@binding(2)"))
    assert found.message == (
        "some/x.wgsl: must declare in @group(0) the uniforms at @binding(0) and storage buffers at 1 to 1; "
        "it declares 0 uniform, 2 storage"
    )


def test_an_input_that_is_missing_or_too_short_is_refused() -> None:
    missing = failure(FILL, buffer={"name": "q", "input": "q"})
    assert missing.message == "the case has no input 'q', which the kernels need"
    short = failure(FILL, buffer={"name": "x", "input": "x", "nbytes": 32})
    assert short.message == "input 'x' has 16 bytes; the kernels read 32"


def test_no_pipeline_is_compiled_twice() -> None:
    given = work(scenario(q_len=(3,)))
    compute(given, "naive")
    before = dict(runtime().pipelines)
    compute(work(scenario(q_len=(5, 2), head_dim=8, window=2, softcap=3.0)), "naive")
    assert runtime().pipelines == before


def test_inputs_larger_than_the_last_run_s_do_not_disturb_it() -> None:
    """The staging buffer is kept and grows; results are copies."""
    small = compute(work(scenario(q_len=(2,))), "online")["output"]
    kept = small.copy()
    compute(work(scenario(q_len=(64,), data="large-logits")), "online")
    np.testing.assert_array_equal(small, kept)


def test_the_device_is_described_as_it_is_measured() -> None:
    device = hello().device
    assert device["subgroup_size"] is None or device["subgroup_size"] in (1, 2, 4, 8, 16, 32, 64, 128)
    assert device["backend"] != "OpenGL"
    assert device["software"] == (device["type"] == "CPU")
    assert device["limits"]["max-storage-buffer-binding-size"] >= 128 << 20


def test_a_worker_process_runs_a_plan_end_to_end() -> None:
    given = work(scenario(rotary="interleaved", past_len=(3,)))
    payload = {"plan": asdict(plan(given, "online")), "outputs": given.outputs}
    worker = Worker.started(Launch("webgpu", {"adapter": None}))
    try:
        handle = worker.prepare(payload, 60.0)
        answer = worker.run(handle, dict(given.inputs), 60.0)
        worker.release(handle, 60.0)
    finally:
        worker.close()
    here = compute(given, "online")
    assert sorted(answer["outputs"]) == sorted(here)
    for name, array in here.items():
        np.testing.assert_array_equal(answer["outputs"][name], array)
    assert sorted(answer["evidence"]["kernels"]) == ["append", "online"]


@pytest.mark.skipif(os.name != "posix", reason="says how to hide Vulkan drivers from the loader on Linux only")
def test_without_a_vulkan_adapter_the_worker_says_what_to_install(tmp_path: Path) -> None:
    nothing = {"VK_DRIVER_FILES": str(tmp_path / "none.json"), "VK_ICD_FILENAMES": str(tmp_path / "none.json")}
    with pytest.raises(BackendUnavailable, match=r"no Vulkan, Metal or D3D12 adapter.*mesa-vulkan-drivers"):
        Worker.started(Launch("webgpu", {"adapter": None}, environment=nothing))


@pytest.mark.skipif(os.name != "posix", reason="says how to hide Vulkan drivers from the loader on Linux only")
def test_where_dawn_takes_no_adapter_the_worker_names_one_that_it_takes(tmp_path: Path) -> None:
    nothing = {"VK_DRIVER_FILES": str(tmp_path / "none.json"), "VK_ICD_FILENAMES": str(tmp_path / "none.json")}
    with pytest.raises(BackendUnavailable) as caught:
        Worker.started(Launch("dawn", {"adapter": None}, environment=nothing))
    said = str(caught.value)
    assert "chromium-common" in said
    assert "VK_DRIVER_FILES=/usr/lib/chromium/vk_swiftshader_icd.json" in said
    assert "mesa-vulkan-drivers" not in said


def test_an_adapter_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(worker_module("failure").Failure) as caught:
        worker_module("webgpu").start({"adapter": "no such thing"})
    assert caught.value.message.startswith("no adapter matches 'no such thing'; there is ")
    assert hello().device["adapter"] in caught.value.message


def test_an_adapter_is_found_by_a_part_of_its_name_in_any_case() -> None:
    part = hello().device["adapter"][:5].upper()
    assert worker_module("adapters").choose(part).info["device"] == hello().device["adapter"]


def test_adapters_are_listed_for_the_doctor() -> None:
    listed = worker_module("webgpu").list_adapters()
    assert hello().device["adapter"] in [adapter["adapter"] for adapter in listed]
    assert {"adapter", "driver", "backend", "type", "software", "f16", "limits"} <= set(listed[0])


def test_a_lost_device_is_said_to_be_lost() -> None:
    own = worker_module("webgpu").start({"adapter": None})
    given = work(scenario())
    prepared = own.prepare({"plan": asdict(plan(given, "online")), "outputs": given.outputs})
    own.device.destroy()
    with pytest.raises(worker_module("failure").Failure) as caught:
        own.run(prepared, given.inputs)
    assert caught.value.verdict == "device-lost"


@pytest.mark.parametrize(("lengths", "most", "pieces"), [
    ([40, 8], 64, [[("0", 0, 40), ("1", 0, 8)]]),
    ([40, 24], 64, [[("0", 0, 40), ("1", 0, 24)]]),
    ([40, 40], 64, [[("0", 0, 40), ("1", 0, 24)], [("1", 24, 40)]]),
    ([200], 64, [[("0", 0, 64)], [("0", 64, 128)], [("0", 128, 192)], [("0", 192, 200)]]),
    ([0, 8], 64, [[("1", 0, 8)]]),
    ([], 64, []),
])  # fmt: skip
def test_what_is_read_back_comes_in_pieces_of_no_more_than_the_staging_buffer(
    lengths: list[int], most: int, pieces: Any
) -> None:
    ranges = {str(at): (0, length) for at, length in enumerate(lengths)}
    assert list(worker_module("readback").together(ranges, most)) == pieces


def test_outputs_that_come_in_pieces_are_those_that_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given = work(scenario(q_len=(5,), past_len=(9,)))
    at_once = compute(given, "online")
    monkeypatch.setattr(worker_module("readback"), "MOST", 528)
    in_pieces = compute(given, "online")
    assert {name: array.tobytes() for name, array in in_pieces.items()} == {
        name: array.tobytes() for name, array in at_once.items()
    }


@pytest.mark.parametrize(("seconds", "each", "runs", "lead"), [
    (0.0, 1 / 8, 1, 0),  # software
    (0.5, 1 / 8, 4, 0),
    (0.5, 1 / 256, 128, 3),
])  # fmt: skip
def test_a_gpu_is_woken_by_runs_for_so_long_and_software_by_one(
    seconds: float, each: float, runs: int, lead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = worker_module("timing")
    timer = timing._Timer(resident(sets=3), *prepared_plan())
    taken: list[int] = []
    turn = timer._next

    def counted() -> Any:
        taken.append(1)
        return turn()

    timer._next = counted
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: each * len(taken)))
    timer.wake(seconds)
    assert len(taken) == runs
    assert timer.lead == lead, "none where a run takes long"


def prepared_plan() -> tuple[Any, Any]:
    prepared = runtime().prepare(fill_payload())
    return prepared.dispatches, prepared.pipelines


def fill_payload(apart: tuple[bool, ...] = (True, True, False)) -> dict[str, Any]:
    """Four floats that move to two places, and four that are computed from them."""
    buffers = (Buffer("x", 16, input="x"), Buffer("moved", 16), Buffer("also", 16), Buffer("y", 16, output="y"))
    copy = PARAMS + (
        "@group(0) @binding(1) var<storage, read> source: array<f32>;\n"
        "@group(0) @binding(2) var<storage, read_write> target_: array<f32>;\n"
        "@compute @workgroup_size(4) fn main(@builtin(local_invocation_index) at: u32) {\n"
        "    if (at < params.count) { target_[at] = source[at]; }\n}\n"
    )
    packed = np.array([0, 4, 0, 0], np.uint32).tobytes()
    dispatches = (
        Dispatch("copy", "", packed, ("x", "moved"), (1, 1, 1)),
        Dispatch("copy", "", packed, ("x", "also"), (1, 1, 1)),
        Dispatch("copy", "", packed, ("moved", "y"), (1, 1, 1)),
    )
    made = Plan("test", buffers, dispatches, {"copy": (copy, "some/copy.wgsl")})
    outputs = [{"name": "y", "dtype": "float32", "shape": [4]}]
    return {"plan": asdict(made), "outputs": outputs, "apart": list(apart)}


def resident(sets: int) -> Any:
    prepared = runtime().prepare(fill_payload())
    return runtime()._resident(prepared, {"x": np.arange(4, dtype=np.float32)}, sets)


def test_sets_have_their_own_of_all_but_what_is_written_while_it_is_timed() -> None:
    found = resident(sets=3)
    assert len(found.buffers) == 1 + 1 + 3 * 3, "the uniforms and y once, x and where it moves in every set"
    images = runtime().readback.read(None, {str(at): it for at, it in enumerate(found.buffers[1:])},
                                     {str(at): (0, 16) for at in range(10)})  # fmt: skip
    assert all(np.array_equal(image.view("<f4"), np.arange(4)) for image in images.values()), "each has had its copy"
    found.destroy()


def part(*, apart: bool, alone: bool) -> dict[str, Any]:
    return {"name": "copy", "apart": apart, "alone": alone}


def test_a_run_of_one_part_is_that_part_and_what_is_apart_is_timed_alone() -> None:
    prepared = runtime().prepare(fill_payload())
    told = runtime().time(prepared, {"x": np.arange(4, dtype=np.float32)}, 5, 0.0, 2)
    assert told["parts"] == [part(apart=False, alone=False), *[part(apart=True, alone=True)] * 2]
    assert told["part_seconds"].shape == (5, 3)
    assert np.array_equal(told["part_seconds"][:, 0], told["seconds"])
    assert (told["seconds"] > 0).all()
    again = runtime().time(prepared, {}, 3, 0.0, 2)
    assert again["part_seconds"].shape == (3, 3), "what lies on the device is taken again"
    runtime().release(prepared)
    assert prepared.resident is None


@pytest.mark.parametrize(("apart", "passes"), [
    ((True, False, False), [[1, 2]] * 4 + [[1], [2]] * 4 + [[0]] * 4),
    ((True, True, False), [[2]] * 4 + [[0], [1]] * 4),
    ((False, False, False), [[0, 1, 2]] * 4 + [[0], [1], [2]] * 4),
    ((True, True, True), [[0], [1], [2]] * 4),
])  # fmt: skip
def test_a_run_is_one_pass_and_its_parts_are_passes_of_further_runs(
    apart: tuple[bool, ...], passes: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = worker_module("timing")
    timed: list[list[int]] = []
    encode = timing._Timer._encode

    def noted(self: Any, encoder: Any, bound: Any, dispatches: list[int], writes: Any) -> None:
        if writes is not None:
            timed.append(dispatches)
        encode(self, encoder, bound, dispatches, writes)

    monkeypatch.setattr(timing._Timer, "_encode", noted)
    prepared = runtime().prepare(fill_payload(apart))
    told = runtime().time(prepared, {"x": np.arange(4, dtype=np.float32)}, 4, 0.0, 1)
    runtime().release(prepared)
    if told["clock"] != timing.TIMESTAMPS:
        pytest.skip("the adapter has no timestamps")
    assert timed == passes
    work = [moves for moves in apart if not moves]
    assert told["seconds"].shape == ((4,) if work else (0,))
    assert told["part_seconds"].shape == (4, 3)
    expected = [part(apart=False, alone=len(work) > 1)] * len(work)
    assert told["parts"] == expected + [part(apart=True, alone=True)] * (3 - len(work))


def test_without_timestamps_whole_runs_are_timed_by_the_wall() -> None:
    timing = worker_module("timing")
    timer = timing._Timer(resident(sets=1), *prepared_plan())
    work = timing._whole([part for part in timer.resident.parts if not part.apart])
    assert timer.by_wall(work, 4).shape == (4, 1)
    assert timer.by_wall([], 4).shape == (4, 0)
