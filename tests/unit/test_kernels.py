"""The kernels against the oracle, on whatever WebGPU device there is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncheck.kernels import naive, online
from attncheck.kernels.draft import Limits
from attncheck.scenario.model import Scenario
from tests.device import (
    Work,
    assert_same_bits,
    compute,
    differences,
    every_kernel,
    failing,
    has_f16,
    hello,
    kernels_together,
    work,
)
from tests.drawing import KINDS, scenario, scenarios

HEAD_DIMS = (4, 5, 8, 12, 16, 40, 64, 80, 96, 128, 256)


def assert_right(given: Work, kernel: str, **how: Any) -> None:
    assert not failing(differences(given, kernel, **how))


@kernels_together
@settings(max_examples=60)
@given(drawn=scenarios())
def test_all_kernels_agree_with_the_oracle(kernels: tuple[str, ...], drawn: Scenario) -> None:
    for kernel in kernels:
        assert_right(work(drawn), kernel)


@kernels_together
@settings(max_examples=40)
@given(drawn=scenarios(dtypes=("float16",)))
def test_all_kernels_agree_with_the_oracle_in_float16(kernels: tuple[str, ...], drawn: Scenario) -> None:
    if not has_f16():
        pytest.skip("the adapter has no f16")
    for kernel in kernels:
        assert_right(work(drawn), kernel)


@every_kernel
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_head_dims_that_are_no_power_of_two_too(kernel: str, head_dim: int) -> None:
    assert_right(work(scenario(head_dim=head_dim, q_len=(9,), past_len=(40,))), kernel)


@every_kernel
@pytest.mark.parametrize("data", KINDS)
@pytest.mark.parametrize("scale", [None, 1.0])
def test_hostile_data(kernel: str, data: str, scale: float | None) -> None:
    assert_right(work(scenario(data=data, scale=scale, q_len=(5,), past_len=(200,))), kernel)


@every_kernel
@pytest.mark.parametrize("data", ["rising-scores", "huge-logit", "large-logits"])
def test_hostile_data_with_falling_scores(kernel: str, data: str) -> None:
    """Keys in reverse order: the maximum comes first, and every later block must keep it."""
    given = work(scenario(data=data, scale=1.0, q_len=(1,), past_len=(200,)))
    inputs = dict(given.inputs)
    for name in ("past_key", "past_value"):
        inputs[name] = np.ascontiguousarray(inputs[name][:, :, ::-1])
    assert_right(replace(given, inputs=inputs), kernel)


@every_kernel
@pytest.mark.parametrize("softcap", [0.5, 50.0])
@pytest.mark.parametrize("data", ["normal", "large-logits", "one-hot"])
def test_softcap_from_its_linear_part_to_saturation(kernel: str, softcap: float, data: str) -> None:
    assert_right(work(scenario(data=data, scale=1.0, softcap=softcap, q_len=(4,), past_len=(30,))), kernel)


@every_kernel
@pytest.mark.parametrize("kv_len", [1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257])
def test_key_counts_around_every_tile(kernel: str, kv_len: int) -> None:
    assert_right(work(scenario(q_len=(1,), past_len=(kv_len - 1,), head_dim=8)), kernel)


@every_kernel
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 1), (6, 2), (4, 4), (12, 3)])
@pytest.mark.parametrize("rows", [1, 3, 8, 17])
def test_packed_rows_of_every_grouping(kernel: str, heads: int, kv_heads: int, rows: int) -> None:
    assert_right(work(scenario(heads=heads, kv_heads=kv_heads, q_len=(rows,), head_dim=8)), kernel)


@st.composite
def intervals(draw: st.DrawFn) -> Work:
    """Any visible intervals at all, empty ones among them."""
    rows, keys = draw(st.integers(1, 12)), draw(st.integers(12, 90))
    given = work(scenario(q_len=(rows, rows), past_len=(keys - rows,) * 2, heads=2, kv_heads=1, head_dim=8))
    slot = st.integers(0, keys)
    visible = [[sorted((draw(slot), draw(slot))) for _ in range(rows)] for _ in range(2)]
    return given.with_problem(visible=np.array(visible, np.int32), empty_row=draw(st.sampled_from(("zero", "mean"))))


@kernels_together
@settings(max_examples=40)
@given(drawn=intervals())
def test_any_visible_intervals(kernels: tuple[str, ...], drawn: Work) -> None:
    for kernel in kernels:
        assert_right(drawn, kernel)


@every_kernel
@pytest.mark.parametrize("row", [0, 3, 8, 16])
def test_a_row_without_a_visible_key_is_zero_or_the_mean_of_the_values(kernel: str, row: int) -> None:
    given = work(scenario(q_len=(17,), past_len=(5,), heads=1, kv_heads=1, head_dim=8))
    visible = given.problem.visible.copy()
    visible[0, row] = (9, 9)
    values = np.concatenate([given.inputs["past_value"][0, 0], given.inputs["value"][0]]).astype(np.float64)

    zero = compute(given.with_problem(visible=visible, empty_row="zero"), kernel)["output"]
    assert not zero[0, row].any()
    mean = compute(given.with_problem(visible=visible, empty_row="mean"), kernel)["output"]
    np.testing.assert_allclose(mean[0, row].astype(np.float64), values.mean(axis=0), atol=1e-6)


@every_kernel
def test_values_of_another_head_dim_than_the_keys(kernel: str) -> None:
    given = work(scenario(op="mha", heads=3, kv_heads=3, head_dim=8, q_len=(11,)))
    wide = np.random.default_rng(7).standard_normal((1, 11, 3 * 20)).astype(np.float32)
    shapes = {"output": (1, 11, 60), "present_value": (1, 3, 11, 20)}
    outputs = tuple(spec | {"shape": shapes.get(spec["name"], spec["shape"])} for spec in given.outputs)
    changed = replace(given, inputs=dict(given.inputs) | {"value": wide}, outputs=outputs)
    assert_right(changed.with_problem(v_head_dim=20), kernel)


@every_kernel
def test_an_answer_does_not_depend_on_whether_present_is_asked_for(kernel: str) -> None:
    given = work(scenario(q_len=(6,), past_len=(20,), rotary="half"))
    alone = replace(given, outputs=given.outputs[:1]).with_problem(present_key=None, present_value=None)
    asked, unasked = compute(given, kernel)["output"], compute(alone, kernel)["output"]
    assert_same_bits(asked, unasked)


@every_kernel
def test_two_runs_are_bitwise_equal(kernel: str) -> None:
    given = work(scenario(q_len=(33,), past_len=(70,), head_dim=40, data="large-logits"))
    first, second = compute(given, kernel), compute(given, kernel)
    for name, array in first.items():
        assert_same_bits(array, second[name], name)


def test_naive_in_small_blocks_gives_the_bits_of_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    given = work(scenario(q_len=(13, 13), past_len=(50, 3), head_dim=8, data="rising-scores"))
    whole = compute(given, "naive")["output"]
    for rows in (1, 3, 10):
        monkeypatch.setattr(naive, "SCORES_BYTES", 4 * 63 * rows)
        assert_same_bits(compute(given, "naive")["output"], whole)


@every_kernel
@pytest.mark.parametrize("workgroups", [4, 5, 7])
def test_dispatches_beyond_the_limit_of_a_dimension_are_folded(kernel: str, workgroups: int) -> None:
    """A limit this low that even z is used; the device itself takes any grid."""
    given = work(scenario(q_len=(21,), heads=2, kv_heads=2, head_dim=4, rotary="half"))
    assert_right(given, kernel, within=Limits(binding_bytes=1 << 20, workgroups=workgroups, f16=True))


@pytest.mark.slow
@every_kernel
def test_more_than_65535_query_rows(kernel: str) -> None:
    batch = 16_400
    assert_right(work(scenario(q_len=(1,) * batch, past_len=(1,) * batch, heads=4, kv_heads=4, head_dim=4)), kernel)


@every_kernel
@pytest.mark.parametrize("data", ["normal", "rising-scores"])
def test_more_than_65535_keys(kernel: str, data: str) -> None:
    """Software Vulkan silently ends an invocation's loops after 65,535 rounds."""
    assert_right(work(scenario(q_len=(1,), past_len=(70_000,), heads=1, kv_heads=1, head_dim=4, data=data)), kernel)


@pytest.mark.slow
@every_kernel
@pytest.mark.parametrize("head_dim", [4, 128, 256])
def test_more_than_65535_rounds_of_all_loops_together(kernel: str, head_dim: int) -> None:
    """Software Vulkan counts nested loops together: a wide head reaches its limit at some thousand keys."""
    drawn = scenario(q_len=(8,), past_len=(7_000,), heads=1, kv_heads=1, head_dim=head_dim, data="rising-scores")
    assert_right(work(drawn), kernel)


def test_one_section_for_all_keys_would_be_cut_short_by_software_vulkan(monkeypatch: pytest.MonkeyPatch) -> None:
    """What sections are for: where this passes no more, they can go."""
    if "llvmpipe" not in hello().device["adapter"]:
        pytest.skip("only llvmpipe ends loops")
    monkeypatch.setattr(online, "LOOP_ROUNDS", 1 << 30)
    given = work(scenario(q_len=(8,), past_len=(7_000,), heads=1, kv_heads=1, head_dim=128))
    assert failing(differences(given, "online"))


@every_kernel
def test_a_window_far_from_the_first_key(kernel: str) -> None:
    """Whole sections of keys are seen by no row."""
    assert_right(work(scenario(q_len=(9,), past_len=(20_000,), window=70, heads=2, kv_heads=1, head_dim=32)), kernel)
