"""KV caches of integers: how they are stored, what the oracle says of them, and that wrong ones are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attncheck.compare import judge
from attncheck.graph import given, read, write
from attncheck.oracle.attention import answer
from attncheck.oracle.bounded import Bounded, exact
from attncheck.oracle.quantised import quantised
from attncheck.problem import Problem, split_heads
from attncheck.scenario import from_command_line
from attncheck.tensors.dtypes import narrow, widen

HEADS, KV_HEADS, DIM = 4, 2, 16


def fed(text: str) -> tuple[Problem, dict[str, NDArray[Any]]]:
    case = write.build(from_command_line(text))
    problem = read.problem(case.model, case.inputs)
    assert given.outputs(problem) == case.outputs
    return problem, dict(case.inputs)


def test_two_integers_of_4_bits_share_a_byte_the_even_one_in_the_lower_half() -> None:
    values = np.array([[-8.0, 7.0, 0.0, -1.0]])
    stored = narrow(values, "int4x2")
    assert stored.tolist() == [[0xF0, 0x78]]
    np.testing.assert_array_equal(widen(stored, "int4x2"), values)
    assert narrow(np.array([-200.0, 2.6, np.nan]), "int8").tolist() == [-128, 3, 127]


@pytest.mark.parametrize("cache", ["int8", "int4"])
@pytest.mark.parametrize("scales", ["tensor", "channel"])
def test_the_oracle_is_attention_over_what_the_integers_stand_for(cache: str, scales: str) -> None:
    problem, inputs = fed(f"kv_cache={cache} kv_scales={scales} q_len=3 past_len=5 heads=4 kv_heads=2")
    output, present_key, present_value = answer(problem, inputs)
    bits = {"int8": "int8", "int4": "int4x2"}[cache]
    wholes = []
    for role, present, scale in (("key", present_key, "k_scale"), ("value", present_value, "v_scale")):
        new = split_heads(inputs[role], "bsnh", KV_HEADS).astype(np.float64)
        past, factor = widen(inputs[f"past_{role}"], bits), inputs[scale].astype(np.float64)
        integers = np.concatenate([past, np.rint(new / factor)], axis=2)
        np.testing.assert_array_equal(present.values, integers)
        wholes.append(np.repeat(integers * factor, HEADS // KV_HEADS, axis=1)[0])
    keys, values = wholes
    query = split_heads(inputs["query"], "bsnh", HEADS)[0].astype(np.float64)
    found = split_heads(output.values, "bsnh", HEADS)[0]
    for head, row in np.ndindex(HEADS, 3):
        weights = np.exp(keys[head, : 6 + row] @ query[head, row] / 4.0)
        expected = weights @ values[head, : 6 + row] / weights.sum()
        np.testing.assert_allclose(found[head, row], expected, rtol=1e-11, atol=1e-13)


def test_a_number_at_a_tie_may_become_either_integer_and_no_other_may() -> None:
    rows = np.array([[[[0.5, 1.5, 2.4, 0.5 + 1e-9, 0.5 + 1e-3]]]])
    held = quantised(exact(rows), np.ones(1), "int8", "float32")
    assert held.values.ravel().tolist() == [0.0, 2.0, 2.0, 1.0, 1.0]
    assert (held.compute.ravel() > 0).tolist() == [True, True, False, True, False]
    for constant in judge.CONSTANT.values():
        allowed = held.compute.ravel() * 2.0**-24 * constant
        assert (allowed[[0, 1, 3]] > 1.0).all()
        assert (allowed < 2.0).all()
    turned = Bounded(rows, np.full_like(rows, 1e4), np.zeros_like(rows))
    assert quantised(turned, np.ones(1), "int8", "float32").compute.ravel()[4] > 0


def test_an_integer_one_off_is_a_mismatch() -> None:
    problem, inputs = fed("kv_cache=int8 q_len=3 past_len=5")
    answers = answer(problem, inputs)
    outputs = {
        each.output: narrow(each.values, role.dtype) for each, role in zip(answers, problem.outputs, strict=True)
    }
    assert all(it.passed for it in judge.differences(problem, answers, outputs, "f32", "it"))
    outputs["present_key"][0, 1, 6, 3] += 1
    found = judge.differences(problem, answers, outputs, "f32", "it")
    assert [it.role for it in found if not it.passed] == ["present_key"]


def test_what_is_not_read_is_named() -> None:
    case = write.build(from_command_line("kv_cache=int8 q_len=1 past_len=5"))
    floats = {**case.inputs, "past_key": case.inputs["past_key"].astype(np.float32)}
    with pytest.raises(read.Unreadable, match="past buffers of float32 and 8 bits is not read"):
        read.problem(case.model, floats)
