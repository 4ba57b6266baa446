"""The oracle's bounds on rounding: the documented formula, repeated here one element at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attncheck.graph import read, write
from attncheck.oracle.attention import answer
from attncheck.problem import Arrays, Problem, split_heads
from tests.drawing import scenario

Row = NDArray[np.float64]
Bounded = tuple[Row, Row, Row]
"""A row after rotary, |x1 cos| + |x2 sin| of it, and what of it is rounded to storage."""


def turned(problem: Problem, inputs: Arrays, row: Row, b: int, i: int) -> Bounded:
    values, compute, storage = row.copy(), np.zeros_like(row), np.zeros_like(row)
    rotary = problem.rotary
    if rotary is None:
        return values, compute, storage
    position = int(rotary.positions[b, i])
    for pair in range(rotary.dim // 2):
        first, second = (2 * pair, 2 * pair + 1) if rotary.style == "interleaved" else (pair, pair + rotary.dim // 2)
        cos, sin = (float(inputs[cache][position, pair]) for cache in (rotary.cos, rotary.sin))
        values[first], values[second] = (
            row[first] * cos - row[second] * sin,
            row[second] * cos + row[first] * sin,
        )
        compute[first] = abs(row[first] * cos) + abs(row[second] * sin)
        compute[second] = abs(row[second] * cos) + abs(row[first] * sin)
        storage[first], storage[second] = abs(values[first]), abs(values[second])
    return values, compute, storage


def keys_of(problem: Problem, inputs: Arrays, b: int, head: int) -> list[Bounded]:
    """The present keys of one KV head, as rows."""
    new = split_heads(inputs["key"], "bsnh", problem.kv_heads).astype(np.float64)[b, head]
    past: list[Bounded] = []
    if problem.past_key:
        kept = inputs["past_key"].astype(np.float64)[b, head, : problem.past_len[b]]
        past = [(row, np.zeros_like(row), np.zeros_like(row)) for row in kept]
    return past + [turned(problem, inputs, new[i], b, i) for i in range(problem.new_len[b])]


def bounds(problem: Problem, inputs: Arrays, b: int, head: int, i: int, d: int) -> tuple[float, float]:
    """(compute, storage) of one element of the output."""
    low, high = (int(end) for end in problem.visible[b, i])
    query = split_heads(inputs["query"], "bsnh", problem.heads).astype(np.float64)[b, head, i]
    q, q_compute, q_storage = turned(problem, inputs, query, b, i)
    keys = keys_of(problem, inputs, b, head // problem.group)[low:high]
    v = answer(problem, inputs)[2].values[b, head // problem.group, low:high, d]
    scores, errors, stored = [], [], []
    for k, k_compute, k_storage in keys:
        score = problem.scale * float(q @ k)
        terms = min(int(np.count_nonzero(q)), int(np.count_nonzero(k)))
        error = problem.scale * float(np.abs(q) @ np.abs(k) + q_compute @ np.abs(k) + np.abs(q) @ k_compute)
        error += math.sqrt(max(terms - 1, 0)) * abs(score)
        carried = problem.scale * float(q_storage @ np.abs(k) + np.abs(q) @ k_storage)
        if problem.softcap:
            bent = math.tanh(score / problem.softcap)
            slope = 1 - bent**2
            score = problem.softcap * bent
            error, carried = slope * error + 3 * abs(score), slope * carried
        scores.append(score)
        errors.append(error)
        stored.append(carried)
    weights = [math.exp(score - max(scores)) for score in scores]
    p = [weight / sum(weights) for weight in weights]
    errors = [error + max(scores) - score for error, score in zip(errors, scores, strict=True)]
    mean = sum(a * b for a, b in zip(p, v, strict=True))
    spread = math.sqrt(max(0.0, sum(a * (b - mean) ** 2 for a, b in zip(p, v, strict=True))))
    compute = (
        math.sqrt(sum(a * e * e for a, e in zip(p, errors, strict=True))) * spread
        + 2 * sum(a * abs(b) for a, b in zip(p, v, strict=True))
        + math.sqrt(sum(a > 2**-25 for a in p)) * abs(mean)
    )
    return compute, abs(mean) + math.sqrt(sum(a * e * e for a, e in zip(p, stored, strict=True))) * spread


@pytest.mark.parametrize(
    "axes",
    [
        {},
        {"softcap": 2.0, "scale": 0.4},
        {"rotary": "half"},
        {"rotary": "interleaved", "rotary_dim": 6, "softcap": 5.0},
        {"window": 3, "data": "large-logits"},
        {"data": "rising-scores", "scale": 2.0, "dtype": "float16", "rotary": "half"},
        {"data": "huge-logit"},
        {"data": "one-hot"},
    ],
    ids=str,
)
def test_the_outputs_bounds_are_the_documented_formula(axes: dict[str, Any]) -> None:
    case = write.build(scenario(q_len=(3, 3), past_len=(2, 5), head_dim=8, **axes))
    problem = read.problem(case.model, case.inputs)
    found = answer(problem, case.inputs)[0]
    for b, head, i, d in [(0, 0, 0, 0), (0, 3, 2, 7), (1, 1, 1, 3), (1, 2, 0, 5), (1, 3, 2, 6)]:
        compute, storage = bounds(problem, case.inputs, b, head, i, d)
        there = (b, i, head * 8 + d)
        assert found.compute[there] == pytest.approx(compute, rel=1e-6)
        assert found.storage[there] == pytest.approx(storage, rel=1e-6)


@pytest.mark.parametrize("style", ["half", "interleaved"])
def test_the_present_keys_bounds_are_those_of_the_rotation(style: str) -> None:
    case = write.build(scenario(q_len=(3, 3), past_len=(2, 5), rotary=style, rotary_dim=6))
    problem = read.problem(case.model, case.inputs)
    found = answer(problem, case.inputs)[1]
    for b, head in np.ndindex(2, 2):
        for slot, (values, compute, storage) in enumerate(keys_of(problem, case.inputs, b, head)):
            np.testing.assert_allclose(found.values[b, head, slot], values, rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(found.compute[b, head, slot], compute, rtol=1e-12, atol=0)
            np.testing.assert_allclose(found.storage[b, head, slot], storage, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("head_dim", [64, 128, 256, 512])
def test_a_sum_that_one_term_rules_is_bounded_in_float32_whatever_its_order(head_dim: int) -> None:
    """One term of 128 among small ones: every other one is rounded as the whole is. ONNX Runtime's CPU sums so too."""
    random = np.random.default_rng(head_dim)
    largest = 0.0
    for _ in range(300):
        terms = np.concatenate([[128.0 * math.sqrt(head_dim)], random.standard_normal(head_dim - 1)]).astype(np.float32)
        random.shuffle(terms[: random.integers(1, head_dim)])
        exact = float(terms.astype(np.float64).sum())
        error = abs(float(np.add.accumulate(terms)[-1]) - exact)
        bound = float(np.abs(terms.astype(np.float64)).sum()) + math.sqrt(head_dim - 1) * abs(exact)
        largest = max(largest, error / (2.0**-24 * bound))
    assert 0.5 < largest < 4.0


def test_an_error_within_the_score_bound_moves_the_output_by_no_more_than_the_first_term() -> None:
    """Scores moved by +-u * e, in whatever directions, with u small: the bound is one, not an estimate."""
    case = write.build(scenario(q_len=(4,), past_len=(6,), heads=1, kv_heads=1, data="large-logits", scale=0.1))
    problem = read.problem(case.model, case.inputs)
    found, key, value = answer(problem, case.inputs)
    k, v = key.values[0, 0], value.values[0, 0]
    q = case.inputs["query"].astype(np.float64)[0]
    random = np.random.default_rng(1)
    u = 1e-7
    for i in range(4):
        end = 7 + i
        score = 0.1 * k[:end] @ q[i]
        error = 0.1 * np.abs(k[:end]) @ np.abs(q[i]) + math.sqrt(k.shape[1] - 1) * np.abs(score)
        error += score.max() - score
        for _ in range(50):
            moved = score + u * error * random.choice((-1, 1), end)
            weight = np.exp(moved - moved.max())
            change = np.abs(weight / weight.sum() @ v[:end] - found.values[0, i])
            assert (change <= u * found.compute[0, i] * (1 + 1e-4) + 1e-9).all()
