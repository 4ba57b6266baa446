"""The decode kernel: its slices, its scratch, what it reads, and that no member of a batch moves another's bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncheck import shipped
from attncheck.kernels import decode
from attncheck.kernels.draft import Draft, Limits, itemsize
from attncheck.kernels.plan import Plan
from attncheck.kernels.slices import sliced
from attncheck.kernels.uniforms import fields
from attncheck.oracle.attention import answer
from attncheck.problem import Problem
from tests.device import Work, assert_same_bits, compute, differences, failing, has_f16, plan, runtime, work
from tests.drawing import scenario
from tests.unit.test_kernels_plan import uniform_values
from tests.unit.test_shaders import code, invocations, workgroup_bytes

LARGE = Limits(binding_bytes=1 << 30, workgroups=65535, f16=True, workgroup_bytes=49152, invocations=1024)
HARDWARE = replace(LARGE, workgroup_bytes=16384, invocations=256)
SOFTWARE = replace(HARDWARE, software=True)


def split(found: Plan) -> dict[str, float]:
    """Uniforms of the dispatch over the slices."""
    (index,) = (index for index, dispatch in enumerate(found.dispatches) if dispatch.shader == "decode")
    return uniform_values(found, index)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("limits", [SOFTWARE, HARDWARE, LARGE], ids=["software", "hardware", "large"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("q_len", [1, 4, 16])
@pytest.mark.parametrize("group", [1, 4, 8, 32])
def test_partial_results_take_at_most_3_percent_of_the_keys_and_values(
    dtype: str, limits: Limits, head_dim: int, q_len: int, group: int
) -> None:
    """And one slice, of which a short cache is, takes little more than the output in float32."""
    shape: dict[str, Any] = {"dtype": dtype, "heads": group, "kv_heads": 1, "head_dim": head_dim, "q_len": (q_len,)}
    span = decode.slice_of(work(scenario(**shape)).problem)
    rows = -(-group * q_len // decode.ROWS) * decode.ROWS
    for keys in (513, 1025, 8193, 131_073, span, span + 1, 40 * span):
        found = sizes(shape, max(0, keys - q_len), limits)
        if found is None:
            assert limits.software
            continue
        cached = 2 * max(keys, q_len) * head_dim * itemsize("f16" if dtype == "float16" else "f32")
        assert found <= max(0.0305 * cached, rows * (head_dim + 2) * 4), keys


def sizes(shape: dict[str, Any], past_len: int, limits: Limits) -> int | None:
    """Bytes of partial results, None where decode does not cover the problem; planned without its data."""
    problem = posed(shape, past_len)
    if decode.lacks(problem, limits) is not None:
        return None
    rows = -(-problem.group * problem.rows // decode.ROWS) * decode.ROWS
    draft = Draft(problem, limits, shipped.shaders_dir())
    slices = sliced(draft, decode.slice_of(problem), rows)
    return draft.buffers[slices.partials].nbytes


def posed(shape: dict[str, Any], past_len: int) -> Problem:
    """A problem of one member with so long a past: the lengths alone, which is all that slices look at."""
    problem: Problem = work(scenario(**shape)).problem
    kv_len = past_len + problem.rows
    visible = np.array([[(0, past_len + row + 1) for row in range(problem.rows)]])
    return replace(problem, past_len=(past_len,), capacity=kv_len, visible=visible)


def test_more_packed_rows_than_software_has_loops_for_are_for_online_there() -> None:
    given = work(scenario(heads=32, kv_heads=1, head_dim=128, q_len=(16,)))
    reason = decode.lacks(given.problem, SOFTWARE)
    assert reason is not None
    assert reason.startswith("512 packed rows, whose slices of keys are above ")
    assert decode.lacks(given.problem, HARDWARE) is None


@pytest.mark.parametrize("q_len", [1, 2, 16])
def test_neither_lengths_nor_the_batch_nor_the_adapter_move_the_borders_of_slices(q_len: int) -> None:
    shape: dict[str, Any] = {"heads": 8, "kv_heads": 1, "head_dim": 128}
    spans = {
        split(plan(work(scenario(q_len=(q_len,) * len(past), past_len=past, **shape)), "decode", within=limits))[
            "slice"
        ]
        for past in [(0,), (500,), (3000,), (3, 900, 40)]
        for limits in (SOFTWARE, HARDWARE, LARGE)
    }
    assert len(spans) == 1


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_an_answer_does_not_depend_on_the_other_members_of_the_batch(dtype: str) -> None:
    if dtype == "float16" and not has_f16():
        pytest.skip("the adapter has no f16")
    given = work(scenario(dtype=dtype, q_len=(1, 1, 1), past_len=(20, 700, 300), data="large-logits"))
    together = compute(given, "decode")["output"]
    others = dict(given.inputs)
    for name in ("query", "key", "value", "past_key", "past_value"):
        others[name] = others[name].copy()
        others[name][[0, 2]] = others[name][[2, 0]]
    lengths = given.with_problem(visible=given.problem.visible[[2, 1, 0]], past_len=(300, 700, 20))
    changed = compute(replace(lengths, inputs=others), "decode")["output"]
    assert_same_bits(changed[1], together[1])


def test_a_window_dispatches_only_the_slices_that_some_row_sees() -> None:
    given = work(scenario(q_len=(2,), past_len=(30_000,), window=300, heads=2, kv_heads=1, head_dim=64))
    values = split(plan(given, "decode"))
    span = values["slice"]
    assert (values["first_slice"], values["slices"]) == (29_701 // span, 30_002 // span + 1 - 29_701 // span)
    assert not failing(differences(given, "decode"))


@pytest.mark.parametrize("kv_len", [255, 256, 257, 511, 512, 513, 1025])
@pytest.mark.parametrize("heads", [1, 4, 24])
def test_key_counts_around_blocks_and_slices(kv_len: int, heads: int) -> None:
    given = work(scenario(q_len=(2,), past_len=(kv_len - 2,), heads=heads, kv_heads=1, data="rising-scores"))
    assert not failing(differences(given, "decode"))


@pytest.mark.parametrize("limits", [HARDWARE, LARGE], ids=["hardware", "large"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_forms_for_a_gpu_compute_the_same(limits: Limits, dtype: str) -> None:
    """They compile and run here too, slowly."""
    if dtype == "float16" and not has_f16():
        pytest.skip("the adapter has no f16")
    given = work(scenario(dtype=dtype, heads=8, kv_heads=1, q_len=(3,), past_len=(600,), data="large-logits"))
    assert not failing(differences(given, "decode", within=limits))


@pytest.mark.parametrize("limits", [SOFTWARE, HARDWARE], ids=["software", "hardware"])
@pytest.mark.parametrize("head_dim", [8, 64, 128])
@pytest.mark.parametrize("window", [890, 491, 480, 3])
def test_a_window_may_begin_anywhere_in_a_slice(limits: Limits, head_dim: int, window: int) -> None:
    given = work(scenario(heads=2, kv_heads=1, q_len=(2,), past_len=(1000,), window=window, head_dim=head_dim))
    assert not failing(differences(given, "decode", within=limits))


@pytest.mark.parametrize("limits", [SOFTWARE, HARDWARE], ids=["software", "hardware"])
@pytest.mark.parametrize("head_dim", [8, 64, 72])
def test_what_stands_in_for_words_beyond_a_key_is_not_multiplied(limits: Limits, head_dim: int) -> None:
    """A key that scores -infinity by its last dim weighs nothing; no tolerance is derived from such numbers."""
    given = work(scenario(heads=2, kv_heads=1, q_len=(1,), past_len=(20,), head_dim=head_dim))
    keys = given.inputs["past_key"].copy()
    keys[..., 3, -1] = -np.inf
    inputs = {**given.inputs, "past_key": keys, "query": np.abs(given.inputs["query"])}
    wanted = next(each.values for each in answer(given.problem, inputs) if each.output == "output")
    found = compute(replace(given, inputs=inputs), "decode", within=limits)["output"]
    assert np.allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("limits", [SOFTWARE, HARDWARE, LARGE], ids=["software", "hardware", "large"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_every_form_keeps_to_the_limits_of_its_adapter(limits: Limits, dtype: str, head_dim: int) -> None:
    for heads in (1, 8):
        found = plan(work(scenario(dtype=dtype, head_dim=head_dim, heads=heads, kv_heads=1)), "decode", within=limits)
        (prelude,) = (dispatch.prelude for dispatch in found.dispatches if dispatch.shader == "decode")
        text = prelude + code(Path(found.sources["decode"][1]))
        assert invocations(text) <= limits.invocations
        assert workgroup_bytes(text) <= limits.workgroup_bytes
        if not (prelude.startswith("enable f16") and not has_f16()):
            runtime()._pipeline(prelude, found.sources["decode"][0], "decode.wgsl", 6)


@pytest.mark.parametrize(
    ("axes", "reason"),
    [
        ({"q_len": (17,)}, "more than 16 query rows"),
        ({"head_dim": 6}, "a head_dim in float32 that is no multiple of 4"),
        ({"head_dim": 12, "dtype": "float16"}, "a head_dim in float16 that is no multiple of 8"),
        ({"head_dim": 12}, None),
    ],
)
def test_what_it_leaves_to_online(axes: dict[str, Any], reason: str | None) -> None:
    assert decode.lacks(work(scenario(**axes)).problem, LARGE) == reason


def test_the_merge_and_the_split_agree_on_where_partial_results_lie() -> None:
    shared = {"slices", "first_slice", "slice", "kv_heads", "head_group", "rows", "v_head_dim"}
    for shader in ("decode", "decode_merge"):
        text, file = plan(work(scenario(q_len=(1,))), "decode").sources[shader]
        assert shared <= set(fields(text, file))


def test_rows_that_see_nothing_at_all_are_zeros() -> None:
    given: Work = work(scenario(q_len=(1,), past_len=(30,), head_dim=8))
    blind = given.with_problem(visible=np.zeros_like(given.problem.visible), empty_row="zero")
    assert not compute(blind, "decode")["output"].any()
