"""Numbers that a scenario gives itself: they reach q, k and v of every operator, and leave everything else alone."""

from __future__ import annotations

import numpy as np
import pytest

from attncheck.graph import read, write
from attncheck.graph.case import Case
from attncheck.problem import Problem, role_heads
from attncheck.scenario import ScenarioErrors, command_line, from_command_line

SHAPE = "q_len=2 heads=4 kv_heads=2 head_dim=2"


def built(text: str) -> tuple[Case, Problem]:
    case = write.build(from_command_line(text))
    problem = read.problem(case.model, case.inputs)
    assert isinstance(problem, Problem)
    return case, problem


@pytest.mark.parametrize("op", ["gqa", "mha", "attention"])
def test_a_list_is_read_token_by_token_the_past_first(op: str) -> None:
    case, it = built(f"op={op} {SHAPE} past_len=1 k_values=1+2+3+4+5+6+7+8+9+10+11+12 v_values=-1+0.5 q_values=3")
    assert it.past_key is not None
    past = role_heads(case.inputs[it.past_key.name], it.past_key, it.kv_heads)
    new = role_heads(case.inputs[it.key.name], it.key, it.kv_heads)
    repeated = it.kv_heads // 2
    assert past[0, ::repeated, 0].tolist() == [[1, 2], [3, 4]]
    assert new[0, ::repeated].tolist() == [[[5, 6], [9, 10]], [[7, 8], [11, 12]]]
    assert set(case.inputs[it.query.name].ravel()) == {3.0}
    assert set(case.inputs[it.value.name].ravel()) == {-1.0, 0.5}


def test_cutting_the_past_moves_the_list_which_begins_with_its_oldest_token() -> None:
    case, it = built("q_len=2 heads=2 head_dim=2 k_values=1+2+3+4")
    assert role_heads(case.inputs[it.key.name], it.key, it.kv_heads)[0, :, 0].tolist() == [[1, 2], [3, 4]]


def test_tensors_without_numbers_stay_generated_and_poison_stays() -> None:
    given, _ = built(f"{SHAPE} past_len=1 capacity=8 v_values=0.5")
    plain, _ = built(f"{SHAPE} past_len=1 capacity=8")
    for name in ("query", "key", "past_key", "seqlens_k"):
        assert np.array_equal(given.inputs[name], plain.inputs[name], equal_nan=name == "past_key")
    past = given.inputs["past_value"]
    assert (past[:, :, :1] == 0.5).all()
    assert np.isnan(past[:, :, 1:]).all()


@pytest.mark.parametrize(
    ("bias", "wanted"),
    [
        ("op=gqa bias=BxNxSxT", [[[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 10, 11]]]),
        ("op=attention bias=NxSxT", [[[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 10, 11]]]),
        ("op=mha bias=1x1xSxT", [[[0, 1, 2], [3, 4, 5]]]),
    ],
)
def test_a_bias_is_read_query_by_query_and_of_each_head_by_head(bias: str, wanted: list[object]) -> None:
    numbers = "+".join(map(str, range(12)))
    case, it = built(f"{bias} q_len=2 past_len=1 heads=2 head_dim=2 bias_values={numbers}")
    found = it.masks[0].array(case.inputs)
    assert (found[0] if found.ndim == 4 else found).tolist() == wanted


def test_what_holes_hide_stays_hidden_and_a_sink_is_read_head_by_head() -> None:
    case, it = built(f"{SHAPE} bias=1x1xSxT holes=first-row bias_values=2 sink=true sink_values=1+-1+3")
    assert it.masks[0].array(case.inputs).tolist() == [[[[-np.inf, -np.inf], [2.0, 2.0]]]]
    assert it.sink is not None
    assert case.inputs[it.sink].tolist() == [1.0, -1.0, 3.0, 1.0]


@pytest.mark.parametrize(("axis", "of"), [("bias_values", "bias"), ("sink_values", "sink")])
def test_numbers_of_an_array_that_is_not_there_are_refused(axis: str, of: str) -> None:
    with pytest.raises(ScenarioErrors, match=f"`{axis}` without `{of}` has no effect"):
        from_command_line(f"{axis}=1")


def test_the_command_line_says_them_and_reads_them_again() -> None:
    scenario = from_command_line("q_len=2 k_values=1+-2.5+1e-05 v_values=-1 q_values=1+1")
    assert (scenario.k_values, scenario.v_values, scenario.q_values) == ((1.0, -2.5, 1e-05), (-1.0,), (1.0, 1.0))
    again = from_command_line(command_line(scenario))
    assert again.written == scenario.written
    assert again.k_values == scenario.k_values
