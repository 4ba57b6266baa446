"""Plans without a GPU: uniforms, grids, blocks, sections, refusals, edited folders of shaders."""

from __future__ import annotations

import json
import re
import shutil
import struct
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncheck import shipped
from attncheck.backends.base import BackendUnavailable, Hello
from attncheck.backends.wgsl import Wgsl
from attncheck.graph import read, write
from attncheck.graph.case import Case
from attncheck.kernels import planner, uniforms
from attncheck.kernels.draft import Limits, fold
from attncheck.kernels.plan import Plan
from attncheck.kernels.policy import Policy
from attncheck.kernels.sources import SHADERS, ShaderError
from attncheck.kernels.visible import visible_rows
from attncheck.problem import Mask, Problem, Scores
from tests.device import FAST_KERNELS, KERNELS
from tests.drawing import scenario

DEFAULTS = Limits(binding_bytes=(128 << 20) - 8192, workgroups=65535, f16=True)
"""WebGPU's default limits."""

HELLO = Hello(
    {},
    {
        "f16": True,
        "guard_bytes": 4096,
        "limits": {
            "max-storage-buffer-binding-size": 128 << 20,
            "max-buffer-size": 256 << 20,
            "max-compute-workgroups-per-dimension": 65535,
            "max-compute-workgroup-storage-size": 16384,
            "max-compute-invocations-per-workgroup": 256,
            "max-compute-workgroup-size-x": 256,
        },
        "software": True,
    },
)


def case_and_problem(**axes: Any) -> tuple[Case, Problem]:
    case = write.build(scenario(**axes))
    return case, read.problem(case.model, case.inputs)


def planned(problem: Problem, kernel: str, limits: Limits = DEFAULTS, shaders: Path | None = None) -> Plan:
    return planner.plan(problem, kernel, limits, shaders or shipped.shaders_dir())


def uniform_values(plan: Plan, index: int) -> dict[str, float]:
    """Uniforms of a dispatch by name, unpacked as WGSL lays out a struct of scalars."""
    dispatch = plan.dispatches[index]
    text, file = plan.sources[dispatch.shader]
    declared = uniforms.fields(text, file)
    layout = "<" + "".join({"u32": "I", "i32": "i", "f32": "f"}[kind] for kind in declared.values())
    return dict(zip(declared, struct.unpack_from(layout, dispatch.uniforms), strict=True))


STRUCT = "struct Params { a: u32, // first\n b: f32, c: i32, }"


def test_uniforms_are_packed_in_the_order_of_the_struct() -> None:
    packed = uniforms.pack(STRUCT, "x.wgsl", {"c": -2, "a": 7, "b": 0.5})
    assert packed == struct.pack("<Ifi", 7, 0.5, -2) + bytes(4)


def test_a_struct_that_lacks_a_value_of_the_planner_names_the_file_and_the_field() -> None:
    with pytest.raises(ShaderError, match=r"x\.wgsl: struct Params lacks rows; the planner gives a, b, c, rows"):
        uniforms.pack(STRUCT, "x.wgsl", {"a": 1, "b": 1.0, "c": 1, "rows": 1})


def test_a_struct_with_a_field_of_its_own_names_it() -> None:
    with pytest.raises(ShaderError, match=r"x\.wgsl: struct Params declares c, which has no value"):
        uniforms.pack(STRUCT, "x.wgsl", {"a": 1, "b": 1.0})


def test_a_struct_with_anything_but_scalars_is_refused() -> None:
    with pytest.raises(ShaderError, match=r"x\.wgsl: Params\.a is a vec2; uniforms are u32, i32, f32 only"):
        uniforms.fields("struct Params { a: vec2<u32>, }", "x.wgsl")


def test_a_shader_without_params_is_refused() -> None:
    with pytest.raises(ShaderError, match=r"x\.wgsl: no `struct Params`"):
        uniforms.fields("// struct Params { a: u32 }\nfn main() {}", "x.wgsl")


@given(workgroups=st.integers(1, 10**9), most=st.integers(1024, 65535))
def test_a_folded_grid_holds_all_workgroups_within_the_limit(workgroups: int, most: int) -> None:
    x, y, z = fold(workgroups, most)
    assert max(x, y, z) <= most
    assert x * y * z >= workgroups
    assert x * y * (z - 1) < workgroups


def test_rows_without_a_key_see_nothing_or_everything_evenly() -> None:
    _, problem = case_and_problem(q_len=(3,), past_len=(4,))
    visible = np.array([[[0, 5], [6, 6], [7, 2]]], np.int32)
    zero = replace(problem, visible=visible, empty_row="zero")
    assert visible_rows(zero).tolist() == [[[0, 5, 0, 5], [0, 0, 0, 0], [0, 0, 0, 0]]]
    mean = replace(problem, visible=visible, empty_row="mean")
    assert visible_rows(mean).tolist() == [[[0, 5, 0, 5], [0, 0, 0, 7], [0, 0, 0, 7]]]


def test_rows_beyond_q_len_see_nothing() -> None:
    _, problem = case_and_problem(q_len=(1, 3))
    everything = np.full((2, 3, 2), (0, 3), np.int32)
    rows = visible_rows(replace(problem, visible=everything, empty_row="mean"))
    assert rows[0].tolist() == [[0, 3, 0, 3], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_naive_materialises_no_more_scores_than_a_binding_holds() -> None:
    _, problem = case_and_problem(q_len=(50,), heads=2, kv_heads=1)
    limits = Limits(binding_bytes=4 * 50 * 7, workgroups=65535, f16=True)
    plan = planned(problem, "naive", limits)
    (scores,) = (buffer for buffer in plan.buffers if buffer.name == "[scores]")
    assert scores.nbytes == 4 * 50 * 7
    covered = [
        (int(values["first_row"]), int(values["total"]) // 50)
        for index, dispatch in enumerate(plan.dispatches)
        if dispatch.shader == "naive_scores"
        for values in [uniform_values(plan, index)]
    ]
    assert covered == [(first, min(7, 100 - first)) for first in range(0, 100, 7)]


@pytest.mark.parametrize("head_dim", [4, 64, 256])
def test_online_sections_follow_on_each_other_and_cover_every_key(head_dim: int) -> None:
    _, problem = case_and_problem(q_len=(2,), past_len=(30_000,), heads=1, kv_heads=1, head_dim=head_dim)
    plan = planned(problem, "online")
    sections = [uniform_values(plan, i) for i, dispatch in enumerate(plan.dispatches) if dispatch.shader == "online"]
    assert sections[0]["first_slot"] == 0
    assert sections[-1]["end_slot"] == 30_002
    for before, after in pairwise(sections):
        assert before["end_slot"] == after["first_slot"]
    assert [values["resume"] for values in sections] == [0] + [1] * (len(sections) - 1)
    assert [values["finish"] for values in sections] == [0] * (len(sections) - 1) + [1]


def test_the_number_of_sections_grows_with_the_head() -> None:
    def sections(head_dim: int) -> int:
        _, problem = case_and_problem(q_len=(1,), past_len=(20_000,), heads=1, kv_heads=1, head_dim=head_dim)
        return sum(dispatch.shader == "online" for dispatch in planned(problem, "online").dispatches)

    assert sections(4) < sections(64) < sections(256)


def test_a_window_dispatches_only_the_sections_that_it_sees() -> None:
    _, problem = case_and_problem(q_len=(1,), past_len=(30_000,), window=10, heads=1, kv_heads=1)
    plan = planned(problem, "online")
    values = uniform_values(plan, len(plan.dispatches) - 1)
    assert (values["first_slot"], values["end_slot"]) == (29_991 // 1376 * 1376, 30_001)
    assert (values["resume"], values["finish"]) == (0, 1)


@pytest.mark.parametrize("kernel", [*KERNELS, *FAST_KERNELS])
def test_a_plan_is_plain_data_and_names_only_buffers_that_it_has(kernel: str) -> None:
    _, problem = case_and_problem(rotary="half", past_len=(3,))
    plan = planned(problem, kernel)
    names = {buffer.name for buffer in plan.buffers}
    assert {name for dispatch in plan.dispatches for name in dispatch.bindings} <= names
    assert set(plan.sources) == {dispatch.shader for dispatch in plan.dispatches}
    assert {buffer.output for buffer in plan.buffers} - {None} == {"output", "present_key", "present_value"}
    json.dumps(asdict(plan), default=lambda data: data.hex())


def test_a_plan_holds_the_shaders_as_they_stand_in_the_folder(tmp_path: Path) -> None:
    shutil.copytree(shipped.shaders_dir(), tmp_path / "mine")
    edited = tmp_path / "mine" / "online.wgsl"
    edited.write_text(edited.read_text(encoding="utf-8") + "// mine\n", encoding="utf-8")
    _, problem = case_and_problem()
    text, file = planned(problem, "online", shaders=tmp_path / "mine").sources["online"]
    assert text.endswith("// mine\n")
    assert file == str(edited)


def test_a_missing_shader_is_named_with_what_a_folder_must_hold(tmp_path: Path) -> None:
    _, problem = case_and_problem()
    with pytest.raises(ShaderError) as error:
        planned(problem, "naive", shaders=tmp_path)
    assert str(error.value).startswith(f"{tmp_path / 'append.wgsl'}: cannot read the shader: No such file or directory")
    for shader in SHADERS:
        assert f"{shader}.wgsl" in str(error.value)


def test_the_backend_does_not_start_without_its_shaders(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match=re.escape("append.wgsl: cannot read the shader")):
        Wgsl(shaders=tmp_path).check(HELLO)


def test_float16_is_declared_unsupported_where_the_adapter_has_none() -> None:
    case, problem = case_and_problem(dtype="float16")
    without = Hello({}, {**HELLO.device, "f16": False})
    reason = Wgsl().unsupported(case, problem, without)
    assert reason == "dtype float16: the adapter has no f16 (WebGPU feature shader-f16)"
    assert Wgsl().unsupported(case, problem, HELLO) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"head_dim": 257}, "head_dim 257: the kernels go up to 256"),
        ({"v_head_dim": 300}, "v_head_dim 300: the kernels go up to 256"),
        ({"dtype": "bfloat16"}, "dtype bfloat16: the kernels compute float32 and float16"),
        ({"past_len": (1 << 18,)}, f"kv_len {(1 << 18) + 4}: the kernels go up to {1 << 18} keys"),
        ({"invalid": "T exceeds the cache"}, "the operator forbids this graph: T exceeds the cache"),
        (
            {"masks": (Mask("a", "boolean", (1 << 12, 1, 1, 4), 4), Mask("b", "boolean", (1 << 12, 1, 4), 4))},
            "the combination of all masks takes 268435456 bytes, and the adapter binds at most 134209536",
        ),
        ({"masks": (Mask("a", "additive", (1 << 13, 1 << 13), 1 << 13),)}, "a mask takes 268435456 bytes, and the"),
        ({"scores": Scores("s", "raw", 1 << 22)}, "the score output takes 268435456 bytes, and the adapter binds"),
        ({"capacity": 1 << 22}, "a head of the present key takes 268435456 bytes, and the adapter binds at most"),
        ({"batch": 8, "capacity": 1 << 20}, "the present key takes 1073741824 bytes, and the adapter has buffers of"),
    ],
)
def test_what_the_kernels_cannot_do_is_declared(changes: dict[str, Any], reason: str) -> None:
    case, problem = case_and_problem()
    said = Wgsl().unsupported(case, replace(problem, **changes), HELLO)
    assert said is not None
    assert said.startswith(reason)


def kernels_of(backend: Wgsl, kernel: str | None, past_len: int = 0) -> list[str]:
    case, problem = case_and_problem(kernel=kernel, past_len=(past_len,))
    return [request.kernel for request in backend.requests(case, problem, HELLO)]


def test_auto_requests_both_kernels_the_chosen_one_first() -> None:
    assert kernels_of(Wgsl(), None) == ["naive", "online"]
    assert kernels_of(Wgsl(), None, past_len=1020) == ["naive", "online"]
    assert kernels_of(Wgsl(Policy(threshold=4)), None) == ["online", "naive"]


def test_a_scenario_overrides_auto_and_the_user_overrides_both() -> None:
    assert kernels_of(Wgsl(), "online") == ["online"]
    assert kernels_of(Wgsl(Policy("naive"), forced=True), "online") == ["naive"]
    assert kernels_of(Wgsl(Policy("auto"), forced=True), "online") == ["naive", "online"]


def featured(problem: Problem) -> Problem:
    masks = (Mask("a", "boolean", (1, 4, 1, 3), 3), Mask("b", "additive", (4, 7), 7))
    return replace(problem, masks=masks, sink="sink", smooth=True, scores=Scores("scores", "weights", 7))


@pytest.mark.parametrize("kernel", [*KERNELS, *FAST_KERNELS])
def test_no_dispatch_binds_more_than_the_default_limit_of_storage_buffers(kernel: str) -> None:
    _, problem = case_and_problem(rotary="half", past_len=(3,))
    assert max(len(dispatch.bindings) for dispatch in planned(featured(problem), kernel).dispatches) <= 8


@pytest.mark.parametrize("kernel", [*KERNELS, *FAST_KERNELS])
def test_masks_are_combined_once_as_wide_as_the_widest_along_each_axis(kernel: str) -> None:
    _, problem = case_and_problem(past_len=(3,))
    plan = planned(featured(problem), kernel)
    (bias,) = (buffer for buffer in plan.buffers if buffer.name == "[bias]")
    assert bias.nbytes == 4 * 1 * 4 * 4 * 7  # heads of the one, rows of the other, all keys
    combining = [index for index, dispatch in enumerate(plan.dispatches) if dispatch.shader == "mask"]
    names = [plan.dispatches[index].bindings for index in combining]
    assert names == [("sink", "[sinks]"), ("a", "[bias]"), ("b", "[bias]")]
    sinks, first, second = (uniform_values(plan, index) for index in combining)
    strides = ("mask_batch", "mask_head", "mask_row", "mask_slot", "mask_slots", "more")
    assert [first[name] for name in strides] == [0, 3, 0, 1, 3, 0]
    assert [second[name] for name in strides] == [0, 0, 7, 1, 7, 1]
    assert [sinks[name] for name in strides] == [0, 1, 0, 0, 1, 0]


def test_a_problem_without_features_plans_no_dispatch_for_them() -> None:
    _, problem = case_and_problem(past_len=(3,))
    for kernel in (*KERNELS, *FAST_KERNELS):
        assert not {"mask", "score_output"} & {dispatch.shader for dispatch in planned(problem, kernel).dispatches}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"scale": 3e38}, "scale 3e+38: the kernels go up to 1.26765e+30"),
        ({"scale": -3e38}, "scale 3e+38: the kernels go up to 1.26765e+30"),
        ({"softcap": 3e38}, "softcap 3e+38: the kernels go up to 1.26765e+30"),
        ({"scale": 1e10, "softcap": 1e-30}, "scale / softcap 1e+40: the kernels go up to 1.26765e+30"),
        ({"scale": 1.2e30}, None),
        ({"scale": 1.0, "softcap": 1.2e30}, None),
        ({"scale": 0.0, "softcap": 1e-38}, None),
    ],
)
def test_factors_that_float32_scores_cannot_take_are_refused(changes: dict[str, float], reason: str | None) -> None:
    _, problem = case_and_problem(past_len=(3,))
    changed = replace(problem, **changes)  # type: ignore[arg-type]
    assert planner.refusal(changed, DEFAULTS) == reason
    if reason is None:
        for kernel in (*KERNELS, *FAST_KERNELS):
            assert planned(changed, kernel).dispatches
