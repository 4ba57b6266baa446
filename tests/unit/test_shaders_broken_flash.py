"""Broken copies of the flash kernel are caught by cases of several tiles, or by those that have every feature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from attncheck import shipped
from attncheck.oracle.answer import Answer
from attncheck.oracle.attention import answer
from tests.breaking import broken, shown
from tests.device import Work, work
from tests.drawing import scenario
from tests.dressing import masked, with_nan_past
from tests.unit.test_shaders_broken_features import works as featured

pytestmark = pytest.mark.slow

BROKEN = [
    ("    (*highest)[part] = top;\n", "", "the running maximum is not kept"),
    ("var top = (*highest)[part];", "var top = vec4<f32>(HIDDEN);", "the running maximum forgets earlier keys"),
    ("reduction[quad * REDUCTION_ROW + each]);", "reduction[quad * REDUCTION_ROW]);", "one maximum for all"),
    ("    shrink_sums(sums, part * PART_SUMS, shrink);", "", "earlier values are not rescaled"),
    ("(*sum)[part] * shrink + (near", "(*sum)[part] + (near", "the sum is not rescaled"),
    ("sum += reduction[quad * REDUCTION_ROW + each];", "sum += reduction[quad * REDUCTION_ROW];", "one sum for all"),
    ("start < tile_hi; start += KEYS", "start + KEYS < tile_hi; start += KEYS", "the last tile of keys is skipped"),
    ("tile_lo = min(tile_lo, seen.z);", "tile_lo = max(select(tile_lo, 0u, tile_lo == 0xffffffffu), seen.z);",
     "keys of the first rows of a tile are skipped"),
    ("open_lo = max(open_lo, seen.x);", "", "a tile that a window cuts counts as full"),
    ("open_hi = min(open_hi, seen.y);", "", "the diagonal's tiles count as full"),
    ("        open_hi = 0u;\n", "", "masked tiles count as full"),
    ("let held = place < table[END + quad];", "let held = vec4<bool>(true);", "keys behind the last weigh"),
    ("let seen = held & (place >= table[LO + quad]) & (place < table[HI + quad]);", "let seen = held;",
     "a row that may give the mean sees all keys"),
    ("held & vec4<bool>(params.mean != 0u)", "held", "a row that sees no key gives the mean"),
    ("held & vec4<bool>(params.mean != 0u)", "vec4<bool>(false)", "a row that masks empty gives 0, not the mean"),
    ("score + added * LOG2E", "score + added", "a bias in natural units"),
    ("score + added * LOG2E", "score", "a bias only hides"),
    ("batch * params.bias_batch", "0u", "batch entry 0's bias for all"),
    ("head * params.bias_head", "0u", "head 0's bias for all"),
    ("row * params.bias_row", "0u", "row 0's bias for all"),
    ("given = LOG2E * vec4<f32>(sink[heads.x]", "given = vec4<f32>(sink[heads.x]", "sinks in natural units"),
    ("sink[heads.y]", "sink[heads.x]", "a neighbour's sink"),
    ("if (params.sinks != 0u)", "if (false)", "sinks are ignored"),
    ("params.zero_sink != 0u", "false", "smooth softmax is ignored"),
    ("sum * factor + sinks", "sum + sinks", "sums are not rescaled to the sink's maximum"),
    ("if (params.cap != 0.0) {\n            score", "if (false) {\n            score", "no softcap"),
    ("params.cap * vec4", "vec4", "softcap is not multiplied back"),
    ("dim < params.head_quads; dim += DIM_QUADS", "dim + DIM_QUADS < params.head_quads; dim += DIM_QUADS",
     "the last dims are dropped"),
    ("if (dim < params.head_quads && block < BLOCKS) {", "if (block < BLOCKS) {", "dims behind the last are read"),
    ("const KEY_QUADS = 16u;", "const KEY_QUADS = 8u;", "half of the keys overwrite the others"),
    ("quad / COLUMNS * 32u", "quad / COLUMNS * 8u", "keys stand in another's place"),
    ("own * 4u * quads + swizzled(quad, own)", "own * 4u * quads + quad", "operands are written where nobody reads"),
    ("let head = kv_head * params.head_group + packed % params.head_group;\n        let seen",
     "let head = kv_head;\n        let seen", "query heads of the first KV heads"),
    ("let kv_head = member % params.kv_heads;", "let kv_head = 0u;", "the first KV head for all"),
    ("if (params.masked != 0u && !weighs(start + place / VALUE_ROW - tile)) {", "if (false) {",
     "values that a mask hides are multiplied by 0"),
    ("params.query_first + batch", "batch", "the first of packed roles for all queries"),
    ("head * params.query_head", "0u", "head 0's queries for all"),
    ("row * params.query_row", "row * params.output_row", "packed rows are narrower than they are"),
    ("vec4<f32>(query[rows.y])", "vec4<f32>(query[rows.x])", "a neighbour's queries"),
    ("let batch = member / params.kv_heads;", "let batch = 0u;", "batch entry 0 for all"),
    ("- 1u - order / params.members", "- 1u", "every workgroup takes the last rows"),
    ("chunk < CHUNKS; chunk++", "chunk + 1u < CHUNKS; chunk++", "the last keys of each tile are not weighed"),
    ("start + chunk * KEY_CHUNK, tile_lo", "start, tile_lo", "the first values of each tile for all"),
    ("add_quad(sums, 1u, near, far, stage[base + 8u]);", "add_quad(sums, 1u, near, far, stage[base]);",
     "dims are repeated"),
    ("select(vec4<f32>(), normaliser((*highest)[part], sum, select(vec4<u32>(), head, inside)), goes)",
     "normaliser((*highest)[part], sum, select(vec4<u32>(), head, inside))",
     "a row that sees no key is computed in full tiles"),
    ("clamp(start + place / VALUE_ROW, lowest, end - 1u)", "min(start + place / VALUE_ROW, end - 1u)",
     "values that a window hides from all are multiplied by 0"),
    ("add_key(sums, each + 3u, lane);", "", "every fourth key is not weighed"),
]  # fmt: skip

BROKEN_LARGE = [
    ("add_product(scores, PART_SCORES, far_q, near, far);", "add_product(scores, PART_SCORES, q, near, far);",
     "the first quad's queries for both"),
    ("store_block(lane + LANES, second);", "store_block(lane + LANES, first);", "queries stand for keys"),
    ("finish(&scores, PART_SCORES, line + LINES,", "finish(&scores, PART_SCORES, line,",
     "what the first quad sees for both"),
    ("most(&scores, PART_SCORES);", "most(&scores, 0u);",
     "the first quad's maximum for both"),
    ("weigh(&scores, &sums, &highest, &sum, 1u, line + LINES);", "", "the second quad's scores are not weighed"),
    ("let first = part * PART_SCORES;", "let first = 0u;", "the first quad is weighed twice"),
    ("shrink_sums(sums, part * PART_SUMS, shrink);", "shrink_sums(sums, 0u, shrink);",
     "the first quad's sums shrink twice"),
    ("stage_weight(scores, PART_SCORES, place + LINES);", "stage_weight(scores, 0u, place + LINES);",
     "the first quad's weights for both"),
    ("add_row(sums, PART_SUMS + 4u * column, far, row);", "add_row(sums, PART_SUMS + 4u * column, near, row);",
     "the first quad's weights sum both"),
    ("let at = part * PART_SUMS;", "let at = 0u;", "the first quad's sums are given twice"),
    ("column] = sum[PARTS - 1u];", "column] = sum[0];", "the first quad's sum of weights for both"),
    ("                note_weights(&scores, PART_SCORES, column);\n", "",
     "values that only second quads weigh are left out"),
]  # fmt: skip


@cache
def tiled() -> tuple[tuple[Work, tuple[Answer, ...]], ...]:
    """Cases of several tiles of rows and of keys, with their answers."""
    falling = work(scenario(q_len=(1,), past_len=(200,), data="rising-scores", scale=1.0))
    inputs = dict(falling.inputs)
    for name in ("past_key", "past_value"):
        inputs[name] = np.ascontiguousarray(inputs[name][:, :, ::-1])
    opened = work(scenario(op="mha", kv_heads=4, causal=False, q_len=(140,)))
    visible = opened.problem.visible.copy()
    visible[0, 3] = (9, 9)
    found = [
        work(scenario(q_len=(100, 7), head_dim=40)),
        work(scenario(q_len=(9, 9), past_len=(140, 20), head_dim=40, heads=6)),
        work(scenario(q_len=(150,), past_len=(70,), window=33, data="rising-scores")),
        work(scenario(q_len=(5,), past_len=(200,), data="huge-logit", scale=1.0)),
        masked(work(scenario(q_len=(70,))), np.where(np.arange(70) < 40, 0.0, 300.0)[:, None].repeat(70, 1)),
        masked(work(scenario(q_len=(70,))), np.ones((70, 70), np.bool_)),
        work(scenario(q_len=(70,), past_len=(10,), softcap=3.0)),
        work(scenario(q_len=(40,), past_len=(150,), window=100)),
        masked(opened, np.random.default_rng(5).random((140, 140)) > 0.5),
        opened.with_problem(visible=visible, empty_row="zero"),
        replace(falling, inputs=inputs),
    ]
    return (*((each, answer(each.problem, each.inputs)) for each in found), unreadable(), before_window())


def unreadable() -> tuple[Work, tuple[Answer, ...]]:
    """Keys and values that a mask hides from all are no numbers."""
    given = masked(work(scenario(q_len=(10,), past_len=(37,))), np.ones((1, 10, 20), np.bool_))
    return _with_nan(given, slice(20, None))


def before_window() -> tuple[Work, tuple[Answer, ...]]:
    """Keys and values that lie before the windows of all rows are no numbers."""
    return _with_nan(work(scenario(q_len=(3,), past_len=(100,), window=20)), slice(0, 80))


def _with_nan(given: Work, where: slice) -> tuple[Work, tuple[Answer, ...]]:
    """Past keys and values there are no numbers; the answer is that of numbers."""
    asked = replace(given.with_problem(present_key=None, present_value=None), outputs=given.outputs[:1])
    return with_nan_past(asked, where), answer(asked.problem, given.inputs)


def cases() -> Iterator[tuple[Work, tuple[Answer, ...]]]:
    yield from tiled()
    yield from featured()


def caught(shaders: Path, kernel: str) -> bool:
    """Whether any case shows a difference, or the worker itself says that something is wrong."""
    return any(shown(given, answers, kernel, shaders) for given, answers in cases())


@pytest.mark.parametrize("kernel", ["flash", "flash-large"])
def test_the_shader_as_it_is_passes(kernel: str) -> None:
    assert not caught(shipped.shaders_dir(), kernel)


@pytest.mark.parametrize(("old", "new", "fault"), BROKEN, ids=[fault for _, _, fault in BROKEN])
def test_a_broken_copy_is_caught(old: str, new: str, fault: str, tmp_path: Path) -> None:
    assert caught(broken(tmp_path, "flash", old, new), "flash"), fault


@pytest.mark.parametrize(("old", "new", "fault"), BROKEN_LARGE, ids=[fault for _, _, fault in BROKEN_LARGE])
def test_a_broken_copy_of_the_large_form_is_caught(old: str, new: str, fault: str, tmp_path: Path) -> None:
    assert caught(broken(tmp_path, "flash", old, new), "flash-large"), fault
