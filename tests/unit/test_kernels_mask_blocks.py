"""Masks that have numbers for each query row: combined for a block of rows at a time, with the bits of the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attncheck.kernels import bias, planner
from attncheck.problem import Mask, Problem
from attncheck.shipped import shaders_dir
from tests.device import KERNELS, assert_same_bits, compute, differences, every_kernel, failing, has_f16, plan
from tests.dressing import masked, scored
from tests.few_rows import UNITS
from tests.mask_rows import BLOCKS, DRESSED, combinations, given, of_rows


@every_kernel
@pytest.mark.parametrize("dressed", DRESSED)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_blocks_have_the_bits_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, kernel: str, dressed: str, dtype: str
) -> None:
    if dtype == "float16" and not has_f16():
        pytest.skip("the adapter has no f16")
    like = DRESSED[dressed](dtype)
    whole = compute(like, kernel)
    combined = combinations(plan(like, kernel))
    monkeypatch.setattr(bias, "BLOCK_BYTES", 4)
    assert combinations(plan(like, kernel)) == combined * BLOCKS
    for name, array in compute(like, kernel).items():
        assert_same_bits(array, whole[name], name)
    assert failing(differences(like, kernel)) == []


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [(1, 1, 1, 180), (2, 4, 1, 180), (1, 180)])
def test_what_all_rows_share_is_combined_once(
    monkeypatch: pytest.MonkeyPatch, kernel: str, shape: tuple[int, ...]
) -> None:
    like = masked(given(), np.zeros(shape))
    monkeypatch.setattr(bias, "BLOCK_BYTES", 4)
    assert combinations(plan(like, kernel)) == 1


@pytest.mark.parametrize("kernel", ["decode", *KERNELS])
@pytest.mark.parametrize("rows", [1, 16, 64])
def test_few_rows_are_held_together(monkeypatch: pytest.MonkeyPatch, kernel: str, rows: int) -> None:
    """By how many there are kernels choose the length of slices, which no other member of a batch is to move."""
    like = of_rows(given(q_len=(rows, 1)), 2, 4)
    monkeypatch.setattr(bias, "BLOCK_BYTES", 4)
    assert combinations(plan(like, kernel)) == 1


@pytest.mark.parametrize("rows", [65, 129, 6401])
def test_no_block_has_few_rows(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(bias, "BLOCK_BYTES", 4)
    lengths = [block.rows for _, block in bias.blocks(prompt((rows, rows)))]
    assert sum(lengths) == rows
    assert bias.FEW_ROWS / 2 <= min(lengths) <= max(lengths) <= bias.FEW_ROWS


def test_a_score_output_which_is_as_large_has_all_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    like = scored(of_rows(given()), "biased")
    monkeypatch.setattr(bias, "BLOCK_BYTES", 4)
    assert combinations(plan(like, "online")) == 1
    assert failing(differences(like, "online")) == []


@pytest.mark.parametrize("kernel", ["naive", "online", "flash", "flash-large", "matrix"])
@pytest.mark.parametrize("masks", [((1 << 14, 1 << 14),), ((8, 1 << 14, 1 << 14), (1 << 14,))], ids=["one", "of-heads"])
def test_no_kernel_holds_as_many_numbers_as_there_are_scores(kernel: str, masks: tuple[tuple[int, ...], ...]) -> None:
    problem = prompt(*masks)
    found = planner.plan(problem, kernel, UNITS, shaders_dir())
    own = {it.name: it.nbytes for it in found.buffers if it.input is None and it.output is None and it.content is None}
    assert 0 < own["[bias]"] <= bias.BLOCK_BYTES
    assert sum(size for name, size in own.items() if name != "[scores]") < problem.rows**2


def prompt(*masks: tuple[int, ...]) -> Problem:
    """As many rows as keys, and as the masks are long, which are boolean: nobody has to hold them for a plan."""
    rows = masks[0][-1]
    visible = np.zeros((1, rows, 2), np.int32)
    visible[..., 1] = np.arange(1, rows + 1)
    sizes: dict[str, Any] = {"batch": 1, "heads": 8, "rows": rows, "new_rows": rows, "capacity": rows}
    sizes |= {"q_len": (rows,), "new_len": (rows,), "past_len": (0,), "past_capacity": 0}
    sizes |= {"past_key": None, "past_value": None}
    found = tuple(Mask(f"mask_{at}", "boolean", shape, rows) for at, shape in enumerate(masks))
    long: Problem = replace(given("float16").problem, **sizes, visible=visible, masks=found)
    return long
