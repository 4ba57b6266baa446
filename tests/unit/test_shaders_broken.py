"""Broken copies of every shader are caught by the shipped scenarios: a suite that lets one pass tests nothing."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from attncheck import shipped
from attncheck.backends.wgsl import limits
from attncheck.compare import judge
from attncheck.kernels import planner
from attncheck.oracle.answer import Answer
from attncheck.oracle.ask import answer
from attncheck.scenario import load
from attncheck.scenario.select import SET_APART
from tests.breaking import broken, shown
from tests.device import Work, compute, failing, hello, work
from tests.drawing import scenario

pytestmark = pytest.mark.slow

IN_ORDER = "let place = min(places[batch * params.rows + row], 0) + i32(batch * params.rows + row);"
BROKEN = [
    ("online", "running_max[tile_row] = new_max;", "", "the running maximum is not kept"),
    ("online", "var new_max = old_max;", "var new_max = HIDDEN;", "the running maximum forgets earlier keys"),
    ("online", "new_max = max(new_max, weights[base + slot - start]);", "new_max = 0.0;", "no maximum at all"),
    ("online", "rescale[tile_row] = factor;", "rescale[tile_row] = 1.0;", "earlier values are not rescaled"),
    ("online", "running_sum[tile_row] * factor + sum", "running_sum[tile_row] + sum", "the sum is not rescaled"),
    ("online", "min(start + KEYS, row_visible[tile_row].end)", "start + KEYS", "keys beyond the last one"),
    ("online", "max(start, row_visible[tile_row].first)", "start", "keys before the window"),
    ("online", "start < tile_hi; start += KEYS", "start + KEYS < tile_hi; start += KEYS", "the last tile is skipped"),
    ("online", "return kv_head * params.head_group + packed", "return packed", "query heads of the first KV head"),
    ("online", "let kv_head = tile / head_tiles % params.kv_heads;", "let kv_head = 0u;", "the first KV head for all"),
    ("online", "dim < params.head_dim", "dim < params.head_dim / 2u", "the second half of each head is dropped"),
    ("online", "* (params.softcap * LOG2E)", "* LOG2E", "softcap is not multiplied back"),
    ("online", "if (params.softcap == 0.0)", "if (true)", "softcap is ignored"),
    ("online", "let state_base = tile * ROWS * state_row;", "let state_base = 0u;", "tiles share their state"),
    ("online", "running_sum[lane] = state[", "running_sum[lane] = 0.0 * state[", "the sum is lost between dispatches"),
    ("naive_scores", "head / params.head_group", "head % (params.heads / params.head_group)", "KV heads tiled"),
    ("naive_scores", "dim < params.head_dim", "dim + 1u < params.head_dim", "the last dim is dropped"),
    ("naive_scores", "params.scale * LOG2E", "params.scale", "natural for binary logarithm"),
    ("naive_scores", "if (params.softcap == 0.0)", "if (true)", "softcap is ignored"),
    ("naive_softmax", "highest = max(highest, scores[base + slot]);", "highest = 0.0;", "no maximum at all"),
    ("naive_softmax", "partial[lane] += partial[lane + half];", "", "the sum of one invocation's keys"),
    ("naive_softmax", "flat_row / params.rows / params.heads", "flat_row / params.rows", "another member's lengths"),
    ("naive_output", "slot < seen.end; slot += PARTS", "slot + 1u < seen.end; slot += PARTS", "the last key is lost"),
    ("naive_output", "head / params.head_group", "head % (params.heads / params.head_group)", "KV heads tiled"),
    ("naive_output", "part < PARTS", "part < PARTS - 1u", "an eighth of the keys is lost"),
    ("append", "x * c - y * s", "x * c + y * s", "turned the other way"),
    ("append", "if (params.interleaved != 0u)", "if (false)", "half for interleaved"),
    ("append", "if (dim < params.rotary_dim)", "if (params.rotary_dim != 0u)", "partial rotary turns every dim"),
    ("append", "positions[batch * params.positions_batch + row]", "row", "positions count from this call's start"),
    ("append", "batch * params.positions_batch + row", "row", "positions of the first batch member"),
    ("linear", "added -= held;", "", "the delta rule is ignored"),
    ("linear", "exp(f32(decay[", "(f32(decay[", "decay is taken for the factor"),
    ("linear", "select(0u, i, params.decay_dim > 1u)", "0u", "the decay of the first dim for all"),
    ("linear", "head % params.beta_heads", "0u", "the update rate of the first KV head"),
    ("linear", "let asker = head * share + s;", "let asker = head + s * params.kv_heads;", "KV heads tiled"),
    ("linear", "asker * params.heads / params.out_heads", "min(asker, params.heads - 1u)", "another query"),
    ("linear", "params.fresh != 0u && row == params.first_row", "row == params.first_row", "no past state"),
    ("linear", "return params.scale * sum;", "return sum;", "no scale"),
    ("gather", "let place = places[batch * params.rows + row];", IN_ORDER, "places are not looked up"),
    ("gather", "places[batch * params.rows + row]", "places[row]", "batch entry 0's places for all"),
    ("gather", "params.place_first + head", "head", "the first of packed roles for all"),
    ("gather", "u32(place) * params.place", "u32(place) * params.heads * params.dim", "packed rows are narrower"),
    ("scatter", "let place = places[batch * params.rows + row];", IN_ORDER, "places are not looked up"),
    ("scatter", "if (place < 0) {", "if (place < 0 || row == 0u) {", "the first row of each entry is not written"),
    ("append", "let slot = extent.first + row;", "let slot = row;", "new rows overwrite the past"),
    ("append", "slot * params.beside_slot_row", "row * params.beside_slot_row", "new values overwrite the past"),
    ("append", "select(params.dim, params.beside_dim, second)", "params.dim", "values as wide as keys"),
    ("append", "extents[batch]", "extents[0]", "lengths of the first batch member"),
]


@cache
def works() -> tuple[tuple[Work, tuple[Answer, ...]], ...]:
    """What of the shipped suite the kernels take, call by call, with their answers, the small ones first."""
    every = load(sorted(shipped.scenarios_dir().glob("*.yaml")))
    loaded = [work(each) for each in every if not each.steps and not set(SET_APART) & set(each.tags)]
    runnable = [each for each in loaded if planner.refusal(each.problem, limits(hello())) is None]
    by_size = sorted(runnable, key=lambda each: sum(array.nbytes for array in each.inputs.values()))
    return tuple((each, answer(each.problem, each.inputs)) for each in by_size)


def caught(kernel: str, shaders: Path) -> bool:
    """Whether any shipped scenario shows a difference, or the worker itself says that something is wrong."""
    return any(shown(given, answers, kernel, shaders) for given, answers in works())


@pytest.mark.parametrize("kernel", ["naive", "online"])
def test_shaders_as_they_are_pass(kernel: str) -> None:
    assert not caught(kernel, shipped.shaders_dir())


@pytest.mark.parametrize(("shader", "old", "new", "fault"), BROKEN, ids=[f"{b[0]}: {b[3]}" for b in BROKEN])
def test_a_broken_copy_is_caught(shader: str, old: str, new: str, fault: str, tmp_path: Path) -> None:
    folder = broken(tmp_path, shader, old, new)
    kernels = [kernel for kernel in ("naive", "online") if shader.startswith(kernel)] or ["naive", "online"]
    for kernel in kernels:
        assert caught(kernel, folder), fault


def test_a_running_maximum_that_is_not_kept_is_invisible_on_normal_data(tmp_path: Path) -> None:
    """Why the hostile kinds exist: a wrong maximum cancels out as long as nothing overflows."""
    folder = broken(tmp_path, "online", "var new_max = old_max;", "var new_max = HIDDEN;")
    given = work(scenario(q_len=(9,), past_len=(70,)))
    outputs = compute(given, "online", folder)
    assert np.isfinite(outputs["output"]).all()
    found = judge.differences(given.problem, answer(given.problem, given.inputs), outputs, "f32", "online")
    assert not failing(found)
