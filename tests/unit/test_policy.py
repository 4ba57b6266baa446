"""Which kernel computes a problem: by rules that are data, by the user's word, and online where that one lacks it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from attncheck.graph import read, write
from attncheck.kernels import naive
from attncheck.kernels.draft import Limits
from attncheck.kernels.policy import Choice, Policy
from attncheck.kernels.roster import ROSTER, Member
from attncheck.kernels.thresholds import SHIPPED, Rule, ThresholdsError, load
from attncheck.problem import Problem
from attncheck.scenario.model import Kernel
from tests.drawing import scenario

SOFTWARE = Limits(binding_bytes=128 << 20, workgroups=65535, f16=True, software=True)
HARDWARE = Limits(binding_bytes=128 << 20, workgroups=65535, f16=True)


def problem(*kv_len: int) -> Problem:
    case = write.build(
        scenario(q_len=(1,) * len(kv_len), past_len=tuple(n - 1 for n in kv_len), heads=1, kv_heads=1, head_dim=4)
    )
    return read.problem(case.model, case.inputs)


def rule(kernel: str, **sizes: object) -> Rule:
    return Rule.model_validate({"kernel": kernel, "measured": "here", **sizes})


def chosen(given: Problem, *rules: Rule, limits: Limits = SOFTWARE) -> str:
    return Policy(rules=rules).choose(given, limits).kernels[0]


def test_the_roster_holds_the_kernels_that_can_be_asked_for() -> None:
    assert {"auto", *ROSTER} == set(get_args(Kernel))


@pytest.mark.parametrize("keys", [1, 1023, 1024, 5000])
def test_auto_runs_a_plain_kernel_beside_the_chosen_one(keys: int) -> None:
    first, second = Policy().choose(problem(keys), SOFTWARE).kernels
    assert second == ("online" if first == "naive" else "naive")


def test_the_longest_of_a_batch_decides() -> None:
    assert chosen(problem(2, 30, 5), rule("online", least_keys=30)) == "online"
    assert chosen(problem(2, 30, 5), rule("online", least_keys=31)) == "naive"


def test_the_first_rule_that_holds_decides() -> None:
    assert chosen(problem(9), rule("naive", least_keys=5), rule("online")) == "naive"
    assert chosen(problem(4), rule("naive", least_keys=5), rule("online")) == "online"


def test_naive_computes_what_no_rule_is_about() -> None:
    assert chosen(problem(9)) == "naive"


def test_rows_are_counted_by_the_longest_query() -> None:
    case = write.build(scenario(q_len=(2, 5), past_len=(3, 3), heads=1, kv_heads=1, head_dim=4))
    given = read.problem(case.model, case.inputs)
    assert chosen(given, rule("online", least_rows=5)) == "online"
    assert chosen(given, rule("online", least_rows=6)) == "naive"
    assert chosen(given, rule("online", most_rows=5)) == "online"
    assert chosen(given, rule("online", most_rows=4)) == "naive"


def test_packed_rows_are_the_query_heads_of_a_kv_head_times_its_rows() -> None:
    case = write.build(scenario(q_len=(3,), past_len=(3,), heads=4, kv_heads=2, head_dim=4))
    given = read.problem(case.model, case.inputs)
    assert chosen(given, rule("online", least_packed=6)) == "online"
    assert chosen(given, rule("online", least_packed=7)) == "naive"


@pytest.mark.parametrize(("adapter", "limits"), [("software", SOFTWARE), ("hardware", HARDWARE)])
def test_a_rule_may_be_about_one_kind_of_adapter(adapter: str, limits: Limits) -> None:
    other = HARDWARE if limits is SOFTWARE else SOFTWARE
    assert chosen(problem(9), rule("online", adapter=adapter), limits=limits) == "online"
    assert chosen(problem(9), rule("online", adapter=adapter), limits=other) == "naive"


def test_no_shipped_rule_takes_online() -> None:
    """Naive was the faster of the two plain kernels wherever they were measured."""
    assert "online" not in {each.kernel for each in load(SHIPPED)}
    assert Policy().choose(problem(3000), SOFTWARE) == Choice(("naive", "online"))


def test_a_threshold_stands_behind_the_rules_of_other_kernels() -> None:
    mine = (rule("online", least_keys=5), rule("flash", least_keys=20))
    assert Policy(threshold=10, rules=mine).choose(problem(9), HARDWARE).kernels[0] == "naive"
    assert Policy(threshold=10, rules=mine).choose(problem(10), HARDWARE).kernels[0] == "online"
    assert Policy(threshold=10, rules=mine).choose(problem(20), HARDWARE).kernels[0] == "flash"


def test_a_threshold_takes_online_from_so_many_keys_on() -> None:
    assert Policy(threshold=30).choose(problem(30), SOFTWARE) == Choice(("online", "naive"))
    assert Policy(threshold=31).choose(problem(30), SOFTWARE) == Choice(("naive", "online"))
    assert Policy(threshold=0).choose(problem(1), SOFTWARE).kernels[0] == "online"
    assert Policy(threshold=30).choose(problem(30), HARDWARE) == Choice(("online", "naive"))


@pytest.mark.parametrize("kernel", ["naive", "online"])
@pytest.mark.parametrize("keys", [1, 2000])
def test_a_forced_kernel_runs_alone(kernel: str, keys: int) -> None:
    assert Policy(kernel=kernel).choose(problem(keys), SOFTWARE) == Choice((kernel,))  # type: ignore[arg-type]


def test_online_takes_the_place_of_a_kernel_that_lacks_something(monkeypatch: pytest.MonkeyPatch) -> None:
    picky = Member(naive.attend, lambda given, _: "batch 1" if given.batch == 1 else None)
    monkeypatch.setitem(ROSTER, "naive", picky)
    assert Policy(kernel="naive").choose(problem(4), SOFTWARE) == Choice(("online",), "naive does not cover batch 1")
    assert Policy(kernel="naive").choose(problem(4, 4), SOFTWARE) == Choice(("naive",))
    assert chosen(problem(9), rule("naive", least_keys=5), rule("online")) == "online"


def test_an_unknown_kernel_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown kernel 'quick'; choose one of auto, naive, online"):
        Policy(kernel="quick")  # type: ignore[arg-type]


def test_a_negative_threshold_is_refused() -> None:
    with pytest.raises(ValueError, match="0 or more, not -1"):
        Policy(threshold=-1)


def test_every_shipped_rule_says_what_was_measured() -> None:
    assert load(SHIPPED)
    assert all(each.measured.strip() for each in load(SHIPPED))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rule]", "not TOML"),
        ("[[rule]]\nkernel = 'quick'\nmeasured = 'x'", r"rule 1, kernel: input should be 'naive'"),
        ("[[rule]]\nkernel = 'online'", "rule 1, measured: field required"),
        ("[[rule]]\nkernel = 'online'\nmeasured = 'x'\nleast_key = 3", "rule 1, least_key: extra inputs"),
        ("[[rule]]\nkernel = 'online'\nmeasured = 'x'\nleast_keys = -3", "rule 1, least_keys: .*greater than"),
        ("rules = 3", "rule: field required"),
    ],
)
def test_a_bad_file_of_thresholds_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ThresholdsError, match=f"mine.toml: .*{said}"):
        load(file)


def test_a_missing_file_of_thresholds_is_told(tmp_path: Path) -> None:
    with pytest.raises(ThresholdsError, match=r"none\.toml: cannot read"):
        load(tmp_path / "none.toml")
