"""Broken copies of the decode kernel and of its merge are caught."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from attncheck import shipped
from attncheck.oracle.answer import Answer
from attncheck.oracle.attention import answer
from tests.breaking import broken, shown
from tests.device import Work, work
from tests.drawing import scenario
from tests.unit import test_shaders_broken_features as features
from tests.unit.test_kernels_decode import HARDWARE
from tests.unit.test_shaders_broken_flash import unreadable

pytestmark = pytest.mark.slow

BROKEN = [
    ("decode", "running_max = top;", "", "the running maximum is not kept"),
    ("decode", "let factor = exp2(running_max - top);", "let factor = vec4<f32>(1.0);", "sums are not rescaled"),
    ("decode", "sums = scaled(sums, factor);", "", "earlier values are not rescaled"),
    ("decode", "running_sum *= factor;", "", "the running sum is not rescaled"),
    ("decode", "max(max(running_max, max(x, y)), max(z, w))", "max(running_max, max(x, y))", "the maximum of half"),
    ("decode", "at.kv_head * params.head_group + packed", "packed", "query heads of the first KV head"),
    ("decode", "at.kv_head * params.key_head", "0u", "the keys of the first KV head for all"),
    ("decode", "at.kv_head * params.value_head", "0u", "the values of the first KV head for all"),
    ("decode", "at.batch * params.value_batch", "0u", "the values of the first batch entry for all"),
    ("decode", "params.query_first + at.batch", "at.batch", "queries packed behind others are read from the first"),
    ("decode", "each < PARTS; each++", "each < PARTS / 2u; each++", "the second half of each head is dropped"),
    ("decode", "params.head_dim / WIDTH - 1u", "params.head_dim / WIDTH - 2u", "the last word of a key is another"),
    ("decode", "* (params.softcap * LOG2E)", "* LOG2E", "softcap is not multiplied back"),
    ("decode", "if (params.softcap != 0.0)", "if (false)", "softcap is ignored"),
    ("decode", "(slice + 1u) * params.slice);", "(slice + 1u) * params.slice - 1u);", "the last key of a slice"),
    ("decode", "step < at.end; step +=", "step + STEP <= at.end; step +=", "a last step is skipped"),
    ("decode", "at.first / STEP * STEP", "at.first / TILE * TILE", "a step goes over the end of its slice"),
    ("decode", "share < SHARES; share++", "share < SHARES / 2u; share++", "the values of half of the shares"),
    ("decode", "let weights_z = exp2(z - top);", "let weights_z = exp2(z);", "no maximum for one key in four"),
    ("decode", "= running_sum * share_factor;", "= running_sum;", "totals of shares are not rescaled"),
    ("decode", "let share_factor = exp2(running_max - top);", "let share_factor = vec4<f32>(1.0);", "unscaled shares"),
    ("decode", "+ (slice - params.first_slice) * row_size", "", "slices write over each other"),
    ("decode_merge", "sum = sum * before +", "sum = sum +", "slices are not rescaled to their common maximum"),
    ("decode_merge", "total = total * before +", "total = total +", "sums of slices are not rescaled"),
    ("decode_merge", "seen.first / params.slice - params.first_slice", "0u", "slices before the window are merged"),
    ("decode_merge", "sum += sums[lane + side] * weight;", "", "an eighth of the slices only"),
    ("decode", "score + added * LOG2E", "score + added", "a bias in natural units"),
    ("decode", "hidden, added < LIMIT", "score, false", "hidden keys have scores"),
    ("decode", "query_head(packed, at) * params.bias_head", "at.kv_head * params.bias_head", "a KV head's bias"),
    ("decode", "at.batch * params.bias_batch", "0u", "batch entry 0's bias for all"),
    ("decode", "packed % params.rows * params.bias_row", "packed * params.bias_row", "a packed row's bias"),
    ("decode", "select(ABSENT, HIDDEN, params.mean != 0u)", "HIDDEN", "hidden keys weigh where none is seen"),
    ("decode", "select(ABSENT, HIDDEN, params.mean != 0u)", "ABSENT", "a row masked empty gives 0, not the mean"),
    ("decode", "if (slot < seen.lo || slot >= seen.hi)", "if (false)", "a row that sees nothing weighs scores"),
    ("decode", "return params.masked != 0u && all(scores < vec4<f32>(LIMIT));", "return false;", "hidden NaN"),
    ("decode", "if (hidden && all(weight", "if (hidden || all(weight", "hidden values are left out of a mean"),
    ("decode", "        start += STEP;\n", "", "every step is judged where the first one stands"),
    ("decode_merge", "sink[head] * LOG2E", "sink[head]", "a sink in natural units"),
    ("decode_merge", "sinks[0] = sink[head]", "sinks[0] = sink[0]", "head 0's sink for all"),
    ("decode_merge", "if (params.sinks != 0u)", "if (false)", "sinks are ignored"),
    ("decode_merge", "if (params.zero_sink != 0u)", "if (false)", "smooth softmax is ignored"),
    ("decode_merge", "return factor / all;", "return 1.0 / all;", "sums are not rescaled to the sink's maximum"),
]  # fmt: skip


@cache
def works() -> tuple[tuple[Work, tuple[Answer, ...]], ...]:
    """Cases of one block, several blocks of a slice, and several slices; a softcap; then those of every feature."""
    hostile = [
        work(scenario(heads=heads, kv_heads=1, q_len=(4, 4), past_len=(900, 300), data=data, window=window))
        for heads in (2, 16)
        for data in ("rising-scores", "large-logits")
        for window in (None, 300)
    ]
    plain = [
        work(scenario(heads=6, kv_heads=2, q_len=(3, 3), past_len=(40, 7), head_dim=8)),
        work(scenario(heads=6, kv_heads=2, q_len=(3, 3), past_len=(40, 7), head_dim=64, softcap=5.0)),
        work(scenario(heads=2, kv_heads=1, q_len=(1,), past_len=(511,), data="rising-scores")),
        work(scenario(heads=2, kv_heads=1, q_len=(1,), past_len=(8800,), data="rising-scores")),
        work(scenario(heads=2, kv_heads=1, q_len=(1,), past_len=(1000,), window=890, head_dim=64)),
    ]
    judged = ((each, answer(each.problem, each.inputs)) for each in (*plain, *hostile))
    return (*judged, unreadable(), *features.works())


def caught(shaders: Path) -> bool:
    """Whether any case shows a difference in a form, or the worker itself says that something is wrong."""
    forms = (None, HARDWARE)
    return any(shown(given, answers, "decode", shaders, form) for given, answers in works() for form in forms)


def test_shaders_as_they_are_pass() -> None:
    assert not caught(shipped.shaders_dir())


@pytest.mark.parametrize(("shader", "old", "new", "fault"), BROKEN, ids=[f"{b[0]}: {b[3]}" for b in BROKEN])
def test_a_broken_copy_is_caught(shader: str, old: str, new: str, fault: str, tmp_path: Path) -> None:
    assert caught(broken(tmp_path, shader, old, new)), fault
