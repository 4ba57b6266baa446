"""Selecting loaded cases, changing axes of them, and cases without a file."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncheck.scenario import (
    Scenario,
    ScenarioErrors,
    Tolerance,
    command_line,
    from_command_line,
    matches,
    override,
    select,
)
from attncheck.scenario.expression import All, Any, Expression, Not, Word
from attncheck.scenario.expression import parse as parse_expression
from attncheck.scenario.load import parse

TEXT = """
defaults: {heads: 4, tags: [common]}
scenarios:
  - {name: edges, past_len: 20, tags: [smoke], matrix: {window: [1, 2, 20, 22]}}
  - {name: edge, op: mha}
  - {name: ragged, matrix: {op: [gqa, mha], q_len: [[1, 7, 4], 2]}}
"""


def loaded(address: str = "d/window.yaml") -> tuple[Scenario, ...]:
    found, mistakes = parse("window.yaml", TEXT, address)
    assert mistakes == []
    return tuple(found)


def names(scenarios: tuple[Scenario, ...]) -> list[str]:
    return [case.id.removeprefix("d/window.yaml::") for case in scenarios]


CASES = loaded()


def test_without_a_restriction_all_are_meant() -> None:
    assert select(CASES) == CASES


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("d/window.yaml::edge", ["edge"]),
        ("d/window.yaml::edges", ["edges:window=1", "edges:window=2", "edges:window=20", "edges:window=22"]),
        ("d/window.yaml::edges:window=2", ["edges:window=2"]),
        ("*window=2?", ["edges:window=20", "edges:window=22"]),
        ("*q_len=1+7+4", ["ragged:op=gqa,q_len=1+7+4", "ragged:op=mha,q_len=1+7+4"]),
        ("*::edge?:window=1", ["edges:window=1"]),
        ("nothing*", []),
    ],
)
def test_an_id_pattern_means(pattern: str, found: list[str]) -> None:
    assert names(select(CASES, ids=[pattern])) == found


def test_the_file_alone_means_all_of_it() -> None:
    assert select(CASES, ids=["d/window.yaml"]) == CASES
    assert select((*CASES, *loaded("other.yaml")), ids=["d/*"]) == CASES


def test_brackets_and_dots_in_a_pattern_stand_for_themselves() -> None:
    assert not matches("d/window?yaml::[e]dge", "d/window.yaml::edge")
    assert not matches("d/windowXyaml", "d/window.yaml::edge")
    assert matches("d/window?yaml", "d/window.yaml::edge")


def test_several_patterns_add_up_in_the_order_of_the_files_each_case_once() -> None:
    found = select(CASES, ids=["d/window.yaml::edge", "*window=2?", "*window=22"])
    assert names(found) == ["edges:window=20", "edges:window=22", "edge"]


@pytest.mark.parametrize(
    ("keyword", "found"),
    [
        ("edge and not edges", ["edge"]),
        ("MHA", ["ragged:op=mha,q_len=1+7+4", "ragged:op=mha,q_len=2"]),
        ("window=1 or (ragged and not q_len=2 and op=gqa)", ["edges:window=1", "ragged:op=gqa,q_len=1+7+4"]),
        ("not smoke and not ragged", ["edge"]),
        ("window=2 OR edge AND mha", ["edges:window=2", "edges:window=20", "edges:window=22"]),
    ],
)
def test_a_keyword_expression_means(keyword: str, found: list[str]) -> None:
    assert names(select(CASES, keyword=keyword)) == found


def test_tags_are_alternatives_and_all_kinds_of_restriction_must_hold() -> None:
    assert len(select(CASES, tags=["common", "smoke"])) == len(CASES)
    assert names(select(CASES, ids=["*window=2?"], keyword="not 22", tags=["smoke"])) == ["edges:window=20"]


words = st.from_regex(r"[a-c]{1,2}", fullmatch=True).map(Word)
expressions = st.recursive(
    words,
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=2, max_size=3).map(lambda operands: All(tuple(operands))),
        st.lists(inner, min_size=2, max_size=3).map(lambda operands: Any(tuple(operands))),
    ),
    max_leaves=8,
)


def written(expression: Expression) -> str:
    match expression:
        case Word(word):
            return word
        case Not(operand):
            return f"not ({written(operand)})"
        case All(operands):
            return " and ".join(f"({written(operand)})" for operand in operands)
        case Any(operands):
            return " or ".join(written(operand) for operand in operands)
    raise AssertionError(expression)


def python_says(source: str, text: str) -> bool:
    """The same expression by Python's own grammar, each word replaced by whether it is in the text."""
    tokens = source.replace("(", " ( ").replace(")", " ) ").split()
    kept = ("and", "or", "not", "(", ")")
    return bool(eval(" ".join(token if token in kept else str(token in text) for token in tokens)))


@given(expressions, st.text("abc", max_size=6))
def test_and_or_not_bind_as_in_python(expression: Expression, text: str) -> None:
    source = written(expression)
    assert parse_expression(source).holds(text) == python_says(source, text) == expression.holds(text)


@given(st.text("ab ()nodr", max_size=20))
def test_any_text_is_an_expression_or_a_mistake_at_a_place_in_it(text: str) -> None:
    try:
        parse_expression(text)
    except ScenarioErrors as wrong:
        (mistake,) = wrong.diagnostics
        assert 1 <= mistake.column <= len(text) + 1


def test_a_case_of_the_command_line_is_what_its_axes_say() -> None:
    case = from_command_line("op=gqa q_len=1+7+4, heads=4,kv_heads=2 window=3 scale=1e-5 causal=true data=ties")
    assert (case.q_len, case.batch, case.heads, case.kv_heads) == ((1, 7, 4), 3, 4, 2)
    assert (case.window, case.scale, case.causal, case.data) == (3, 1e-5, True, "ties")
    assert case.id == "case::op=gqa,q_len=1+7+4,heads=4,kv_heads=2,window=3,scale=1e-05,causal=true,data=ties"


def test_what_follows_the_prefix_of_its_id_makes_the_case_again() -> None:
    case = from_command_line("q_len=4 past_len=20 softcap=0.5 rotary=half")
    assert from_command_line(case.id.removeprefix("case::")) == case


def test_set_replaces_an_axis_and_what_follows_from_it_follows_anew() -> None:
    case = from_command_line("heads=4 head_dim=16 rotary=half past_len=3")
    changed = override(case, "head_dim=32 heads=8")
    assert (changed.head_dim, changed.rotary_dim, changed.heads, changed.kv_heads) == (32, 32, 8, 8)
    assert changed.past_len == (3,)


def test_set_keeps_what_was_written_beside_the_axes() -> None:
    case = replace(CASES[0], about="why", tags=("x",), tolerance={"wgsl": Tolerance(0.5)})
    changed = override(case, "head_dim=8")
    assert (changed.about, changed.tags, changed.source) == ("why", ("x",), case.source)
    assert changed.tolerance == {"wgsl": Tolerance(0.5)}


def test_set_shows_in_the_id_and_the_last_change_of_an_axis_wins() -> None:
    once = override(CASES[0], "head_dim=128")
    assert once.id == "d/window.yaml::edges:window=1@head_dim=128"
    twice = override(once, "heads=8 head_dim=64")
    assert (twice.id, twice.heads, twice.head_dim) == ("d/window.yaml::edges:window=1@heads=8,head_dim=64", 8, 64)


def test_an_id_that_shows_a_change_selects_the_changed_case() -> None:
    changed = override(CASES[2], "head_dim=128,heads=8")
    assert select(CASES, ids=[changed.id]) == (changed,)
    both = select(CASES, ids=["d/window.yaml::edge", "d/window.yaml::edge@seed=7"])
    assert [(case.id, case.seed) for case in both] == [("d/window.yaml::edge", 0), ("d/window.yaml::edge@seed=7", 7)]


def test_a_change_that_makes_a_case_impossible_is_refused_with_the_case_named() -> None:
    with pytest.raises(
        ScenarioErrors, match=r"--set:1:10: heads must be a multiple.*in the case d/window.yaml::edge\)"
    ):
        override(CASES[4], "kv_heads=3")


def test_the_memory_limit_holds_without_a_file_too() -> None:
    with pytest.raises(ScenarioErrors, match="limit"):
        from_command_line("q_len=64", memory_limit=1000)
    with pytest.raises(ScenarioErrors, match="limit"):
        override(from_command_line("q_len=4"), "q_len=64", memory_limit=10_000)


lengths = st.integers(1, 9)
axes = st.fixed_dictionaries(
    {},
    optional={
        "op": st.just("gqa"),
        "dtype": st.sampled_from(["float32", "float16"]),
        "q_len": lengths.map(str),
        "past_len": st.lists(lengths, min_size=1, max_size=4).map(lambda n: "+".join(map(str, n))),
        "capacity": st.sampled_from(["exact", "64"]),
        "heads": st.sampled_from(["4", "8"]),
        "kv_heads": st.sampled_from(["1", "2"]),
        "head_dim": st.sampled_from(["8", "40"]),
        "scale": st.one_of(st.just("default"), st.floats(1e-20, 1e20).map(repr)),
        "softcap": st.one_of(st.just("none"), st.floats(0.5, 3e38).map(repr)),
        "window": st.one_of(st.just("none"), lengths.map(str)),
        "rotary": st.sampled_from(["none", "half", "interleaved"]),
        "data": st.sampled_from(["normal", "ties"]),
        "seed": st.integers(0, 2**32 - 1).map(str),
        "kernel": st.sampled_from(["auto", "naive", "online"]),
    },
).filter(bool)  # fmt: skip


@given(axes)
def test_a_case_and_its_command_line_say_the_same(chosen: dict[str, str]) -> None:
    case = from_command_line(" ".join(f"{axis}={value}" for axis, value in chosen.items()))
    again = from_command_line(command_line(case))
    assert again == case
    assert not set(case.id) & set(" \t\"'`$&|;<>(){}[]*?!\\~#")


@given(axes, axes)
def test_a_change_equals_writing_it_in_the_first_place(first: dict[str, str], second: dict[str, str]) -> None:
    case = from_command_line(" ".join(f"{axis}={value}" for axis, value in first.items()))
    changed = override(case, ",".join(f"{axis}={value}" for axis, value in second.items()))
    whole = from_command_line(" ".join(f"{axis}={value}" for axis, value in (first | second).items()))
    assert replace(changed, id="", source=whole.source) == replace(whole, id="")
    assert select([case], ids=[changed.id]) == (changed,)
