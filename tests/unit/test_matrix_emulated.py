"""The shaders of the matrix kernel with their matrix units in plain WGSL: right at every border, deaf to hidden NaN."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from attncheck.kernels import bias, matrix
from attncheck.kernels.draft import Limits
from attncheck.kernels.parts import ALIGNMENT
from attncheck.oracle.answer import Answer
from attncheck.oracle.ask import answer
from tests.breaking import broken, shown
from tests.device import Work, assert_same_bits, compute, has_f16, plan
from tests.dressing import padded
from tests.few_rows import CASES, HIDDEN, PROMPTS, UNITS, WINDOWED, with_nan, with_nan_before, wrongs
from tests.mask_rows import BLOCKS, DRESSED, combinations
from tests.matrices import emulated

every_width = pytest.mark.parametrize(
    "dim", [32, pytest.param(64, marks=pytest.mark.slow), pytest.param(128, marks=pytest.mark.slow)]
)


def narrow(given: Work) -> Limits:
    """So much in a binding as two heads of keys take, wherever they begin."""
    problem = given.problem
    head = 2 * problem.capacity * max(problem.head_dim, problem.v_head_dim)
    return replace(UNITS, binding_bytes=2 * head + ALIGNMENT, buffer_bytes=1 << 30)


@pytest.fixture
def any_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans that ask for no matrix units."""
    if not has_f16():
        pytest.skip("the adapter has no f16")
    monkeypatch.setattr(matrix, "DIRECTIVES", ())


@pytest.fixture
def shaders(tmp_path: Path, any_adapter: None) -> Path:
    """A folder of shaders that run here."""
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


@every_width
@pytest.mark.parametrize("name", PROMPTS)
def test_prompts(name: str, dim: int, shaders: Path) -> None:
    given = PROMPTS[name](dim)
    assert "matrix" in plan(given, "matrix", shaders, UNITS).sources
    assert not wrongs(given, compute(given, "matrix", shaders, UNITS))


@every_width
@pytest.mark.parametrize("name", WINDOWED)
def test_what_lies_before_all_windows_may_be_nan(name: str, dim: int, shaders: Path) -> None:
    given = WINDOWED[name](dim)
    outputs = compute(given, "matrix", shaders, UNITS)
    assert not wrongs(given, outputs)
    assert np.array_equal(compute(with_nan_before(given), "matrix", shaders, UNITS)["output"], outputs["output"])


def test_rows_of_a_prompt_have_the_same_bits_whatever_rows_share_their_tile(shaders: Path) -> None:
    given = PROMPTS["window"](32)
    wide = padded(given, 23)
    alone, beside = (compute(it, "matrix", shaders, UNITS)["output"] for it in (given, wide))
    assert_same_bits(beside[:, : given.problem.rows], alone)


@pytest.mark.parametrize("dressed", ["of-each-head", "window", "mean"])
def test_masks_in_blocks_of_rows_have_the_bits_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, dressed: str, shaders: Path
) -> None:
    given = DRESSED[dressed]("float16")
    whole = compute(given, "matrix", shaders, UNITS)["output"]
    monkeypatch.setattr(bias, "BLOCK_BYTES", 4)
    assert combinations(plan(given, "matrix", shaders, UNITS)) == BLOCKS
    found = compute(given, "matrix", shaders, UNITS)
    assert not wrongs(given, found)
    assert_same_bits(found["output"], whole)


def test_the_members_of_a_batch_have_the_bits_that_they_have_alone(shaders: Path) -> None:
    together = CASES["ragged"](32)
    others = dict(together.inputs)
    for name in ("query", "key", "value", "past_key", "past_value"):
        others[name] = others[name][::-1].copy()
    order = {"visible": together.problem.visible[::-1], "past_len": together.problem.past_len[::-1]}
    turned = replace(together.with_problem(**order), inputs=others)
    outputs = [compute(given, "matrix", shaders, UNITS)["output"] for given in (together, turned)]
    assert_same_bits(outputs[0], outputs[1][::-1])


def test_keys_of_more_than_a_binding_are_bound_in_parts_with_the_bits_of_the_whole(shaders: Path) -> None:
    given = CASES["ragged"](32)
    limits = narrow(given)
    found = plan(given, "matrix", shaders, limits)
    parts = [it for it in found.dispatches if it.shader == "matrix_decode"]
    assert len(parts) == 3
    assert all(any(it.ranges) for it in parts)
    whole, divided = (compute(given, "matrix", shaders, within)["output"] for within in (UNITS, limits))
    assert_same_bits(divided, whole)


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

BROKEN_PROMPTS = [
    ("let now = select(before.top, top, moves);", "let now = before.top;", "the running maximum is not kept"),
    ("return moves && before.sum != 0.0;", "return false;", "sums are not rescaled"),
    ("before.sum * factor + (", "before.sum + (", "the sum is not rescaled"),
    ("            sums[4] = rescaled(sums[4], subgroup, lane, block_rows + BLOCK);\n", "",
     "lower rows are not rescaled"),
    ("if (params.masked != 0u || start < slots.z || start + KEYS > slots.w) {", "if (params.masked != 0u) {",
     "every tile counts as full"),
    ("start < slots.z || ", "", "a tile that a window cuts counts as full"),
    (" || start + KEYS > slots.w", "", "the diagonal's tiles count as full"),
    ("return slot >= slots.x && slot < slots.y;", "return slot < slots.y;", "NaN before all windows"),
    ("if (params.masked != 0u) {\n            let weights", "if (false) {\n            let weights",
     "NaN that a mask hides"),
    ("(head_tiles - 1u - index / members)", "(head_tiles - 1u)", "every workgroup takes the last rows"),
    ("params.query_first + tile.batch", "tile.batch", "the first of packed roles for the query"),
    ("tile.kv_head * params.head_group + (tile.first", "(tile.first", "query heads of the first KV head"),
    ("exp2(top - highest - LIFT)", "exp2(top - highest)", "weights are not brought down again"),
    ("sinks[0] = sink[head] * LOG2E;", "sinks[0] = sink[head];", "a sink in natural units"),
]  # fmt: skip


def test_shaders_as_they_are_pass(shaders: Path) -> None:
    assert not caught(shaders, few_rows())
    assert not caught(shaders, prompts())


@pytest.mark.slow
@pytest.mark.usefixtures("any_adapter")
@pytest.mark.parametrize(("old", "new", "fault"), BROKEN, ids=[fault for *_, fault in BROKEN])
def test_a_broken_copy_is_caught(old: str, new: str, fault: str, tmp_path: Path) -> None:
    """By the cases above: they prove nothing of the shader that they let do anything."""
    assert caught(emulated(tmp_path, broken(tmp_path, "matrix_decode", old, new)), few_rows()), fault


@pytest.mark.slow
@pytest.mark.usefixtures("any_adapter")
@pytest.mark.parametrize(("old", "new", "fault"), BROKEN_PROMPTS, ids=[fault for *_, fault in BROKEN_PROMPTS])
def test_a_broken_copy_is_caught_by_prompts(old: str, new: str, fault: str, tmp_path: Path) -> None:
    assert caught(emulated(tmp_path, broken(tmp_path, "matrix", old, new)), prompts()), fault


Judged = tuple[Work, tuple[Answer, ...], Limits]


@cache
def few_rows() -> tuple[Judged, ...]:
    """Works of few rows with their answers, whose keys are bound at once, and in parts."""
    given = (*(made(32) for made in CASES.values()), with_nan(HIDDEN["few rows"](32))[1])
    return tuple((each, of(each), limits) for each in given for limits in (UNITS, narrow(each)))


@cache
def prompts() -> tuple[Judged, ...]:
    """Prompts with their answers, with NaN in what no row sees too."""
    hidden = (with_nan(HIDDEN["many rows"](32))[1], with_nan_before(WINDOWED["many rows"](32)))
    return tuple((each, of(each), UNITS) for each in (*(made(32) for made in PROMPTS.values()), *hidden))


def of(given: Work) -> tuple[Answer, ...]:
    return answer(given.problem, given.inputs)


def caught(shaders: Path, judged: tuple[Judged, ...]) -> bool:
    """Whether any case shows a difference, or the worker itself says that something is wrong."""
    return any(shown(given, answers, "matrix", shaders, limits) for given, answers, limits in judged)
