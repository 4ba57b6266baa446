"""The kernels against the oracle on masks, sinks, packed roles, score outputs and keys of another length."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attncheck.kernels import naive, online
from attncheck.kernels.draft import Limits
from attncheck.problem import ScoreStage
from tests.device import Work, compute, differences, every_kernel, failing, has_f16, kernels_together, work
from tests.drawing import scenario, scenarios
from tests.dressing import ROLES, STAGES, dressings, masked, packed, packed_by_heads, scored, sunk

both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float16"])
every_stage = pytest.mark.parametrize("stage", STAGES)

BATCH, ROWS, KEYS, HEADS = 2, 10, 47, 4
LOWEST = {"float32": float(np.finfo(np.float32).min), "float16": -65504.0}


def small(dtype: str = "float32", **axes: Any) -> Work:
    """Two entries of 10 queries; the longer one has 47 keys, a number that no tile and no word divides."""
    if dtype == "float16" and not has_f16():
        pytest.skip("the adapter has no f16")
    return work(scenario(dtype=dtype, **({"q_len": (ROWS,) * 2, "past_len": (37, 20), "head_dim": 8} | axes)))


def noise(*shape: int, seed: int = 3) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal(shape)


def holes(*shape: int, seed: int = 4) -> NDArray[np.bool_]:
    return np.random.default_rng(seed).random(shape) > 0.4


def assert_right(given: Work, kernel: str, **how: Any) -> None:
    assert not failing(differences(given, kernel, **how))


@st.composite
def dressed(draw: st.DrawFn, dtype: str) -> Work:
    return draw(dressings(work(draw(scenarios(dtypes=(dtype,))))))


@kernels_together
@settings(max_examples=80)
@given(drawn=dressed("float32"))
def test_all_kernels_agree_with_the_oracle_on_every_feature(kernels: tuple[str, ...], drawn: Work) -> None:
    for kernel in kernels:
        assert_right(drawn, kernel)


@pytest.mark.slow
@kernels_together
@settings(max_examples=60)
@given(drawn=dressed("float16"))
def test_all_kernels_agree_with_the_oracle_on_every_feature_in_float16(kernels: tuple[str, ...], drawn: Work) -> None:
    if not has_f16():
        pytest.skip("the adapter has no f16")
    for kernel in kernels:
        assert_right(drawn, kernel)


@every_kernel
@both_dtypes
@pytest.mark.parametrize("kind", ["boolean", "additive"])
def test_every_rank_and_broadcast_of_a_mask(kernel: str, dtype: str, kind: str) -> None:
    given = small(dtype)
    draw = holes if kind == "boolean" else noise
    whole = (BATCH, HEADS, ROWS, KEYS)
    for rank in (1, 2, 3, 4):
        for kept in product((False, True), repeat=rank):
            shape = [size if keep else 1 for size, keep in zip(whole[4 - rank :], kept, strict=True)]
            assert_right(masked(given, draw(*shape)), kernel)


@every_kernel
@pytest.mark.parametrize("shapes", [((1, 47), (4, 10, 47)), ((2, 1, 1, 47), (4, 1, 1)), ((47,), (2, 4, 10, 1))])
def test_two_masks_of_different_shapes_and_kinds_are_composed(kernel: str, shapes: tuple[Any, Any]) -> None:
    boolean, additive = holes(*shapes[0]), 2.0 * noise(*shapes[1])
    assert_right(masked(masked(small(), boolean), additive), kernel)
    assert_right(masked(masked(small(), additive), boolean), kernel)
    assert_right(masked(masked(small(), additive), np.where(holes(*shapes[0], seed=9), 0.5, -np.inf)), kernel)


@every_kernel
@pytest.mark.parametrize("slots", [1, 31, 32, 33, 46])
@pytest.mark.parametrize("whole", [False, True])
def test_keys_behind_the_end_of_a_mask_are_hidden(kernel: str, slots: int, whole: bool) -> None:
    given = masked(small(), noise(2, 1, 1, 1) if whole else noise(2, 1, 10, slots), slots)
    assert_right(given, kernel)
    changed = dict(given.inputs)
    for name in ("past_key", "past_value"):
        changed[name] = changed[name].copy()
        changed[name][:, :, slots:] = np.nan
    np.testing.assert_array_equal(
        compute(given, kernel)["output"][0], compute(replace(given, inputs=changed), kernel)["output"][0]
    )


@every_kernel
@both_dtypes
@pytest.mark.parametrize("rows", [[0], [3, 4], [7, 8], [9], list(range(10))], ids=str)
@pytest.mark.parametrize("kind", ["boolean", "additive"])
def test_rows_that_a_mask_empties_give_zeros(kernel: str, dtype: str, rows: list[int], kind: str) -> None:
    """At the start, in the middle, at the edges and at the end of a tile of 8 query rows."""
    shows = holes(ROWS, KEYS)
    shows[rows] = False
    mask: Any = shows if kind == "boolean" else np.where(shows, 0.25, -np.inf)
    given = masked(small(dtype), mask)
    assert_right(given, kernel)
    assert not compute(given, kernel)["output"][:, rows].any()
    assert not compute(sunk(given, noise(HEADS)), kernel)["output"][:, rows].any()


@every_kernel
@pytest.mark.parametrize("hidden", [slice(0, 32), slice(32, 47), slice(31, 33), slice(1, 47)], ids=str)
def test_whole_tiles_of_keys_are_masked(kernel: str, hidden: slice) -> None:
    """The running maximum starts late, or stops early."""
    for kind in ("rising-scores", "huge-logit", "normal"):
        mask = noise(ROWS, KEYS)
        mask[:, hidden] = -np.inf
        assert_right(masked(small(data=kind), mask), kernel)


@every_kernel
@pytest.mark.parametrize("sinks", [None, "sink", "smooth"])
def test_rows_that_a_mask_empties_give_the_mean_where_the_operator_says_so(kernel: str, sinks: str | None) -> None:
    shows = holes(HEADS, ROWS, KEYS)
    shows[1, 4:] = False
    given = masked(small(), shows).with_problem(empty_row="mean")
    if sinks:
        given = sunk(given, noise(HEADS) if sinks == "sink" else None, smooth=sinks == "smooth")
    assert_right(given, kernel)


@every_kernel
@both_dtypes
@pytest.mark.parametrize("everywhere", [False, True])
def test_the_lowest_number_in_a_bias_is_a_number(kernel: str, dtype: str, everywhere: bool) -> None:
    """Exporters write it for -inf. Rows that have nothing else are flat, or in float16 nearly so."""
    hidden = np.ones((ROWS, KEYS), np.bool_) if everywhere else holes(ROWS, KEYS)
    given = masked(small(dtype), np.where(hidden, LOWEST[dtype], 0.0))
    assert_right(given, kernel)
    assert np.isfinite(compute(given, kernel)["output"].astype(np.float64)).all()


@every_kernel
@pytest.mark.parametrize("large", [-1.0e38, -10000.0, 10000.0, 3.0e38])
def test_large_biases_do_not_overflow(kernel: str, large: float) -> None:
    given = masked(masked(small(), np.where(holes(ROWS, KEYS), large, 1.0)), np.where(holes(KEYS), large, 0.0))
    outputs = compute(given, kernel)["output"]
    assert np.isfinite(outputs).all()
    if abs(large) < 1e37:
        assert_right(given, kernel)


@every_kernel
@both_dtypes
@pytest.mark.parametrize("sink", [-80.0, -3.0, 0.0, 3.0, 30.0, 90.0, 2000.0])
def test_sinks_from_nothing_to_everything(kernel: str, dtype: str, sink: float) -> None:
    given = small(dtype)
    assert_right(sunk(given, np.full(HEADS, sink)), kernel)
    assert_right(sunk(given, sink * np.arange(HEADS, dtype=np.float64), smooth=True), kernel)
    assert_right(sunk(small(dtype, data="huge-logit"), np.full(HEADS, sink)), kernel)


@every_kernel
def test_a_sink_of_minus_infinity_is_none(kernel: str) -> None:
    given = small()
    without, with_none = (compute(each, kernel)["output"] for each in (given, sunk(given, np.full(HEADS, -np.inf))))
    np.testing.assert_array_equal(without, with_none)


@every_kernel
def test_features_cross_the_sections_of_the_online_kernel(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that a mask hides for a whole section, a sink at the end, and the mean of a row that saw none."""
    monkeypatch.setattr(online, "LOOP_ROUNDS", 400)
    mask = holes(ROWS, KEYS)
    mask[:, :33] = False
    mask[2] = False
    given = masked(small(data="rising-scores"), mask)
    assert_right(sunk(given, noise(HEADS)), kernel)
    assert_right(given.with_problem(empty_row="mean"), kernel)


@every_kernel
@both_dtypes
@pytest.mark.parametrize("rotary", [None, "half", "interleaved"])
@pytest.mark.parametrize("pack", [packed, packed_by_heads])
@pytest.mark.parametrize("order", [ROLES, ROLES[::-1]], ids=["queries-first", "queries-last"])
def test_packed_roles_are_read_where_they_stand(
    kernel: str, dtype: str, rotary: str | None, pack: Any, order: tuple[str, ...]
) -> None:
    given = small(dtype, rotary=rotary)
    for name, array in compute(given, kernel).items():
        np.testing.assert_array_equal(compute(pack(given, order), kernel)[name], array)


@every_kernel
@both_dtypes
@every_stage
@pytest.mark.parametrize("slots", [1, 46, 47, 50])
def test_scores_are_given_out_at_every_stage(kernel: str, dtype: str, stage: ScoreStage, slots: int) -> None:
    given = masked(small(dtype, softcap=3.0), np.where(holes(ROWS, KEYS), noise(ROWS, KEYS), -np.inf))
    assert_right(scored(sunk(given, noise(HEADS)), stage, slots), kernel)
    assert_right(scored(small(dtype, op="mha", causal=False), stage, slots), kernel)


@every_stage
@both_dtypes
def test_scores_in_small_blocks_have_the_bits_of_one_block(
    stage: ScoreStage, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block of one row of 47 scores ends in the middle of a word of float16."""
    given = scored(masked(small(dtype), holes(ROWS, KEYS)), stage)
    whole = compute(given, "naive")["scores"]
    monkeypatch.setattr(naive, "SCORES_BYTES", 4 * KEYS * 3)
    np.testing.assert_array_equal(compute(given, "naive")["scores"], whole)


@every_kernel
@both_dtypes
def test_hidden_scores_are_minus_infinity_and_so_is_the_lowest_number(kernel: str, dtype: str) -> None:
    bias = np.zeros(KEYS)
    bias[5], bias[6], bias[7] = -np.inf, -50000.0, LOWEST[dtype]
    found = compute(scored(masked(small(dtype), bias), "biased"), kernel)["scores"].astype(np.float64)
    row = found[0, :, 0]  # sees the past's 37 keys and its own
    assert np.isneginf(row[:, 5]).all()
    assert np.isneginf(row[:, 38:]).all()
    assert np.isfinite(np.delete(row[:, :38], [5, 7], axis=-1)).all()
    assert (row[:, 7] <= -60000.0).all()


@every_kernel
@pytest.mark.parametrize("keys", [1, 9, 40])
def test_cross_attention_has_keys_of_a_length_of_their_own(kernel: str, keys: int) -> None:
    given = small(op="mha", q_len=(ROWS,) * 2, past_len=(0, 0), causal=False)
    problem = given.problem
    width = problem.kv_heads * problem.head_dim
    inputs = {
        "query": given.inputs["query"],
        "key": noise(2, keys, width).astype(np.float32),
        "value": noise(2, keys, width, seed=8).astype(np.float32),
    }
    lengths = (keys, max(1, keys - 3))
    visible = np.array([[[0, length]] * ROWS for length in lengths], np.int32)
    cross = replace(given, inputs=inputs, outputs=given.outputs[:1]).with_problem(
        new_rows=keys, new_len=lengths, past_len=(0, 0), capacity=keys, past_capacity=0, visible=visible,
        present_key=None, present_value=None, past_key=None, past_value=None,
    )  # fmt: skip
    assert_right(cross, kernel)
    assert_right(scored(masked(cross, holes(ROWS, keys)), "weights"), kernel)


@every_kernel
@pytest.mark.parametrize("workgroups", [4, 7])
def test_dispatches_of_masks_and_scores_are_folded_too(kernel: str, workgroups: int) -> None:
    given = scored(sunk(masked(small(), noise(HEADS, ROWS, KEYS)), noise(HEADS)), "raw")
    assert_right(given, kernel, within=Limits(binding_bytes=1 << 20, workgroups=workgroups, f16=True))


@every_kernel
def test_adding_one_number_to_all_scores_of_a_row_changes_nothing(kernel: str) -> None:
    given = small()
    shifted = masked(given, np.broadcast_to(noise(2, HEADS, ROWS, 1), (2, HEADS, ROWS, KEYS)).copy())
    bare, moved = (compute(each, kernel)["output"].astype(np.float64) for each in (given, shifted))
    np.testing.assert_allclose(moved, bare, rtol=0, atol=2e-6)
