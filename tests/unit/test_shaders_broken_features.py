"""Broken copies of what shaders do with masks, sinks, packed roles and score outputs are caught."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncheck import shipped
from attncheck.oracle.answer import Answer
from attncheck.oracle.attention import answer
from tests.breaking import broken, shown
from tests.device import KERNELS, Work, has_f16, work
from tests.drawing import scenario
from tests.dressing import ROLES, STAGES, masked, packed, packed_by_heads, scored, sunk

ROWS, KEYS, HEADS = 10, 47, 4

BROKEN = [
    ("mask", "byte != 0u", "byte == 0u", "false shows and true hides"),
    ("mask", "element % 4u * 8u", "0u", "the first of four booleans for all"),
    ("mask", "word >> 16u, element % 2u == 1u", "word >> 16u, false", "the even halves of words only"),
    ("mask", "if (slot < params.mask_slots)", "if (true)", "a mask is read behind its end"),
    ("mask", "batch * params.mask_batch", "0u", "batch entry 0's mask for all"),
    ("mask", "head * params.mask_head", "0u", "head 0's mask for all"),
    ("mask", "row * params.mask_row", "0u", "row 0's mask for all"),
    ("mask", "slot * params.mask_slot", "slot", "a broadcast last axis is not"),
    ("mask", "clamp(before + own, -LARGEST, LARGEST)", "own", "the last of two masks only"),
    ("mask", "before > LIMIT", "true", "a later mask shows what an earlier one hid"),
    ("mask", "params.more != 0u && own > LIMIT", "params.more != 0u && false", "an earlier mask is forgotten"),
    ("mask", "(bits == MINUS_INFINITY)", "(false)", "minus infinity is a number"),
    ("mask", "bits == MINUS_INFINITY_F16", "bits >= 0x7c00u", "negative numbers in float16 hide"),
    ("naive_scores", "added * LOG2E", "added", "a bias in natural units"),
    ("naive_scores", "+ added * LOG2E", "", "a bias only hides"),
    ("naive_scores", "if (added < LIMIT)", "if (false)", "a hidden key scores like a low one"),
    ("naive_scores", "batch * params.bias_batch", "0u", "batch entry 0's bias for all"),
    ("naive_scores", "head * params.bias_head", "0u", "head 0's bias for all"),
    ("naive_scores", "row * params.bias_row", "0u", "row 0's bias for all"),
    ("online", "added * LOG2E", "added", "a bias in natural units"),
    ("online", "if (added < LIMIT)", "if (false)", "a hidden key scores like a low one"),
    ("online", "head * params.bias_head", "kv_head * params.bias_head", "a KV head's bias for its query heads"),
    ("online", "batch * params.bias_batch", "0u", "batch entry 0's bias for all"),
    ("online", "row * params.bias_row", "packed * params.bias_row", "a packed row's bias"),
    ("online", "slot >= seen.lo && slot < seen.hi", "true", "a row that may give the mean sees all keys"),
    ("online", "score < LIMIT && (params.mean", "false && (params.mean", "hidden keys weigh where none is seen"),
    ("online", "sink[head] * LOG2E", "sink[head]", "a sink in natural units"),
    ("online", "sinks[0] = sink[head]", "sinks[0] = sink[0]", "head 0's sink for all"),
    ("online", "if (params.sinks != 0u)", "if (false)", "sinks are ignored"),
    ("online", "if (params.zero_sink != 0u)", "if (false)", "smooth softmax is ignored"),
    ("online", "return factor / total;", "return 1.0 / total;", "sums are not rescaled to the sink's maximum"),
    ("naive_softmax", "* LOG2E", "", "a sink in natural units"),
    ("naive_softmax", "flat_row / params.rows % params.heads]", "0u]", "head 0's sink for all"),
    ("naive_softmax", "if (params.sinks != 0u)", "if (false)", "sinks are ignored"),
    ("naive_softmax", "if (params.zero_sink != 0u)", "if (false)", "smooth softmax is ignored"),
    ("naive_softmax", "highest < LIMIT && params.mean != 0u", "false", "a row masked empty gives 0, not the mean"),
    ("naive_softmax", "highest < LIMIT && params.mean != 0u", "highest < LIMIT", "a row masked empty gives the mean"),
    ("naive_scores", "slot >= seen.lo && slot < seen.hi", "true", "a row that may give the mean sees all keys"),
    ("append", "params.source_first + batch", "batch", "the first of packed roles for all"),
    ("append", "row * params.source_row", "row * params.dim * params.heads", "packed rows are narrower than they are"),
    ("append", "params.beside_first + batch", "batch", "the first of packed roles for all values"),
    ("append", "row * params.beside_row", "row * params.beside_dim * params.heads", "packed values are narrower"),
    ("norm", "/ f32(params.dim)", "", "the sum of squares for their mean"),
    ("norm", "+ params.epsilon", "", "epsilon is left out"),
    ("norm", "* f32(gain[dim])", "", "the gain is left out"),
    ("norm", "gain[dim]", "gain[0]", "the gain of dim 0 for all"),
    ("norm", "params.source_first + batch", "batch", "the first of packed roles for all"),
    ("norm", "head * params.source_head", "0u", "head 0 normalised for all"),
    ("evict", "extent.first + row", "row", "the first keys are kept"),
    ("evict", "extents[batch]", "extents[0]", "batch entry 0's keys are kept for all"),
    ("evict", "row >= extent.count", "row + 1u >= extent.count", "the last key is not kept"),
    ("evict", "params.present_first + batch", "batch", "values stand over the keys of one present"),
    ("project", "params.weights_first + column", "column", "the columns of queries for all"),
    ("project", "i * params.columns", "i * params.heads * params.dim", "weights are narrower than they are"),
    ("project", "params.bias_first + column", "column", "the bias of queries for all"),
    ("project", "if (params.biased != 0u)", "if (false)", "the bias is left out"),
    ("project", "let column = head * params.dim + dim;", "let column = dim;", "the columns of head 0 for all"),
    ("project", "batch * params.source_batch", "0u", "batch entry 0's rows for all"),
    ("project", "row * params.source_row", "0u", "row 0 for all"),
    ("project", "head * params.source_head", "0u", "head 0's rows get the bias of all"),
    ("project", "params.source_first + batch", "batch", "the first of packed roles for all"),
    ("project", "i < params.width", "i + 1u < params.width", "the last element of a row is left out"),
    ("score_output", "return pack2x16float(vec2<f32>(score, 0.0));", "return bitcast<u32>(score);", "bits of float32"),
    ("score_output", "slot < seen.first || slot >= seen.end", "false", "scores of slots without a key"),
    ("score_output", "bits = (bits & (0xffff0000u >> (half * 16u))) |", "bits =", "a half erases the other"),
    ("score_output", "element >= begin && element < end", "true", "a block writes its neighbours' halves"),
    ("score_output", "* params.unit", "", "binary logarithms are given out"),
    ("score_output", "flat_row - params.first_row", "flat_row", "a later block reads where the first one stood"),
    ("score_output", "if (score < NEAR_LOWEST) {", "if (false) {", "hidden scores are a large number"),
]  # fmt: skip


@cache
def works() -> tuple[tuple[Work, tuple[Answer, ...]], ...]:
    """Small cases that between them have every feature, with their answers."""
    random = np.random.default_rng(3)
    holes = random.random((2, HEADS, ROWS, KEYS)) > 0.4
    holes[:, :, 2] = False
    bias = np.where(holes, random.standard_normal(holes.shape), -np.inf)
    found = []
    for dtype in ("float32", "float16") if has_f16() else ("float32",):
        axes: dict[str, Any] = {"dtype": dtype, "q_len": (ROWS,) * 2, "past_len": (37, 20), "head_dim": 8}
        plain = work(scenario(**axes))
        found += [
            masked(plain, holes),
            masked(plain, bias).with_problem(empty_row="mean"),
            masked(masked(plain, holes[:, :1]), bias[0, :, :1]),
            masked(masked(plain, bias[1, 0]), 2.0 * random.standard_normal((HEADS, 1, 1)), slots=None),
            masked(plain, random.standard_normal((ROWS, 1)), slots=30),
            masked(plain, np.ones((1, ROWS, 20), np.bool_)),
            sunk(plain, np.array([-1.0, 0.5, 2.0, 200.0])),
            sunk(plain, None, smooth=True),
            packed(plain),
            packed_by_heads(plain),
            packed(plain, ROLES[::-1]),
            packed(work(scenario(**axes, rotary="half"))),
            packed(work(scenario(**axes, qk_norm="epsilons"))),
            work(scenario(**axes, window=6, window_cache=True, capacity=8)),
            work(scenario(**{**axes, "past_len": (20, 20)}, op="ms-attention", qkv_bias=True)),
            work(scenario(**{**axes, "past_len": (20, 20)}, op="mha", qkv_bias=True, packed="qkv")),
            *(scored(sunk(masked(plain, bias), np.arange(4.0)), stage, KEYS) for stage in STAGES),
        ]
    return tuple((each, answer(each.problem, each.inputs)) for each in found)


def caught(kernel: str, shaders: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether any case shows a difference, in one block or many, or the worker itself says that something is wrong."""
    for block in (1 << 20, 4 * KEYS * 3):
        monkeypatch.setattr("attncheck.kernels.naive.SCORES_BYTES", block)
        if any(shown(given, answers, kernel, shaders) for given, answers in works()):
            return True
    return False


@pytest.mark.parametrize("kernel", KERNELS)
def test_shaders_as_they_are_pass(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not caught(kernel, shipped.shaders_dir(), monkeypatch)


@pytest.mark.parametrize(("shader", "old", "new", "fault"), BROKEN, ids=[f"{b[0]}: {b[3]}" for b in BROKEN])
def test_a_broken_copy_is_caught(
    shader: str, old: str, new: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "float16" in fault and not has_f16():
        pytest.skip("the adapter has no f16")
    folder = broken(tmp_path, shader, old, new)
    kernels = [kernel for kernel in KERNELS if shader.startswith(kernel)] or KERNELS
    for kernel in kernels:
        assert caught(kernel, folder, monkeypatch), fault
