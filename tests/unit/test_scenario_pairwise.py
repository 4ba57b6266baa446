"""Pairwise matrices in the language: the rules of the operators decide which pairs can be."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from attncheck.scenario import Mistake
from attncheck.scenario.axes import AXES
from attncheck.scenario.complete import Complete, Value
from attncheck.scenario.load import parse
from attncheck.scenario.memory import DEFAULT_LIMIT
from attncheck.scenario.possible import impossibilities, rules
from attncheck.scenario.resolve import complete
from attncheck.scenario.select import select
from attncheck.scenario.steps import Written
from attncheck.scenario.values import (
    Boolean,
    Broadcast,
    Choice,
    Integer,
    Number,
    NumberList,
    PerBatch,
    Positive,
    Steps,
)

SWEPT: dict[str, list[Any]] = {
    "op": ["gqa", "mha", "attention"],
    "dtype": ["float32", "float16"],
    "q_len": [1, 5, [1, 4, 3]],
    "past_len": [0, 9, [0, 2, 7]],
    "kv_len": ["auto", 7],
    "capacity": ["exact", 12, 32],
    "kv_heads": [1, 2, 3],
    "head_dim": [8, 16],
    "v_head_dim": [8, 16],
    "window": ["none", 3],
    "causal": [True, False],
    "bias": ["none", "SxT", "BxNxSxT"],
    "mask": ["none", "BxT", "SxT"],
    "mask_len": ["full", 12],
    "holes": ["none", "keys", "first-row"],
    "sink": [False, True],
    "smooth": [False, True],
    "past": ["auto", "empty"],
    "query_seqlens": [False, True],
    "rotary": ["none", "half"],
    "rotary_dim": [8, 16],
    "opset": [23, 25],
}


def cases(text: str) -> list[Mapping[str, str]]:
    """The written values of each case."""
    scenarios, mistakes = parse("file.yaml", textwrap.dedent(text), "file.yaml")
    assert mistakes == []
    return [dict(one.written) for one in scenarios]


def spelled(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def pairs(rows: Iterable[Mapping[str, str]]) -> set[Any]:
    return {frozenset(pair) for row in rows for pair in combinations(row.items(), 2)}


def possible(axes: Mapping[str, list[Any]]) -> Iterator[Mapping[str, str]]:
    for values in product(*axes.values()):
        chosen = dict(zip(axes, (tuple(it) if isinstance(it, list) else it for it in values), strict=True))
        if not any(impossibilities(complete(chosen), frozenset(), DEFAULT_LIMIT)):
            yield {axis: spelled(value) for axis, value in zip(axes, values, strict=True)}


@given(st.lists(st.sampled_from(sorted(SWEPT)), min_size=2, max_size=6, unique=True))
@settings(max_examples=60, deadline=None)
def test_exactly_the_pairs_that_the_operators_allow_meet(axes: list[str]) -> None:
    matrix = {axis: SWEPT[axis] for axis in axes}
    wanted = list(possible(matrix))
    written = "".join(f"      {axis}: {values}\n" for axis, values in matrix.items()).replace("True", "true")
    text = "scenarios:\n  - name: a\n    matrix:\n      mode: pairwise\n" + written.replace("False", "false")

    scenarios, mistakes = parse("file.yaml", text, "file.yaml")

    found = [dict(one.written) for one in scenarios]
    if wanted:
        assert pairs(found) == pairs(wanted)
        assert {it.kind for it in mistakes} <= {Mistake.UNUSABLE}
        unusable = {axis: set(map(spelled, SWEPT[axis])) - {row[axis] for row in wanted} for axis in axes}
        assert len(mistakes) == sum(map(len, unusable.values()))
    else:
        assert mistakes


class Recording(dict[str, Any]):
    """Values that note which of them are looked at."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, axis: str) -> Any:
        self.read.add(axis)
        return super().__getitem__(axis)

    def get(self, axis: str, default: Any = None) -> Any:
        self.read.add(axis)
        return super().get(axis, default)


def small(axis: str) -> st.SearchStrategy[Value]:
    """A few values of an axis, its default among them."""
    match AXES[axis].values:
        case Boolean():
            return st.booleans()
        case Choice(words):
            return st.sampled_from(words)
        case Broadcast() as shapes:
            return st.sampled_from(shapes.words)
        case PerBatch(_, word):
            lengths = st.lists(st.integers(1, 9), min_size=3, max_size=3).map(tuple)
            return st.one_of(st.integers(1, 9), lengths, *([st.just(word)] if word else []))
        case Integer(least, _, word):
            return st.one_of(st.integers(least, least + 20), *([st.just(word)] if word else []))
        case NumberList(word):
            lists = st.lists(st.floats(-9, 9), min_size=2, max_size=3).map(tuple)
            return st.one_of(st.floats(-9, 9), lists, st.just(word))
        case Number(word) | Positive(word):
            return st.sampled_from((2.0, word))
        case Steps():
            return st.sampled_from(((Written(5), Written(1, 2)), (Written((1, 2, 3)), Written(2, accept=4))))


@given(st.fixed_dictionaries({}, optional={axis: small(axis) for axis in AXES}))
@settings(max_examples=100, deadline=None)
def test_a_rule_looks_at_no_axis_but_those_that_it_names(written: dict[str, Any]) -> None:
    case = complete(written)
    for looks_at, rule in rules(DEFAULT_LIMIT):
        values = Recording(case.values)
        list(rule(Complete(values, case.written, case.batch)))
        assert values.read <= looks_at


def test_order_is_that_of_a_matrix_and_ids_name_what_is_not_default() -> None:
    text = """
        scenarios:
          - name: a
            heads: 8
            matrix: {mode: pairwise, window: [none, 3], q_len: [1, 5], head_dim: [64, 16], kv_heads: [8, 2]}
    """
    scenarios, mistakes = parse("file.yaml", textwrap.dedent(text), "file.yaml")
    every, _ = parse("file.yaml", textwrap.dedent(text).replace("mode: pairwise, ", ""), "file.yaml")
    written = [one.written for one in scenarios]
    assert mistakes == []
    assert written == [one.written for one in every if one.written in written]
    assert len(written) < len(every)
    assert len({one.id for one in scenarios}) == len(scenarios)
    for one in scenarios:
        default = {"window": "none", "q_len": "1", "head_dim": "16", "heads": "8"}
        told = [f"{axis}={value}" for axis, value in one.written if default.get(axis) != value]
        assert one.id == f"file.yaml::a:{','.join(told)}"


def test_the_id_of_a_case_of_defaults_alone_is_not_that_of_its_scenario() -> None:
    text = "scenarios: [{name: a, matrix: {mode: pairwise, window: [none, 3], softcap: [none, 2]}}]"
    scenarios, _ = parse("file.yaml", text, "file.yaml")
    assert "file.yaml::a:default" in [one.id for one in scenarios]
    assert [one.id for one in select(scenarios, ["file.yaml::a:default"])] == ["file.yaml::a:default"]


def test_an_excluded_pair_does_not_meet_and_the_others_do() -> None:
    text = """
        scenarios:
          - name: a
            matrix:
              mode: pairwise
              window: [none, 3]
              q_len: [1, 5]
              head_dim: [8, 16]
              exclude: [{window: 3, q_len: 5}, {window: none, q_len: 1, head_dim: 8}]
    """
    met = pairs(cases(text))
    assert frozenset({("window", "3"), ("q_len", "5")}) not in met
    assert len(met) == 3 * 4 - 1


def test_defaults_say_the_mode_unless_the_scenario_does() -> None:
    text = """
        defaults: {matrix: {mode: pairwise, window: [none, 3], q_len: [1, 5], head_dim: [8, 16]}}
        scenarios:
          - {name: a}
          - {name: b, matrix: {mode: product, heads: [4]}}
    """
    scenarios, _ = parse("file.yaml", textwrap.dedent(text), "file.yaml")
    assert sum("::a:" in one.id for one in scenarios) == 4
    assert sum("::b:" in one.id for one in scenarios) == 8


def test_a_matrix_of_many_axes_takes_few_cases() -> None:
    """Bias and holes alone need 3 x 3, and each operator forbids what another demands."""
    # An opset that is written is foreign to the other operators.
    kept = {**{axis: values for axis, values in SWEPT.items() if axis != "opset"}, "kv_heads": [1, 2]}
    axes = "".join(f"      {axis}: {values}\n" for axis, values in kept.items()).replace("True", "true")
    text = "scenarios:\n  - name: a\n    matrix:\n      mode: pairwise\n" + axes.replace("False", "false")
    scenarios, mistakes = parse("file.yaml", text, "file.yaml")
    assert mistakes == []
    assert len(scenarios) < 60
