"""The tolerance from both sides: rounding keeps well inside it, and typical wrong answers do not.

`docs/tolerance.md` holds the figures of a longer measurement by the same code.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from attncheck.backends.registry import Settings, create
from attncheck.compare import judge
from attncheck.compare.arithmetic import Compute
from attncheck.compare.difference import Difference
from attncheck.engine.expectations import Expectations
from attncheck.graph import read, write
from attncheck.graph.case import Case
from attncheck.oracle.attention import answer
from attncheck.problem import Problem
from attncheck.scenario import expectations
from attncheck.scenario.model import DataKind, Scenario
from attncheck.tensors.dtypes import dtype as tensor_dtype
from attncheck.tensors.dtypes import narrow
from benchmarks.tolerance.drawing import draw
from benchmarks.tolerance.measure import bench
from benchmarks.tolerance.share import EXPECTATIONS
from tests.drawing import scenario
from tests.quality import numpy_kernels

KINDS = get_args(DataKind)

HEADROOM = {"blocked": 1 / 4, "sequential": 1 / 2, "real": 1 / 4}
"""Of the tolerance, what rounding alone may use: the rule of docs/tolerance.md."""

SAMPLE = 1
"""The seed of the sample."""


def drawn_cases(count: int, seed: int, dtype: str, longest: int = 1000) -> list[Scenario]:
    """Shapes, features and data that ONNX Runtime's CPU provider takes too."""
    pick = random.Random(seed)
    cases = []
    for _ in range(count):
        batch, rows = pick.choice((1, 1, 2)), pick.choice((1, 1, 4, 17))
        past = 0 if batch > 1 and rows > 1 else pick.choice([n for n in (0, 5, 20, 100, 1000, 5000) if n <= longest])
        kv_heads = pick.choice((1, 2))
        axes: dict[str, Any] = {
            "dtype": dtype,
            "q_len": (rows,) * batch,
            "past_len": (past,) * batch,
            "kv_heads": kv_heads,
            "heads": kv_heads * pick.choice((1, 2)),
            "head_dim": pick.choice((16, 32, 64, 128, 256)),
            "scale": pick.choice((None, None, 1.0, 0.25)),
            "softcap": pick.choice((0.0, 0.0, 50.0, 2.0)),
            "window": pick.choice((None, None, 1, 4, 17)),
            "rotary": pick.choice((None, None, "half", "interleaved")),
            "data": pick.choice(KINDS),
            "seed": pick.randrange(1000),
        }
        cases.append(scenario(**axes))
    return cases


def on_output(case: Case, outputs: dict[str, NDArray[Any]], compute: Compute) -> Difference:
    """The output alone, judged."""
    problem = read.problem(case.model, case.inputs)
    return judge.differences(problem, answer(problem, case.inputs)[:1], outputs, compute, "sample")[0]


def share_used(found: Difference, dtype: str) -> float:
    """Of the tolerance: margin where float32 stores exactly enough; for float16 what is beyond one honest rounding."""
    rounding = 2.0**-11 * abs(found.expected) if dtype == "float16" else 0.0
    return max(0.0, found.error - rounding) / found.tolerance


@pytest.mark.parametrize(
    ("dtype", "compute", "kernel"),
    [
        ("float32", "f32", "blocked"),
        ("float32", "f32", "sequential"),
        ("float16", "f32", "blocked"),
        ("float16", "native", "blocked"),
    ],
)
def test_a_numpy_kernels_rounding_leaves_the_headroom(dtype: str, compute: Compute, kernel: str) -> None:
    arithmetic = np.float16 if compute == "native" else np.float32
    shares = []
    for drawn in drawn_cases(60, 1, dtype):
        case = write.build(drawn)
        problem = read.problem(case.model, case.inputs)
        with np.errstate(under="ignore"):
            output = numpy_kernels.attention(problem, case.inputs, arithmetic, getattr(numpy_kernels, kernel))
        shares.append(share_used(on_output(case, {"output": output}, compute), dtype))
    assert max(shares) <= HEADROOM[kernel]


@pytest.fixture(scope="module")
def measured() -> list[dict[str, Any]]:
    """A sample of the measurement of docs/tolerance.md, by the same code."""
    known = Expectations(expectations.load([EXPECTATIONS]))
    backends = [backend for name in ("ort-cpu", "wgsl") for backend in create(name, Settings())]
    with bench(backends, known) as workers:
        return [workers.measure(index, draw(SAMPLE, index)) for index in range(60)]


def test_no_drawn_case_is_flagged_on_a_correct_backend(measured: list[dict[str, Any]]) -> None:
    results = [result for record in measured for result in record["results"]]
    assert [it for it in results if it["status"] == "failed"] == []
    judged = [it for it in results if it["verdict"] == "pass" and "factor" in it]
    assert {it["backend"] for it in judged} == {"ort-cpu", "wgsl"}
    assert len(judged) > 60
    for it in judged:
        assert max(it["factor"].values()) <= HEADROOM["real"] * judge.CONSTANT[it["compute"]]


def test_nearly_every_wrong_kernel_that_rounding_cannot_explain_is_rejected(measured: list[dict[str, Any]]) -> None:
    tried = [wrong for record in measured for wrong in record["wrong"].values()]
    rejected = sum(len(it["rejected"]) + len(it["by_poison"]) for it in tried)
    passed = sum(factor > 2.0 for it in tried for factor in it["survivors"].values())
    assert rejected > 1000
    assert passed <= rejected // 50


def test_sums_of_thousands_of_float16_terms_one_by_one_are_a_fault_and_fail() -> None:
    case = write.build(scenario(dtype="float16", q_len=(1,), past_len=(5000,), data="constant"))
    problem = read.problem(case.model, case.inputs)
    output = numpy_kernels.attention(problem, case.inputs, np.float16, numpy_kernels.sequential)
    assert not on_output(case, {"output": output}, "native").passed


def tanh_of_exponentials(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """What is right to u absolutely, and near 0 to few bits."""
    bent: NDArray[np.float32] = np.float32(1) - np.float32(2) / (np.exp(np.float32(2) * x) + np.float32(1))
    return bent


@pytest.mark.parametrize("tanh", [np.tanh, tanh_of_exponentials])
@pytest.mark.parametrize("softcap", [2.0, 50.0, 1e3, 1e5, 1e7])
def test_a_softcap_far_above_the_scores_excuses_no_tanh_that_loses_them(
    softcap: float, tanh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the softcaps that models have either tanh keeps well inside; beyond, the good one only."""
    case = write.build(scenario(q_len=(4,), past_len=(20,), softcap=softcap))
    problem = read.problem(case.model, case.inputs)
    with monkeypatch.context() as patched:
        patched.setattr(np, "tanh", tanh)
        output = numpy_kernels.attention(problem, case.inputs, np.float32, numpy_kernels.blocked)
    margin = on_output(case, {"output": output}, "f32").margin
    if tanh is np.tanh:
        assert margin <= HEADROOM["blocked"]
    else:
        assert margin <= 0.5 if softcap <= 50.0 else margin > 3.0


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_softcap_that_hardly_bends_has_nearly_the_tolerance_of_none(dtype: str) -> None:
    def tolerance(softcap: float) -> NDArray[np.float64]:
        case = write.build(scenario(q_len=(4,), past_len=(20,), dtype=dtype, softcap=softcap))
        (first, *_) = answer(read.problem(case.model, case.inputs), case.inputs)
        return judge.tolerances(first, tensor_dtype(dtype), "f32", None)

    assert np.all(tolerance(1e7) <= 2.0 * tolerance(0.0))
    assert np.all(tolerance(1e7) >= tolerance(0.0))


Wrong = Callable[[Problem], Problem]


def shift(low: int, high: int) -> Wrong:
    """Visible intervals with both ends moved, within the keys that are there."""

    def moved(problem: Problem) -> Problem:
        kv_len = np.asarray(problem.kv_len)[:, None]
        ends = np.stack(
            [
                np.clip(problem.visible[..., 0] + low, 0, kv_len),
                np.clip(problem.visible[..., 1] + high, 0, kv_len),
            ],
            axis=-1,
        )
        return replace(problem, visible=ends.astype(np.int32))

    return moved


def without_causality(problem: Problem) -> Problem:
    everything = np.stack([np.zeros(problem.batch), np.asarray(problem.kv_len)], axis=-1)[:, None]
    return replace(problem, visible=np.broadcast_to(everything, problem.visible.shape).astype(np.int32))


def without_the_past_offset(problem: Problem) -> Problem:
    past_len = np.asarray(problem.past_len)[:, None]
    visible = np.stack([problem.visible[..., 0], problem.visible[..., 1] - past_len], axis=-1)
    return replace(problem, visible=visible.astype(np.int32))


def positions_from_0(problem: Problem) -> Problem:
    assert problem.rotary is not None
    first = problem.rotary.positions[:, :1]
    return replace(problem, rotary=replace(problem.rotary, positions=problem.rotary.positions - first))


def other_style(problem: Problem) -> Problem:
    assert problem.rotary is not None
    style = "half" if problem.rotary.style == "interleaved" else "interleaved"
    return replace(problem, rotary=replace(problem.rotary, style=style))  # type: ignore[arg-type]


WRONG_ANSWERS: dict[str, tuple[dict[str, Any], Wrong]] = {
    "softcap 2 ignored": ({"softcap": 2.0}, lambda it: replace(it, softcap=0.0)),
    "softcap 50 ignored": ({"softcap": 50.0}, lambda it: replace(it, softcap=0.0)),
    "softcap 50 ignored on large logits": (
        {"softcap": 50.0, "data": "large-logits"},
        lambda it: replace(it, softcap=0.0),
    ),
    "softcap before scale": (
        {"softcap": 2.0, "scale": 0.25},
        lambda it: replace(it, softcap=it.softcap * it.scale),
    ),
    "a window one key too wide": ({"window": 4}, shift(-1, 0)),
    "a window one key too narrow": ({"window": 4}, shift(1, 0)),
    "the window forgotten": ({"window": 4}, lambda it: replace(it, visible=it.visible * np.array([0, 1], np.int32))),
    "the last key dropped": ({}, shift(0, -1)),
    "the first key dropped": ({}, shift(1, 0)),
    "one key beyond causality": ({}, shift(0, 1)),
    "causality missing": ({}, without_causality),
    "the causal triangle not shifted by the past": ({}, without_the_past_offset),
    "scale applied twice": ({}, lambda it: replace(it, scale=it.scale**2)),
    "scale 1 for the default": ({}, lambda it: replace(it, scale=1.0)),
    "rotary forgotten": ({"rotary": "half"}, lambda it: replace(it, rotary=None)),
    "rotary of the other style": ({"rotary": "interleaved"}, other_style),
    "rotary positions without the past": ({"rotary": "half"}, positions_from_0),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "shape",
    [
        {"q_len": (4,), "past_len": (20,)},
        {"q_len": (3, 3, 3), "past_len": (9, 33, 5)},
        {"q_len": (16,), "past_len": (64,), "head_dim": 64},
    ],
    ids=["speculative", "ragged", "chunked"],
)
@pytest.mark.parametrize("fault", WRONG_ANSWERS)
def test_a_typical_wrong_answer_fails(fault: str, shape: dict[str, Any], dtype: str) -> None:
    features, wrong = WRONG_ANSWERS[fault]
    case = write.build(scenario(**shape, **features, dtype=dtype))
    problem = read.problem(case.model, case.inputs)
    outputs = {each.output: narrow(each.values, dtype) for each in answer(wrong(problem), case.inputs)}
    found = judge.differences(problem, answer(problem, case.inputs), outputs, "f32", fault)
    assert max(each.margin for each in found) > 3
    assert found[0].failing > found[0].compared // 50


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_swapped_heads_and_a_lost_half_of_a_head_fail_on_every_kind_of_data(kind: str, dtype: str) -> None:
    case = write.build(scenario(q_len=(8,), past_len=(8,), data=kind, dtype=dtype))
    right = narrow(answer(read.problem(case.model, case.inputs), case.inputs)[0].values, dtype)
    heads = right.reshape(1, 8, 4, 16)
    half = heads.copy()
    half[..., 8:] = 0
    for wrong in (heads[:, :, [2, 3, 0, 1]], half):
        assert not on_output(case, {"output": wrong.reshape(right.shape)}, "f32").passed
