"""From times to rules: a kernel takes over where it pays, noise chooses nothing, and the file is one that is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from attncheck.bench.events import CaseTimed, Timing
from attncheck.bench.tuning import Times, Way, asked, rules, text, times, ways
from attncheck.bench.work import Work
from attncheck.kernels.draft import Limits
from attncheck.kernels.policy import Policy
from attncheck.kernels.thresholds import load
from attncheck.scenario import from_command_line
from attncheck.vocabulary import Verdict
from tests.device import work

DECODE, PREFILL = ways(65536)
SOFTWARE = Limits(binding_bytes=1 << 30, workgroups=65535, f16=True, software=True)
MATRIX = replace(SOFTWARE, software=False, matrix=True, workgroup_bytes=48 << 10, invocations=1024)


def found(way: Way, plain: Times, narrow: Times | None = None) -> list[tuple[str, int]]:
    return [(rule.kernel, rule.keys) for rule in rules(way, plain, narrow or {})]


def test_sizes_double_and_prompts_stay_short() -> None:
    assert DECODE.sizes[:3] == (32, 64, 128)
    assert DECODE.sizes[-1] == 65536
    assert PREFILL.sizes[-1] == 4096
    assert [way.sizes for way in ways(64)] == [(32, 64), (32, 64)]
    assert {it.scenario.q_len for it in asked(64, SOFTWARE, 1 << 30) if it.way.decodes} == {(1,)}
    assert [it.scenario.kv_len for it in asked(64, SOFTWARE, 1 << 30)] == [(32,), (64,), (32,), (64,)]


def test_float16_is_timed_where_a_kernel_computes_nothing_else() -> None:
    """Elsewhere no rule would follow from it."""
    assert {it.dtype for it in asked(64, SOFTWARE, 1 << 30)} == {"float32"}
    of_way = {(it.way.name, it.dtype) for it in asked(64, MATRIX, 1 << 30)}
    assert of_way == {(way.name, dtype) for way in ways(64) for dtype in ("float32", "float16")}


@pytest.mark.parametrize(("plain", "expected"), [
    ({32: {"naive": 1.0, "online": 2.0}, 64: {"naive": 2.0, "online": 2.5}}, []),
    ({32: {"naive": 1.0, "online": 2.0}, 64: {"naive": 4.0, "online": 2.5}}, [("online", 64)]),
    ({32: {"naive": 3.0, "online": 2.0}, 64: {"naive": 4.0, "online": 2.5}}, [("online", 32)]),
    ({32: {"naive": 1.0, "online": 2.0}, 64: {"naive": 2.55, "online": 2.5}}, []),
    ({32: {"naive": 9.0, "online": 2.0}, 64: {"naive": 2.4, "online": 2.5}}, [("online", 32)]),
    ({32: {"naive": 9.0, "online": 2.0}, 64: {"naive": 1.0, "online": 2.5}}, [("naive", 64), ("online", 32)]),
    ({32: {"naive": 1.0}, 64: {}, 128: {"naive": 9.0, "flash": 1.0}}, [("flash", 128)]),
    ({}, []),
])  # fmt: skip
def test_a_rule_stands_where_a_kernel_takes_over_by_more_than_noise(
    plain: Times, expected: list[tuple[str, int]]
) -> None:
    assert found(DECODE, plain) == expected


def test_a_kernel_of_float16_alone_comes_before_those_that_take_all() -> None:
    plain = {32: {"naive": 1.0, "online": 2.0}, 64: {"naive": 9.0, "online": 2.0}}
    narrow = {32: {"naive": 1.0, "online": 2.0, "matrix": 3.0}, 64: {"naive": 9.0, "online": 2.0, "matrix": 1.0}}
    assert found(PREFILL, plain, narrow) == [("matrix", 64), ("online", 64)]
    assert found(PREFILL, plain, {64: {"online": 1.0}}) == [("online", 64)], "others are judged in float32"


def timing(kernel: str, seconds: float) -> Timing:
    return Timing("wgsl", kernel, f"wgsl {kernel}", Verdict.PASS, seconds=(seconds,) if seconds else ())


def test_times_are_taken_from_the_cases_of_their_way_and_dtype() -> None:
    every = asked(64, MATRIX, 1 << 30)
    needs = Work(1, 1, 1)
    cases = [
        CaseTimed(it.scenario.id, "", "", it.dtype, needs, "all rows", (timing("naive", it.keys), timing("x", 0)))
        for it in every
    ]
    decode, _ = ways(64)
    assert times(cases, every, decode, "float16") == {32: {"naive": 32.0}, 64: {"naive": 64.0}}
    assert times(cases[:1], every, decode, "float16") == {}


def test_the_file_is_read_as_rules_that_choose_as_was_measured(tmp_path: Path) -> None:
    plain = {32: {"naive": 1.0, "online": 2.0}, 64: {"naive": 9.0, "online": 2.0}}
    every = [*rules(DECODE, plain, {}), *rules(PREFILL, {32: {"naive": 9.0, "online": 1.0}}, {})]
    file = tmp_path / "thresholds.toml"
    file.write_text(text(every, 'some "GPU"', software=True, when="2026-11-30"), encoding="utf-8")
    policy = Policy(rules=load(file))

    def chosen(axes: str) -> str:
        return policy.choose(work(from_command_line(f"op=gqa heads=2 head_dim=8 {axes}")).problem, SOFTWARE).kernels[0]

    assert chosen("q_len=1 past_len=62") == "naive"
    assert chosen("q_len=1 past_len=63") == "online"
    assert chosen("q_len=32") == "online"
    assert chosen("q_len=31") == "naive"
    assert load(file)[0].measured == 'some "GPU", decode at 64 keys; times that of online: naive 4.50'
    empty = tmp_path / "none.toml"
    empty.write_text(text([], "a GPU", software=False, when="2026-11-30"), encoding="utf-8")
    assert load(empty) == ()
