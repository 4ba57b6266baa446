"""What holds of every scenario file, well-formed or not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from attncheck.scenario import command_line, from_command_line, select
from attncheck.scenario.axes import AXES, NAME
from attncheck.scenario.load import parse
from attncheck.scenario.values import Boolean, Broadcast, Choice, Integer, Number, NumberList, PerBatch, Positive

SMALL = """\
# a comment
defaults: {op: gqa, heads: 4, tags: [x]}
scenarios:
  - name: edges
    about: "a text"
    past_len: [3, 40, 17]
    matrix:
      op: [gqa, mha]
      scale: [0.25, 1e-5]
      exclude:
        - {op: mha, scale: 0.25}
  - {name: other, window: 3, tolerance: {wgsl: {max_abs: 1e-5}}}
"""
MARKS = "{}[]:,#&*!|>'\"%@`-?\t\x00\x85\u2028\ufeff\rÉ\n"
lengths = st.integers(1, 6)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "dtype": st.sampled_from(["float32", "float16"]),
    "q_len": lengths,
    "past_len": st.one_of(lengths, st.lists(lengths, min_size=3, max_size=3)),
    "capacity": st.sampled_from(["exact", 12, 20]),
    "kv_heads": st.sampled_from([1, 2, 4]),
    "head_dim": st.integers(1, 8).map(lambda half: 2 * half),
    "scale": st.one_of(st.just("default"), st.floats(1e-6, 1e6)),
    "softcap": st.one_of(st.just("none"), st.integers(1, 50)),
    "window": st.one_of(st.just("none"), lengths),
    "rotary": st.sampled_from(["none", "half", "interleaved"]),
    "data": st.sampled_from(["normal", "ties"]),
    "seed": st.integers(0, 99),
    "k_values": st.one_of(st.just("generated"), st.floats(-9, 9), st.lists(st.floats(-9, 9), min_size=2, max_size=3)),
    "bias": st.sampled_from(["none", "BxNxSxT", "1x1xSxT"]),
}
direct = st.fixed_dictionaries({}, optional=VALUES)
matrix = st.fixed_dictionaries(
    {}, optional={axis: st.lists(values, min_size=1, max_size=2, unique_by=str) for axis, values in VALUES.items()}
).map(lambda axes: dict(list(axes.items())[:3]))


@st.composite
def scenario(draw: st.DrawFn) -> dict[str, Any]:
    swept = draw(matrix)
    plain = {axis: value for axis, value in draw(direct).items() if axis not in swept}
    name = draw(st.from_regex(NAME, fullmatch=True).filter(lambda name: len(name) < 12))
    tags = draw(st.lists(st.sampled_from(["x", "y"]), unique=True))
    return {"name": name, "tags": tags, **plain, **({"matrix": swept} if swept else {})}


files = st.lists(scenario(), min_size=1, max_size=3, unique_by=lambda one: one["name"])


@given(direct, files)
def test_an_id_selects_exactly_its_case(defaults: dict[str, Any], scenarios: list[dict[str, Any]]) -> None:
    found, mistakes = parse("f", json.dumps({"defaults": defaults, "scenarios": scenarios}), "d/f.yaml")
    assert mistakes == []
    assert len({case.id for case in found}) == len(found)
    for case in found:
        assert [one.id for one in select(found, ids=[case.id]) if one == case] == [case.id]
        if case.id.count(":") > 2:
            assert select(found, ids=[case.id]) == (case,)


@given(direct, files)
def test_a_case_can_be_made_again_without_its_file(defaults: dict[str, Any], scenarios: list[dict[str, Any]]) -> None:
    found, _ = parse("f", json.dumps({"defaults": defaults, "scenarios": scenarios}), "f.yaml")
    for case in found:
        assume(case.written)
        again = from_command_line(command_line(case))
        assert again == replace(case, id=again.id, source=again.source, tags=(), about="", tolerance={})


def test_the_strategies_above_reach_every_kind_of_value() -> None:
    kinds = {type(AXES[axis].values) for axis in VALUES}
    assert kinds | {Boolean} == {Integer, Number, NumberList, Positive, Choice, Boolean, PerBatch, Broadcast}


def cut(text: str, at: int, length: int) -> str:
    return text[:at] + text[at + length :]


def doubled(text: str, at: int, length: int) -> str:
    return text[: at + length] + text[at:]


def marked(text: str, at: int, length: int) -> str:
    return text[:at] + MARKS[length % len(MARKS)] + text[at:]


damage = st.tuples(st.sampled_from([cut, doubled, marked]), st.integers(0, len(SMALL)), st.integers(0, 60))


@given(st.lists(damage, min_size=1, max_size=3))
def test_a_damaged_file_gives_cases_or_mistakes_at_places_in_it(
    damages: list[tuple[Callable[[str, int, int], str], int, int]],
) -> None:
    text = SMALL
    for damaging, at, length in damages:
        text = damaging(text, at, length)
    found, mistakes = parse("f", text, "f.yaml")
    assert found or mistakes
    lines = re.split("\r\n|\r|\n", text)
    for mistake in mistakes:
        if mistake.line:
            assert mistake.text == lines[mistake.line - 1]
            assert 1 <= mistake.column <= len(mistake.text) + 1
