"""Keys and values of more than one binding: bound in parts, with the bits of the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attncheck.kernels import planner
from attncheck.kernels.draft import Limits, View
from attncheck.kernels.parts import ALIGNMENT, parts
from attncheck.kernels.plan import Plan
from attncheck.kernels.policy import Choice, Policy
from tests.device import Work, compute, has_f16, plan, shader_of, work
from tests.drawing import scenario
from tests.dressing import STAGES, masked, packed, packed_by_heads, scored, sunk

WHOLE = Limits(1 << 24, workgroups=65535, f16=True, workgroup_bytes=32 << 10, buffer_bytes=1 << 24)
KERNELS = ("online", "flash", "flash-large", "decode")


def large(dtype: str = "float32", **axes: Any) -> Work:
    """Three entries of two KV heads, each of 49 slots: no whole number of 256 bytes."""
    if dtype == "float16" and not has_f16():
        pytest.skip("the adapter has no f16")
    given = {"q_len": (9, 4, 9), "past_len": (40, 3, 0), "heads": 4, "kv_heads": 2, "head_dim": 24}
    return work(scenario(dtype=dtype, **(given | axes)))


def one_head(given: Work) -> int:
    """Bytes of a head of keys or values, whichever are more."""
    problem = given.problem
    return int(problem.capacity * max(problem.head_dim, problem.v_head_dim) * (2 if problem.dtype == "float16" else 4))


def narrow(given: Work, heads: int) -> Limits:
    """So much in a binding as so many heads take, wherever they begin."""
    return replace(WHOLE, binding_bytes=heads * one_head(given) + ALIGNMENT)


def divided(found: Plan, kernel: str) -> int:
    """Dispatches of a kernel's shader that bind parts."""
    return sum(it.shader == shader_of(kernel) and any(it.ranges) for it in found.dispatches)


def assert_same(given: Work, kernel: str, limits: Limits) -> None:
    whole = compute(given, kernel, within=WHOLE)
    for name, array in compute(given, kernel, within=limits).items():
        np.testing.assert_array_equal(array, whole[name], err_msg=name)


def decoding() -> Work:
    """A token an entry, beside which keys and values alone are large."""
    return large(q_len=(1, 1, 1), past_len=(48, 3, 9))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_parts_have_the_bits_of_the_whole(kernel: str, dtype: str, heads: int) -> None:
    given = large(dtype, rotary="interleaved", softcap=3.0)
    limits = narrow(given, heads)
    found = plan(given, kernel, within=limits)
    assert divided(found, kernel) == -(-6 // heads)
    assert divided(found, "append") >= 2 * -(-6 // heads)  # of the past, and of what is new
    assert_same(given, kernel, limits)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(lambda: packed(large()), id="packed"),
        pytest.param(lambda: packed_by_heads(large(op="mha", kv_heads=4, past_len=(0, 0, 0))), id="by-heads"),
        pytest.param(lambda: large(window=5), id="window"),
        pytest.param(lambda: sunk(masked(large(), np.linspace(-1, 1, 49)), np.ones(4)), id="sink"),
        pytest.param(lambda: large(past_len=(70_000, 3, 9), head_dim=4, q_len=(1, 1, 1)), id="sections"),
    ],
)
def test_parts_of_every_layout_and_feature_have_them_too(given: Any) -> None:
    made = given()
    limits = replace(WHOLE, binding_bytes=2 * max(one_head(made), _entry(made)) + ALIGNMENT)
    assert divided(plan(made, "online", within=limits), "online") > 1
    assert_same(made, "online", limits)


def _entry(given: Work) -> int:
    """Bytes among which a head of the new keys lies, with what is packed beside it."""
    problem = given.problem
    if problem.key.layout == "bnsh":
        return 0
    return int(4 * problem.new_rows * (problem.key.packed or problem.kv_heads) * problem.head_dim)


@pytest.mark.parametrize("layout", ["bnsh", "bsnh", "bsnph", "pbnsh"])
@pytest.mark.parametrize("most", [900, 4000, 30_000])
def test_every_member_lies_in_the_range_of_its_part(layout: Any, most: int) -> None:
    """By the addresses of all of its elements."""
    batch, heads, rows, dim, size = 3, 4, 5, 6, 4
    view = View("x", "f32", layout, heads, rows, dim, heads if layout == "pbnsh" else 2 * heads, 7)
    found = list(parts([view], batch * heads, most))
    assert [it.first for it in found] == [0, *(it.end for it in found[:-1])]
    assert found[-1].end == batch * heads
    step = view.strides("x")
    for part in found:
        (place,), (skip,) = part.ranges, part.skips
        if place is None:
            assert (len(found), skip) == (1, 0)
            continue
        assert place.offset % ALIGNMENT == 0
        assert skip * size == place.offset
        assert place.nbytes <= most or part.end - part.first == 1
        for member in range(part.first, part.end):
            first = view.first + member // heads * step["x_batch"] + member % heads * step["x_head"] - skip
            last = first + (rows - 1) * step["x_row"] + dim
            assert first >= 0
            assert last * size <= place.nbytes


def test_what_cannot_be_bound_in_parts_is_refused_with_the_reason() -> None:
    given = decoding()
    limits = narrow(given, 2)
    assert planner.refusal(given.problem, limits) is None
    asked = planner.refusal(scored(given, STAGES[0]).problem, limits)
    assert asked is not None
    assert "the present key takes 28224 bytes" in asked
    assert "it is not bound in parts where scores are given out" in asked
    less = planner.refusal(given.problem, replace(limits, binding_bytes=one_head(given) - 1))
    assert less is not None
    assert "a head of the present key takes 4704 bytes" in less
    assert planner.refusal(given.problem, replace(limits, buffer_bytes=20_000)) == (
        "the present key takes 28224 bytes, and the adapter has buffers of at most 20000"
    )


def test_a_kernel_that_binds_all_of_them_leaves_it_to_online() -> None:
    given = decoding()
    limits = narrow(given, 2)
    forced = Policy("naive").choose(given.problem, limits)
    assert (forced.kernels, forced.instead.startswith("naive does not cover keys or values of 28224 bytes")) == (
        ("online",),
        True,
    )
    assert Policy(rules=()).choose(given.problem, limits) == Choice(("online",))
    assert Policy(rules=()).choose(given.problem, WHOLE) == Choice(("naive", "online"))
