"""Linear attention: what is read and written of both operators, what the oracle says, what wrong kernels give."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper
from onnx.reference import ReferenceEvaluator

from attncheck.backends.wgsl import limits
from attncheck.compare.diagnosis import diagnose
from attncheck.compare.judge import errors
from attncheck.graph import read, write
from attncheck.graph.read import Unreadable
from attncheck.kernels import linear as plans
from attncheck.kernels.policy import Policy
from attncheck.oracle import ask
from attncheck.oracle.answer import NoAnswer
from attncheck.oracle.wrong.lineup import lineup
from attncheck.oracle.wrong.recurrences import RECURRENCES
from attncheck.problem import Arrays, LinearProblem
from attncheck.scenario.model import Scenario
from attncheck.tensors.dtypes import narrow
from tests import device
from tests.device import hello
from tests.drawing import scenario

Float = NDArray[np.float64]


@st.composite
def linear_scenarios(draw: st.DrawFn) -> Scenario:
    """Any small scenario of linear attention."""
    op = draw(st.sampled_from(("linear", "ms-linear")))
    kv_heads, group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    heads = kv_heads * group
    if op == "ms-linear" and draw(st.booleans()):
        heads, kv_heads = kv_heads, heads
    return scenario(
        op=op,
        q_len=(draw(st.integers(1, 12)),) * draw(st.integers(1, 3)),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=draw(st.integers(1, 9)),
        v_head_dim=draw(st.integers(1, 9)),
        scale=draw(st.sampled_from((None, 0.5, -1.0))),
        update_rule=draw(st.sampled_from(("linear", "gated", "delta", "gated-delta"))),
        decay=draw(st.sampled_from(("by-head", "by-dim"))),
        beta=draw(st.sampled_from(("by-head", "shared"))),
        past_state=draw(st.sampled_from(("absent", "zeros", "given"))),
        seed=draw(st.integers(0, 5)),
    )


def posed(drawn: Scenario) -> tuple[LinearProblem, Arrays]:
    case = write.build(drawn)
    problem = read.any_problem(case.model, case.inputs)
    assert isinstance(problem, LinearProblem)
    return problem, case.inputs


def by_hand(drawn: Scenario, inputs: Arrays) -> tuple[Float, Float]:
    """The text's sentences, one number after the other: output [batch, rows, heads * dim], and the last state."""
    batch, rows, heads, kv_heads = drawn.batch, max(drawn.q_len), drawn.heads, drawn.kv_heads
    dim, v_dim, most = drawn.head_dim, drawn.v_head_dim, max(drawn.heads, drawn.kv_heads)
    held = {name: array.astype(float) for name, array in inputs.items()}
    state = held.get("past_state", np.zeros((batch, kv_heads, dim, v_dim))).copy()
    output = np.zeros((batch, rows, most * v_dim))
    scale = drawn.scale or 1 / math.sqrt(dim)
    for b, t, h in np.ndindex(batch, rows, kv_heads):
        k = held["key"][b, t, h * dim : (h + 1) * dim]
        v = held["value"][b, t, h * v_dim : (h + 1) * v_dim]
        if "decay" in held:
            logs = held["decay"][b, t].reshape(kv_heads, -1)[h]
            for i in range(dim):
                state[b, h, i] *= math.exp(logs[i % len(logs)])
        beta = held["beta"][b, t, h % held["beta"].shape[2]] if "beta" in held else 1.0
        for j in range(v_dim):
            lacks = v[j] - (sum(k[i] * state[b, h, i, j] for i in range(dim)) if "beta" in held else 0.0)
            for i in range(dim):
                state[b, h, i, j] += beta * k[i] * lacks
        for asker in range(most):
            if asker * kv_heads // most != h:
                continue
            q = held["query"][b, t].reshape(heads, dim)[asker * heads // most]
            output[b, t, asker * v_dim : (asker + 1) * v_dim] = scale * (q @ state[b, h])
    return output, state


@given(linear_scenarios())
@settings(deadline=None, max_examples=60)
def test_the_oracle_is_the_text_one_number_after_the_other(drawn: Scenario) -> None:
    problem, inputs = posed(drawn)
    output, state = ask.answer(problem, inputs)
    wanted = by_hand(drawn, inputs)
    np.testing.assert_allclose(output.values, wanted[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(state.values, wanted[1], rtol=0, atol=1e-9)


@given(linear_scenarios())
@settings(deadline=None, max_examples=40)
def test_the_reference_evaluator_of_onnx_gives_what_the_oracle_says(drawn: Scenario) -> None:
    if drawn.op == "ms-linear":
        return
    case = write.build(drawn)
    values = ReferenceEvaluator(onnx.load_model_from_string(case.model)).run(None, dict(case.inputs))
    for got, answer in zip(values, ask.answer(*posed(drawn)), strict=True):
        np.testing.assert_allclose(np.asarray(got, np.float64), answer.values, rtol=0, atol=1e-5)


@given(linear_scenarios())
@settings(deadline=None, max_examples=40)
def test_the_kernel_recurs_as_the_oracle_does(drawn: Scenario) -> None:
    assert device.failing(device.differences(device.work(drawn), "linear")) == []


@pytest.mark.parametrize("past", ["given", "absent"])
def test_the_kernel_goes_on_where_a_dispatch_ended(monkeypatch: pytest.MonkeyPatch, past: Any) -> None:
    monkeypatch.setattr(plans, "LOOP_ROUNDS", 300)
    given_work = device.work(scenario(op="linear", q_len=(20,), past_state=past, decay="by-dim"))
    assert sum(it.shader == "linear" for it in device.plan(given_work, "linear").dispatches) == 5
    assert device.failing(device.differences(given_work, "linear")) == []


def test_the_bound_of_one_token_in_closed_form() -> None:
    """From zeros without a gate: the state is k v, rounded as product and sum; the output adds |q| |S|, and |q.S|."""
    problem, inputs = posed(scenario(op="linear", q_len=(1,), heads=1, kv_heads=1, head_dim=2, update_rule="linear"))
    k, v, q = (inputs[name].astype(float)[0, 0] for name in ("key", "value", "query"))
    sizes = np.abs(np.outer(k, v))
    output, state = ask.answer(problem, inputs)
    np.testing.assert_allclose(state.compute[0, 0], 2 * sizes, rtol=1e-12)
    expected = (3 * np.abs(q) @ sizes + np.abs(q @ np.outer(k, v))) / math.sqrt(2)
    np.testing.assert_allclose(output.compute[0, 0], expected, rtol=1e-12)


def bounds_by_hand(drawn: Scenario, inputs: Arrays) -> tuple[Float, Float]:
    """(output, state) of the first head, [rows, v_head_dim] and [head_dim, v_head_dim]: each rounding on its own."""
    held = {name: array.astype(float)[0] for name, array in inputs.items()}
    dim, v_dim = drawn.head_dim, drawn.v_head_dim
    state, error = held["past_state"][0].copy(), np.zeros((dim, v_dim))
    output = np.zeros((max(drawn.q_len), v_dim))

    def dot(row: Float, j: int) -> tuple[float, float]:
        terms = [(row[i] * state[i, j], abs(row[i]) * (error[i, j] + abs(state[i, j]))) for i in range(dim)]
        count, total = sum(value != 0 for value, _ in terms), sum(value for value, _ in terms)
        return total, sum(doubt for _, doubt in terms) + math.sqrt(max(count - 1, 0)) * abs(total)

    for t in range(len(output)):
        k, v, q = held["key"][t, :dim], held["value"][t, :v_dim], held["query"][t, :dim]
        if "decay" in held:
            logarithm = held["decay"][t, 0]
            error = math.exp(logarithm) * (error + (2 + abs(logarithm)) * np.abs(state))
            state = math.exp(logarithm) * state
        given = [dot(k, j) if "beta" in held else (0.0, 0.0) for j in range(v_dim)]
        beta = held["beta"][t, 0] if "beta" in held else 1.0
        for j, (total, doubt) in enumerate(given):
            lacks = v[j] - total
            moved = abs(beta) * (doubt + 2 * abs(lacks)) if "beta" in held else 0.0
            for i in range(dim):
                step = k[i] * beta * lacks
                state[i, j] += step
                error[i, j] += abs(k[i]) * moved + abs(step) + abs(state[i, j])
        output[t] = [dot(q, j)[1] / math.sqrt(dim) for j in range(v_dim)]
    return output, error


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated-delta"])
@pytest.mark.parametrize("data", ["normal", "constant", "one-hot"])
def test_the_bounds_are_the_documented_recurrence(rule: Any, data: Any) -> None:
    drawn = scenario(
        op="linear", q_len=(4,), heads=1, kv_heads=1, head_dim=5, v_head_dim=3, update_rule=rule, data=data,
        past_state="given",
    )  # fmt: skip
    problem, inputs = posed(drawn)
    output, state = ask.answer(problem, inputs)
    wanted = bounds_by_hand(drawn, inputs)
    np.testing.assert_allclose(output.compute[0], wanted[0], rtol=1e-9)
    np.testing.assert_allclose(state.compute[0, 0], wanted[1], rtol=1e-9)


@pytest.mark.parametrize("rule", ["linear", "delta"])
def test_a_sum_that_one_sign_rules_is_bounded_in_float32_one_addition_after_the_other(rule: Any) -> None:
    """Over 128 terms of one sign each addition rounds as the whole does: more than the products alone let pass."""
    largest = 0.0
    for seed in range(20):
        shape: dict[str, Any] = {"heads": 1, "kv_heads": 1, "head_dim": 128, "v_head_dim": 16}
        drawn = scenario(op="linear", q_len=(2,), update_rule=rule, data="constant", seed=seed, **shape)
        problem, inputs = posed(drawn)
        q, k, v = (inputs[name][0].astype(np.float32) for name in ("query", "key", "value"))
        state = np.zeros((128, 16), np.float32)
        for t in range(2):
            held = np.add.accumulate(k[t][:, None] * state)[-1] if problem.delta else np.float32(0.0)
            beta = inputs["beta"][0, t, 0] if problem.delta else np.float32(1.0)
            state = state + k[t][:, None] * (beta * (v[t] - held))
        got = np.float32(problem.scale) * np.add.accumulate(q[1][:, None] * state)[-1]
        answer = ask.answer(problem, inputs)[0]
        factor = np.abs(got - answer.values[0, 1]) / (2.0**-24 * answer.compute[0, 1])
        largest = max(largest, float(factor.max()))
    assert 0.5 < largest < 4.0


@given(linear_scenarios())
@settings(deadline=None, max_examples=30)
def test_arithmetic_in_float32_stays_within_the_bound(drawn: Scenario) -> None:
    """A recurrence in NumPy's float32, of another order of sums, departs by no more than a few times the bound."""
    problem, inputs = posed(drawn)
    s: dict[str, Any] = {role.name: inputs[role.tensor.name] for role in problem.inputs}
    kv_heads, rows = problem.kv_heads, problem.rows
    k, v = (s[name].reshape(problem.batch, rows, kv_heads, -1).transpose(0, 2, 1, 3) for name in ("key", "value"))
    state = s.get("past_state", np.zeros(problem.state_shape, np.float32)).copy()
    for t in range(rows):
        if "decay" in s:
            state *= np.exp(s["decay"][:, t].reshape(problem.batch, kv_heads, -1)[..., None])
        added = v[:, :, t]
        if problem.delta:
            added = s["beta"][:, t][..., None] * (added - (k[:, :, t, None] @ state)[:, :, 0])
        state = (state + k[:, :, t, :, None] * added[:, :, None]).astype(np.float32)
    answer = ask.answer(problem, inputs)[1]
    assert (np.abs(state - answer.values) <= 4 * 2.0**-24 * (answer.compute + answer.storage) + 1e-38).all()


FULL: dict[str, Any] = {
    "op": "linear", "q_len": (70, 70), "heads": 6, "kv_heads": 3, "head_dim": 4, "v_head_dim": 4, "past_state": "given",
}  # fmt: skip
CASES = {"by dim": scenario(**FULL, decay="by-dim"), "by head": scenario(**FULL, seed=3)}


@pytest.mark.parametrize("name", CASES)
def test_a_relevant_wrong_kernel_differs_and_is_told_by_its_words(name: str) -> None:
    problem, inputs = posed(CASES[name])
    answers = ask.answer(problem, inputs)
    for wrong in (wrong for wrong in RECURRENCES if wrong.relevant(problem)):
        outputs = wrong.outputs(problem, inputs)
        assert max(errors(outputs[it.output], it.values)[0].max() for it in answers) > 1e-3, wrong.name
        stored = {name: narrow(values, "float32") for name, values in outputs.items()}
        assert wrong.words in diagnose(problem, inputs, answers, stored, "f32").words, wrong.name


@pytest.mark.parametrize(("past", "shows"), [("given", True), ("zeros", False)])
def test_a_past_of_zeros_that_is_ignored_is_no_fault(past: str, *, shows: bool) -> None:
    problem, inputs = posed(scenario(op="linear", q_len=(3,), past_state=past))
    assert ("linear-past-ignored" in {it.name for it in lineup(problem, inputs).known}) is shows


def test_every_wrong_kernel_is_relevant_to_some_case_and_a_right_one_is_the_oracle() -> None:
    relevant = {wrong.name for it in CASES.values() for wrong in RECURRENCES if wrong.relevant(posed(it)[0])}
    assert relevant == {wrong.name for wrong in RECURRENCES}
    problem, inputs = posed(scenario(op="linear", q_len=(3,), update_rule="linear"))
    (untold,) = [wrong for wrong in RECURRENCES if wrong.name == "linear-delta-ignored"]
    for answer in ask.answer(problem, inputs):
        np.testing.assert_allclose(untold.outputs(problem, inputs)[answer.output], answer.values, atol=1e-12)


def model(inputs: dict[str, NDArray[Any]], domain: str = "", **attributes: Any) -> bytes:
    node = helper.make_node("LinearAttention", list(inputs), ["o", "s"], domain=domain, **attributes)
    values = [helper.make_tensor_value_info(name, 1, array.shape) for name, array in inputs.items() if name]
    outputs = [helper.make_tensor_value_info(name, 1, None) for name in ("o", "s")]
    imports = [helper.make_opsetid("", 27), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", values, outputs)
    return bytes(helper.make_model(graph, opset_imports=imports).SerializeToString())


ROWS = {name: np.zeros((1, 2, 8), np.float32) for name in ("q", "k", "v")}
FORBIDDEN: dict[str, dict[str, Any]] = {
    "needs decay": {"update_rule": "gated", "q_num_heads": 2, "kv_num_heads": 2},
    "needs beta": {"update_rule": "delta", "q_num_heads": 2, "kv_num_heads": 2},
    "must be a multiple": {"update_rule": "linear", "q_num_heads": 2, "kv_num_heads": 4},
}


@pytest.mark.parametrize("why", FORBIDDEN)
def test_what_the_text_forbids_has_no_answer(why: str) -> None:
    with pytest.raises(NoAnswer, match=why):
        ask.answer(read.any_problem(model(ROWS, **FORBIDDEN[why]), ROWS), ROWS)


def test_states_may_share_a_query_in_com_microsoft_only() -> None:
    shared = model(ROWS, "com.microsoft", **FORBIDDEN["must be a multiple"])
    assert read.any_problem(shared, ROWS).invalid == ""


def test_windows_of_states_and_unknown_rules_are_not_read() -> None:
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    with pytest.raises(Unreadable, match="state_window"):
        read.any_problem(model(ROWS, "com.microsoft", update_rule="linear", state_window=2, **heads), ROWS)
    with pytest.raises(Unreadable, match="update_rule softmax"):
        read.any_problem(model(ROWS, "com.microsoft", update_rule="softmax", **heads), ROWS)


def test_keys_have_length_1_where_the_update_corrects() -> None:
    for rule, wanted in (("delta", True), ("gated", False)):
        keys = write.build(scenario(op="linear", q_len=(4,), update_rule=rule)).inputs["key"].reshape(4, 2, 16)
        assert bool(np.allclose(np.linalg.norm(keys.astype(float), axis=-1), 1.0, atol=1e-6)) is wanted


def test_there_is_one_kernel_and_it_says_what_it_cannot_do() -> None:
    problem, _ = posed(scenario(op="linear", q_len=(1,)))
    assert Policy("naive").choose(problem, limits(hello())).kernels == ("linear",)
    assert plans.refusal(problem) is None
    assert "too many rounds" in str(plans.refusal(replace(problem, head_dim=40_000)))
