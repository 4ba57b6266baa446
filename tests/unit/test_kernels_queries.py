"""Queries on their way to a kernel: as given where it reads them so, else in float32 and alone in a buffer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attncheck import shipped
from attncheck.kernels import planner
from attncheck.kernels.draft import Limits
from attncheck.kernels.plan import Dispatch, Plan
from attncheck.kernels.roster import ROSTER
from tests.device import Work, compute, differences, failing, has_f16, plan, shader_of, work
from tests.drawing import scenario
from tests.dressing import ROLES, packed, packed_by_heads, scored

LIMITS = Limits(1 << 24, workgroups=65535, f16=True, workgroup_bytes=48 << 10, matrix=True)
AS_GIVEN = [kernel for kernel, member in ROSTER.items() if member.as_given]
BACKWARDS = ROLES[::-1]

as_given = pytest.mark.parametrize("kernel", AS_GIVEN)


def drawn(dtype: str = "float16", **axes: Any) -> Work:
    return work(scenario(**{"dtype": dtype, "q_len": (9, 9), "past_len": (40, 3), "head_dim": 32, **axes}))


def planned(given: Work, kernel: str, limits: Limits = LIMITS) -> Plan:
    return planner.plan(given.problem, kernel, limits, shipped.shaders_dir())


def attends(found: Plan, kernel: str) -> Dispatch:
    """Of any form of a kernel: that of few query rows is called after decoding."""
    shaders = {shader_of(kernel), f"{kernel}_decode"}
    (dispatch,) = (it for it in found.dispatches if it.shader in shaders)
    return dispatch


def staged(found: Plan) -> bool:
    return any(it.name.startswith("[query in") for it in found.buffers)


def test_the_kernels_for_prompts_read_queries_as_given() -> None:
    assert {"flash", "matrix"} <= set(AS_GIVEN)
    assert not {"naive", "online"} & set(AS_GIVEN)


@as_given
@pytest.mark.parametrize("dress", [lambda it: it, packed, packed_by_heads], ids=["apart", "packed", "by-heads"])
def test_queries_are_bound_where_the_graph_has_them(kernel: str, dress: Any) -> None:
    found = planned(dress(drawn()), kernel)
    assert attends(found, kernel).bindings[1] == "query"
    assert not staged(found)


@as_given
@pytest.mark.parametrize(
    ("axes", "source"),
    [({"qk_norm": "plain"}, "[normed query]"), ({"op": "ms-attention", "qkv_bias": True}, "[projected query]")],
)
def test_queries_that_were_computed_in_the_dtype_of_the_case_are_read_in_it(
    kernel: str, axes: dict[str, Any], source: str
) -> None:
    given = drawn(**{"past_len": (3, 3), **axes})
    found = planned(given, kernel)
    assert attends(found, kernel).bindings[1] == source
    (rows,) = (it for it in found.buffers if it.name == source)
    assert rows.nbytes == 2 * given.problem.batch * given.problem.heads * given.problem.rows * 32


@pytest.mark.parametrize(("rotary", "elem"), [(None, "f16"), ("half", "f32")])
def test_flash_is_told_the_dtype_of_queries(rotary: str | None, elem: str) -> None:
    """Turned ones stay in float32, which the kernel promises to compute in."""
    found = planned(drawn(rotary=rotary), "flash")
    assert f"alias query_elem = {elem};" in attends(found, "flash").prelude
    assert staged(found) == (rotary is not None)


@pytest.mark.parametrize("kernel", ["naive", "online"])
def test_the_other_kernels_read_float32(kernel: str) -> None:
    assert staged(planned(drawn(), kernel))
    assert staged(planned(packed(drawn("float32")), kernel))
    assert not staged(planned(drawn("float32"), kernel))


def test_a_score_output_is_computed_of_float32() -> None:
    found = planned(scored(drawn(), "raw"), "flash")
    (scores,) = (it for it in found.dispatches if it.shader == "naive_scores")
    assert attends(found, "flash").bindings[1] == "query"
    assert scores.bindings[1] == "[query in f32]"


@as_given
def test_packed_queries_of_more_than_a_binding_are_copied_together_in_their_own_dtype(kernel: str) -> None:
    given = packed(drawn(past_len=(0, 0)))
    most = 2 * given.inputs["query"].size - 1
    found = planned(given, kernel, replace(LIMITS, binding_bytes=most))
    assert attends(found, kernel).bindings[1] == "[query in f16]"
    (rows,) = (it for it in found.buffers if it.name == "[query in f16]")
    assert rows.nbytes == 2 * given.problem.batch * given.problem.heads * given.problem.rows * 32


def test_a_copy_in_their_own_dtype_leaves_room_for_one_in_float32() -> None:
    if not has_f16():
        pytest.skip("the adapter has no f16")
    given = scored(packed(drawn(past_len=(0, 0))), "weights")
    within = replace(LIMITS, software=True, binding_bytes=2 * given.inputs["query"].size - 1)
    whole = compute(given, "flash")
    for name, array in compute(given, "flash", within=within).items():
        np.testing.assert_array_equal(array, whole[name], err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("pack", [packed, packed_by_heads])
def test_flash_reads_packed_queries_wherever_they_begin(dtype: str, pack: Any) -> None:
    if dtype == "float16" and not has_f16():
        pytest.skip("the adapter has no f16")
    given = drawn(dtype)
    whole = compute(given, "flash")
    narrow = replace(LIMITS, software=True, binding_bytes=given.inputs["query"].nbytes)
    for order in (ROLES, BACKWARDS):
        behind = pack(given, order)
        for within, copied in ((None, False), (narrow, True)):
            assert staged(plan(behind, "flash", within=within)) == copied
            for name, array in compute(behind, "flash", within=within).items():
                np.testing.assert_array_equal(array, whole[name], err_msg=name)


@pytest.mark.parametrize("rotary", [None, "half"])
@pytest.mark.parametrize("qk_norm", [None, "plain"])
def test_flash_is_right_in_float16(rotary: str | None, qk_norm: str | None) -> None:
    if not has_f16():
        pytest.skip("the adapter has no f16")
    assert not failing(differences(drawn(rotary=rotary, qk_norm=qk_norm, data="large-logits"), "flash"))
