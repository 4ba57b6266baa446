"""The shaders of the matrix kernel with their matrix units in plain WGSL: right at every border, deaf to hidden NaN."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attncheck import shipped
from attncheck.kernels import matrix
from attncheck.kernels.draft import Limits
from attncheck.kernels.parts import ALIGNMENT
from tests.device import Work, compute, has_f16, plan, worker_module
from tests.few_rows import CASES, HIDDEN, UNITS, with_nan, wrongs
from tests.matrices import emulated, in_plain_words

every_width = pytest.mark.parametrize(
    "dim", [32, pytest.param(64, marks=pytest.mark.slow), pytest.param(128, marks=pytest.mark.slow)]
)


def narrow(given: Work) -> Limits:
    """So much in a binding as two heads of keys take, wherever they begin."""
    problem = given.problem
    head = 2 * problem.capacity * max(problem.head_dim, problem.v_head_dim)
    return replace(UNITS, binding_bytes=2 * head + ALIGNMENT, buffer_bytes=1 << 30)


@pytest.fixture
def shaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of shaders that run here."""
    if not has_f16():
        pytest.skip("the adapter has no f16")
    monkeypatch.setattr(matrix, "DIRECTIVES", ())
    return emulated(tmp_path)


@every_width
@pytest.mark.parametrize("name", CASES)
def test_few_rows_against_slices_of_the_keys(name: str, dim: int, shaders: Path) -> None:
    given = CASES[name](dim)
    assert "matrix_decode" in plan(given, "matrix", shaders, UNITS).sources
    assert not wrongs(given, compute(given, "matrix", shaders, UNITS))


@every_width
@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_mask_hides_from_all_rows_may_be_nan(name: str, dim: int, shaders: Path) -> None:
    given, poisoned = with_nan(HIDDEN[name](dim))
    outputs = compute(given, "matrix", shaders, UNITS)
    assert not wrongs(given, outputs)
    assert np.array_equal(compute(poisoned, "matrix", shaders, UNITS)["output"], outputs["output"])


def test_the_members_of_a_batch_have_the_bits_that_they_have_alone(shaders: Path) -> None:
    together = CASES["ragged"](32)
    others = dict(together.inputs)
    for name in ("query", "key", "value", "past_key", "past_value"):
        others[name] = others[name][::-1].copy()
    order = {"visible": together.problem.visible[::-1], "past_len": together.problem.past_len[::-1]}
    turned = replace(together.with_problem(**order), inputs=others)
    outputs = [compute(given, "matrix", shaders, UNITS)["output"] for given in (together, turned)]
    assert np.array_equal(outputs[0].view(np.uint16), outputs[1][::-1].view(np.uint16))


def test_keys_of_more_than_a_binding_are_bound_in_parts_with_the_bits_of_the_whole(shaders: Path) -> None:
    given = CASES["ragged"](32)
    limits = narrow(given)
    found = plan(given, "matrix", shaders, limits)
    parts = [it for it in found.dispatches if it.shader == "matrix_decode"]
    assert len(parts) == 3
    assert all(any(it.ranges) for it in parts)
    whole, divided = (compute(given, "matrix", shaders, within)["output"] for within in (UNITS, limits))
    assert np.array_equal(divided.view(np.uint16), whole.view(np.uint16))


BROKEN = [
    ("clamp(start + key_slot + each * KEY_ROWS, slots.x, last)", "clamp(key_slot, slots.x, last)", "other keys first"),
    ("min(subgroupMax(select(0u, one.w, goes)), (slice + 1u) * params.slice)", "subgroupMax(select(0u, one.w, goes))",
     "a slice goes on into the next"),
    ("        subgroupMax(one.x),", "        subgroupMin(one.x),", "full by the first row's window"),
    ("        subgroupMin(one.y),", "        subgroupMax(one.y),", "full by the last row"),
    ("let row = invocation / 8u;", "let row = invocation / 8u % 8u;", "the upper rows are lost"),
    ("subgroupAny(moves && total != 0.0)", "subgroupAny(false && total != 0.0)", "sums are not rescaled"),
    ("total = total * factor", "total = total", "the sum is not rescaled"),
    ("sums[0] = rescaled(sums[0], subgroup, lane);", "if (false) { sums[0] = rescaled(sums[0], subgroup, lane); }",
     "the first block is not rescaled"),
    ("partials[place] = top - LIFT;", "partials[place] = top;", "weights are not brought down again"),
    ("* pitch + (slice - params.first_slice)", "* pitch + slice", "slices before the window take room"),
    ("if (params.masked != 0u) {\n            let some", "if (false) {\n            let some", "NaN that a mask hides"),
    ("- params.key_skip", "", "keys of the first part for all"),
    ("params.query_first + tile.batch", "tile.batch", "the first of packed roles for the query"),
    ("tile.kv_head * params.head_group + (tile.first", "(tile.first", "query heads of the first KV head"),
]  # fmt: skip


def test_shaders_as_they_are_pass(shaders: Path) -> None:
    assert not caught(shaders)


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "fault"), BROKEN, ids=[fault for *_, fault in BROKEN])
def test_a_broken_copy_is_caught(old: str, new: str, fault: str, tmp_path: Path, shaders: Path) -> None:
    """By the cases above: they prove nothing of the shader that they let do anything."""
    file = shaders / "matrix_decode.wgsl"
    given = (shipped.shaders_dir() / "matrix_decode.wgsl").read_text(encoding="utf-8")
    assert given.count(old) == 1, f"{old!r} must stand once"
    file.write_text(in_plain_words(given.replace(old, new)), encoding="utf-8")
    assert caught(shaders), fault


def caught(shaders: Path) -> bool:
    """Whether any case shows a difference, or the worker itself says that something is wrong."""
    failure = worker_module("failure").Failure
    for given in (*(made(32) for made in CASES.values()), with_nan(HIDDEN["few rows"](32))[1]):
        for limits in (UNITS, narrow(given)):
            try:
                outputs = compute(given, "matrix", shaders, limits)
            except failure as error:
                assert error.verdict == "oob-write"  # noqa: PT017 - a shader that does not compile proves nothing
                return True
            if wrongs(given, outputs):
                return True
    return False
