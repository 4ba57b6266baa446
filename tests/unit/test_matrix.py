"""The matrix kernel where there are no matrix units: what it leaves, its plan, what rounded weights may do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attncheck import shipped
from attncheck.backends.wgsl import limits
from attncheck.compare import judge
from attncheck.graph import read, write
from attncheck.kernels import matrix, planner
from attncheck.kernels.plan import Plan
from attncheck.kernels.policy import Choice, Policy
from attncheck.oracle.ask import answer
from attncheck.problem import Problem
from attncheck.tensors.dtypes import dtype, widen
from tests.device import hello, worker_module
from tests.drawing import scenario
from tests.few_rows import UNITS
from tests.unit.test_kernels_plan import uniform_values


def posed(**axes: Any) -> Problem:
    given = {"dtype": "float16", "head_dim": 64, **axes}
    case = write.build(scenario(**given))
    return read.problem(case.model, case.inputs)


@pytest.mark.parametrize(
    ("axes", "allowed", "said"),
    [
        ({}, {"matrix": False}, "an adapter without matrix units"),
        ({}, {"f16": False}, "an adapter without matrix units"),
        ({}, {"workgroup_bytes": 16384}, "less than 49152 bytes of workgroup memory"),
        ({}, {"invocations": 128}, "or 256 invocations"),
        ({"dtype": "float32"}, {}, "dtype float32: the matrix units multiply float16"),
        ({"head_dim": 80}, {}, "head_dim 80: it has 32, 64, 128"),
        ({"rotary": "half"}, {}, "queries turned in float32"),
        ({"rotary": "half", "qk_norm": "plain"}, {}, "queries turned in float32"),
    ],
)
def test_what_the_matrix_kernel_lacks_is_left_to_online_and_said(
    axes: dict[str, Any], allowed: dict[str, Any], said: str
) -> None:
    choice = Policy("matrix").choose(posed(**axes), replace(UNITS, **allowed))
    assert choice.kernels == ("online",)
    assert choice.instead.startswith("matrix does not cover ")
    assert said in choice.instead


def test_what_it_has_it_takes() -> None:
    assert Policy("matrix").choose(posed(), UNITS) == Choice(("matrix",))
    assert Policy("matrix").choose(posed(softcap=2.0, window=3, smooth=True), UNITS) == Choice(("matrix",))


@pytest.mark.parametrize("axes", [{"qk_norm": "plain"}, {"op": "ms-attention", "qkv_bias": True, "past_len": (3,)}])
def test_it_takes_queries_that_every_kernel_is_given_in_float16(axes: dict[str, Any]) -> None:
    """Normalised or projected ones were rounded to it before: the matrix units round them no second time."""
    assert Policy("matrix").choose(posed(**axes), UNITS) == Choice(("matrix",))


def test_no_adapter_here_has_matrix_units() -> None:
    assert not limits(hello()).matrix


def planned(problem: Problem) -> Plan:
    return planner.plan(problem, "matrix", UNITS, shipped.shaders_dir())


@pytest.mark.parametrize(("rows", "shader"), [(130, "matrix"), (1, "matrix_decode")])
def test_directives_stand_before_all_else_and_dims_are_constants(rows: int, shader: str) -> None:
    plan = planned(posed(q_len=(rows,), past_len=(70,)))
    (dispatch,) = (each for each in plan.dispatches if each.shader == shader)
    lines = dispatch.prelude.splitlines()
    assert tuple(lines[: len(matrix.DIRECTIVES)]) == matrix.DIRECTIVES
    assert lines[len(matrix.DIRECTIVES) :] == ["const HEAD_DIM = 64u;", "const V_DIM = 64u;"]


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_query_heads_of_a_kv_head_share_tiles(heads: int) -> None:
    plan = planned(posed(q_len=(48,), heads=heads, kv_heads=1))
    (dispatch,) = (each for each in plan.dispatches if each.shader == "matrix")
    assert dispatch.grid == (-(-heads * 48 // matrix.ROWS), 1, 1)


@pytest.mark.parametrize("heads", [1, 8, 16, 17])
def test_few_rows_are_tiles_of_sixteen_by_slices(heads: int) -> None:
    plan = planned(posed(q_len=(1,), past_len=(1500,), heads=heads, kv_heads=1, head_dim=128))
    (dispatch,) = (each for each in plan.dispatches if each.shader == "matrix_decode")
    tiles, slices = -(-heads // matrix.FEW_ROWS), {1: 3, 8: 3, 16: 2, 17: 2}[heads]
    assert dispatch.grid == (tiles * slices, 1, 1)


@pytest.mark.parametrize(("rows", "shaders"), [(16, {"matrix_decode", "decode_merge"}), (17, {"matrix"})])
def test_the_rows_of_a_batch_entry_choose_the_form(rows: int, shaders: set[str]) -> None:
    plan = planned(posed(q_len=(rows,), past_len=(70,)))
    assert {each.shader for each in plan.dispatches} & {"matrix", "matrix_decode", "decode_merge"} == shaders


@pytest.mark.parametrize("group", [1, 4, 8, 16])
@pytest.mark.parametrize("rows", [1, 5, 16])
@pytest.mark.parametrize("head_dim", matrix.DIMS)
def test_partial_results_take_under_3_percent_of_the_keys_and_values(group: int, rows: int, head_dim: int) -> None:
    """Of whole slices, 40 of them: a cache of less than one slice has one nevertheless."""
    shape: dict[str, Any] = {"heads": group, "kv_heads": 1, "head_dim": head_dim, "q_len": (rows,)}
    keys = 40 * matrix.slice_of(posed(**shape))
    (partials,) = (it for it in planned(posed(past_len=(keys - rows,), **shape)).buffers if it.name == "[partials]")
    assert partials.nbytes < 0.03 * 2 * keys * head_dim * 2
    assert partials.nbytes == group * rows * 40 * (head_dim + 2) * 4, "no row is there that is not asked for"


def test_neither_lengths_nor_the_batch_move_the_borders_of_slices() -> None:
    spans = set()
    for past in [(0,), (500,), (3000,), (3, 900, 40)]:
        plan = planned(posed(q_len=(2,) * len(past), past_len=past, heads=8, kv_heads=1))
        (at,) = (at for at, each in enumerate(plan.dispatches) if each.shader == "matrix_decode")
        spans.add(uniform_values(plan, at)["slice"])
    (span,) = spans
    assert span % matrix.KEYS == 0, "or a step would go over the border"


@pytest.mark.parametrize(
    ("rows", "heads", "keys", "taken"),
    [
        *((1, 5, 511, False), (1, 5, 512, True), (1, 4, 4000, False)),
        *((3, 2, 600, True), (16, 1, 900, True), (17, 1, 900, False)),
    ],
)
def test_few_rows_take_matrix_units_unasked_where_decode_has_more_than_four(
    rows: int, heads: int, keys: int, taken: bool
) -> None:
    problem = posed(q_len=(rows,), past_len=(keys - rows,), heads=heads, kv_heads=1)
    assert (Policy().choose(problem, UNITS).kernels[0] == "matrix") == taken
    assert Policy().choose(problem, replace(UNITS, matrix=False)).kernels[0] != "matrix"
    assert Policy().choose(posed(q_len=(rows,), past_len=(keys - rows,), dtype="float32"), UNITS).kernels[0] != "matrix"


def test_keys_of_more_than_a_binding_are_for_few_rows_alone() -> None:
    narrow = replace(UNITS, binding_bytes=1 << 16, buffer_bytes=1 << 30)
    few, many = (posed(q_len=(rows,), past_len=(1000,)) for rows in (1, 40))
    assert matrix.lacks(few, narrow) is None
    assert matrix.lacks(many, narrow) == "keys or values of 266240 bytes, more than one binding"


def test_matrix_units_are_not_usable_where_they_are_not_offered() -> None:
    units = worker_module("matrix_units")
    assert units.tested({"shader-f16", "subgroups"}, None)["usable"] is False


def test_matrix_units_are_not_usable_where_their_test_fails() -> None:
    """The test runs in a process of its own, here without an adapter of that name: it must end, and not usably."""
    units = worker_module("matrix_units")
    found = units.tested({units.FEATURE, "shader-f16", "subgroups"}, "an adapter that is nowhere")
    assert found["usable"] is False
    assert "the test of its matrix units failed (exit code 1)" in found["why"]
    assert "an adapter that is nowhere" in found["why"] or "Dawn takes none of the adapters" in found["why"]


def test_the_products_expected_of_matrix_units_are_those_of_numpy() -> None:
    units = worker_module("matrix_units")
    left, right = np.eye(16, dtype=np.float32), np.arange(256, dtype=np.float32).reshape(16, 16)
    once, turned, again = units._expected(left, right)
    assert np.array_equal(once, 2 * right)
    assert np.array_equal(again, once)
    assert np.array_equal(turned, right.T)


def rounded_weights(bits: int, **axes: Any) -> tuple[float, float]:
    """The margins, for `mixed` and for `f32`, of attention whose weights keep so many bits; the rest is float64."""
    case = write.build(scenario(dtype="float16", head_dim=64, causal=False, **axes))
    problem = read.problem(case.model, case.inputs)
    (output, *_) = answer(problem, case.inputs)
    batch, heads, rows, dim = problem.batch, problem.heads, problem.rows, problem.head_dim
    q, k, v = (widen(case.inputs[name], "float16") for name in ("query", "key", "value"))
    q, k, v = (a.reshape(batch, rows, heads, dim).transpose(0, 2, 1, 3) for a in (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2) * problem.scale
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mantissa, exponent = np.frexp(weights)
    weights = np.ldexp(np.round(mantissa * 2.0**bits) / 2.0**bits, exponent)
    got = (weights / weights.sum(axis=-1, keepdims=True)) @ v
    got = got.transpose(0, 2, 1, 3).reshape(output.values.shape)
    stored = np.abs(got.astype(np.float16).astype(np.float64) - output.values)
    mixed, exact = (judge.tolerances(output, dtype("float16"), compute, None) for compute in ("mixed", "f32"))
    return float(np.max(stored / mixed)), float(np.max(stored / exact))


@pytest.mark.parametrize("data", ["normal", "uniform", "large-logits", "one-hot", "ties"])
def test_weights_of_eleven_bits_pass_as_mixed(data: str) -> None:
    mixed, _ = rounded_weights(11, q_len=(64,), past_len=(0,), heads=2, kv_heads=2, data=data)
    assert mixed <= 1.0


def test_weights_of_eleven_bits_would_not_pass_as_f32() -> None:
    """So that `mixed` is not there for nothing."""
    assert rounded_weights(11, q_len=(256,), past_len=(0,), heads=2, kv_heads=2)[1] > 1.0


def test_weights_of_seven_bits_do_not_pass_as_mixed() -> None:
    assert rounded_weights(7, q_len=(256,), past_len=(0,), heads=2, kv_heads=2)[0] > 1.0
