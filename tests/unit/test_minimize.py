"""What `minimize` stands on: one form for a case, one order, one meaning of the same failure."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncheck.backends.base import Evidence
from attncheck.compare import judge
from attncheck.engine.events import Result
from attncheck.minimize.candidate import Candidate, of_text, start
from attncheck.minimize.certificate import neighbours
from attncheck.minimize.order import TENSORS, features, key, plainness, simpler
from attncheck.minimize.passes import PASSES
from attncheck.minimize.passes.numbers import held
from attncheck.minimize.passes.sizes import below, cut
from attncheck.minimize.seen import Seen, wavers
from attncheck.minimize.signature import Signature, same, signature
from attncheck.scenario import from_command_line
from attncheck.vocabulary import Status, Verdict
from tests.shrinking import STARTS

SESSION = "op=gqa past_len=3 heads=2 head_dim=2 steps=5-1x6-4a2"


def case(text: str) -> Candidate:
    return start(from_command_line(text))


walks = st.tuples(st.sampled_from([*STARTS, SESSION]), st.lists(st.integers(0, 10_000), max_size=8))


def walked(begin: str, turns: list[int]) -> list[Candidate]:
    """The start, and what some pass proposes of it, and of that, and so on."""
    found = [case(begin)]
    for turn in turns:
        each = PASSES[turn % len(PASSES)]
        proposed = [it for it in each.propose(found[-1]) if it is not None]
        if proposed:
            found.append(proposed[turn // len(PASSES) % len(proposed)])
    return found


@pytest.mark.slow
@given(walks, walks)
@settings(max_examples=25)
def test_any_two_cases_are_ordered_and_only_a_case_is_as_simple_as_itself(
    one: tuple[str, list[int]], other: tuple[str, list[int]]
) -> None:
    cases = [*walked(*one), *walked(*other)]
    for first in cases:
        for second in cases:
            assert simpler(first, second) + simpler(second, first) + (first == second) == 1
            if simpler(first, second):
                assert all(simpler(first, third) for third in cases if simpler(second, third))


def naturals(part: object) -> bool:
    if isinstance(part, tuple):
        return all(map(naturals, part))
    return isinstance(part, int) and part >= 0


@given(walks)
@settings(max_examples=25)
def test_the_order_is_well_founded_its_parts_are_naturals_in_tuples_of_one_length(walk: tuple[str, list[int]]) -> None:
    shape = key(case(STARTS[0]))
    for found in walked(*walk):
        *parts, (length, text) = key(found)
        assert naturals(tuple(parts))
        assert length == len(text)
        assert [len(it) if isinstance(it, tuple) else 0 for it in parts] == [
            len(it) if isinstance(it, tuple) else 0 for it in shape[:-1]
        ]


@given(walks)
@settings(max_examples=15)
def test_a_case_is_spelled_and_read_again_and_loads_as_the_same_content(walk: tuple[str, list[int]]) -> None:
    for found in walked(*walk):
        again = of_text(found.text, found.like)
        assert again == found
        assert again.content == found.content


@pytest.mark.parametrize("text", [*STARTS, SESSION])
def test_every_neighbour_is_possible_simpler_and_told_once(text: str) -> None:
    begin = case(text)
    found = list(neighbours(begin))
    assert len({it.case for it in found}) == len(found) > 10
    for it in found:
        assert simpler(it.case, begin)
        assert " -> " in it.change or it.change.startswith(("without", *(f"{tensor} all" for tensor in TENSORS)))


def test_simpler_has_the_order_that_the_page_states() -> None:
    ascending = [
        "heads=1 head_dim=1 q_values=0 k_values=0 v_values=0",
        "heads=1 head_dim=1 q_values=0 k_values=0 v_values=1",
        "heads=1 head_dim=1",
        "heads=1 head_dim=1 dtype=float16",
        "heads=1 head_dim=1 data=ties",
        "heads=1 head_dim=2",
        "heads=1 head_dim=1 q_len=2",
        "heads=2 kv_heads=1 head_dim=1",
        "heads=2 head_dim=1",
        "heads=1 head_dim=1 batch=2",
        "heads=1 head_dim=1 past_len=1",
        "heads=1 head_dim=1 past_len=1 steps=1-1",
        "heads=1 head_dim=1 softcap=1",
        "heads=1 head_dim=1 softcap=3",
        "heads=1 head_dim=1 sink=true sink_values=0",
        "heads=1 head_dim=1 sink=true",
        "heads=1 head_dim=1 softcap=1 window=1",
    ]
    found = [case(f"op=gqa {text}") for text in ascending]
    assert sorted(found, key=key) == found


def test_plain_numbers_come_before_long_ones() -> None:
    ascending = [0.0, 1.0, -1.0, 2.0, 3.0, 8.0, 0.5, 0.25, 0.2435]
    assert sorted(ascending, key=plainness) == ascending


def test_a_candidate_has_one_form_without_what_goes_without_saying() -> None:
    assert case("op=gqa heads=4 kv_heads=4 q_len=3+3 past_len=0 softcap=none").text == "op=gqa,batch=2,q_len=3"
    assert case("op=gqa rotary=half rotary_dim=16").text == "op=gqa,rotary=half"
    assert case("op=gqa q_values=1+1+1").text == "op=gqa,q_values=1"


def test_what_a_change_makes_impossible_goes_along() -> None:
    begin = case("op=attention q_len=4 mask=SxT holes=keys")
    without = begin.with_({"mask": None})
    assert without is not None
    assert without.text == "op=attention,q_len=4"
    assert begin.with_({"q_len": 4}) is None


def test_a_cut_keeps_the_numbers_of_a_bias_and_of_a_sink_that_survive() -> None:
    numbers = "+".join(map(str, range(1, 37)))
    shape = "op=gqa q_len=3 past_len=1 heads=3 head_dim=1"
    begin = case(f"{shape} bias=1xNxSxT bias_values={numbers} sink=true sink_values=1+2+3")
    before = held(begin, "bias")
    assert before.shape == (3, 1, 3, 4)
    less = cut(begin, {"heads": 2, "q_len": 2})
    assert less is not None
    assert held(less, "bias").tolist() == before[:2, :, :2, :3].tolist()
    assert held(less, "sink").ravel().tolist() == [1, 2]
    without = cut(begin, {"past_len": 0})
    assert without is not None
    assert held(without, "bias").tolist() == before[:, :, :, 1:].tolist()


def test_what_there_is_always_some_of_is_no_feature_and_the_plain_update_rule_is_none() -> None:
    assert features(case("op=paged page=5 window=3")) == ("window",)
    assert features(case("op=linear")) == ("update_rule",)
    assert features(case("op=linear update_rule=linear past_state=given")) == ("past_state",)


def failing(got: list[float], tolerance: float = 1e-3) -> Signature:
    """How a result with these numbers fails where zeros are expected."""
    numbers = np.array(got).reshape(1, 1, 1, -1)
    expected, bound, stated = np.zeros_like(numbers), np.full_like(numbers, tolerance), np.ones(numbers.shape, bool)
    found = judge.held("output", "output", "", "oracle", numbers, expected, bound, stated)
    verdict = Verdict.NONFINITE if found.nonfinite else Verdict.MISMATCH
    seen = signature(Result("c", "b", "", False, verdict, Status.FAILED, differences=(found,), worst=found))
    assert seen is not None
    return seen


def test_why_a_case_was_not_run_or_has_no_numbers_goes_through_the_journal() -> None:
    blank = Result("c", "b", "", False, Verdict.UNSUPPORTED, Status.SKIPPED)
    seen = Seen.of(replace(blank, message="no head_dim of 7\nmore"))
    assert seen == Seen.read(asdict(seen)) == Seen(None, "unsupported", (), "no head_dim of 7")
    assert Seen.of(replace(blank, verdict=Verdict.PASS, message="remarked")).said == ""


def test_the_kernel_that_is_wrong_beside_the_one_that_was_chosen_is_one_of_those_that_are_kept() -> None:
    """Under `--kernel auto` the evidence is that of the chosen kernel, while the failure may be the other one's."""
    zeros, ones, stated = np.zeros((1, 1, 1, 1)), np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 1), bool)
    right = judge.held("output", "output", "naive", "oracle", zeros, zeros, zeros, stated)
    wrong = judge.held("output", "output", "online", "oracle", ones, zeros, zeros, stated)
    apart = judge.held("output", "output", "naive", "online", zeros, ones, zeros, stated)
    result = Result("c", "wgsl", "naive", True, Verdict.MISMATCH, Status.FAILED, differences=(right, wrong, apart))
    seen = signature(replace(result, evidence=Evidence("llvmpipe", ("naive_scores",))), kernels=True)
    assert seen is not None
    assert seen.kernels == ("naive_scores", "online")


@pytest.mark.parametrize(
    ("got", "side", "steady"),
    [
        ([1.0] * 8, "above", True),
        ([-1.0] * 8, "below", True),
        ([1.0] * 7 + [0.0], "above", False),
        ([1.0] * 8 + [-1.0], "", False),
        ([np.inf] * 8, "above", True),
        ([np.nan] * 8, "", False),
    ],
)
def test_the_side_is_that_of_every_wrong_element_and_counts_from_eight_on(
    got: list[float], side: str, steady: bool
) -> None:
    found = failing(got)
    assert (found.side, found.steady) == (side, steady)


def test_what_lay_in_memory_where_zeros_are_expected_is_no_gross_error() -> None:
    """Its margin is as large as can be: zeros have the smallest normal number for a tolerance."""
    assert failing([1e-1]).gross
    assert not failing([5e-3]).gross
    assert not failing([1e-9], tolerance=1e-38).gross
    assert failing([1e-3], tolerance=1e-38).gross


@pytest.mark.parametrize(
    ("first", "other", "differ"),
    [
        (Seen(failing([1.0]), "mismatch", (1e3,)), Seen(failing([1.0]), "mismatch", (1e3 + 0.5,)), False),
        (Seen(failing([1.0]), "mismatch", (1e3,)), Seen(failing([1.0]), "mismatch", (2e3,)), True),
        (Seen(failing([1.0]), "mismatch", (1e3,)), Seen(failing([np.nan]), "nonfinite", (np.inf,)), True),
        (Seen(failing([np.nan]), "nonfinite", (np.inf,)), Seen(failing([np.nan]), "nonfinite", (np.inf,)), False),
        (Seen(failing([1.0]), "mismatch", (1e3,)), Seen(None, "pass"), False),
        (Seen(Signature("crash", text="a"), "crash"), Seen(Signature("crash", text="a"), "crash"), False),
    ],
)
def test_wrong_numbers_waver_where_runs_lie_further_apart_than_the_tolerance(
    first: Seen, other: Seen, differ: bool
) -> None:
    assert wavers([first, other]) is differ


def test_a_cut_keeps_the_numbers_that_survive() -> None:
    begin = case("op=gqa q_len=2 past_len=2 heads=2 head_dim=2 k_values=" + "+".join(map(str, range(1, 17))))
    before = held(begin, "k")
    less = cut(begin, {"past_len": 1, "heads": 1})
    assert less is not None
    assert held(less, "k").tolist() == before[1:, :, :1].tolist()
    narrow = cut(begin, {"head_dim": 1, "q_len": 1})
    assert narrow is not None
    assert held(narrow, "k").tolist() == before[:3, :, :, :1].tolist()


@pytest.mark.parametrize("wanted", [1, 6, 8, 17, 24, 33, 40, 64, 99])
def test_candidates_for_a_size_reach_whatever_a_fault_may_need(wanted: int) -> None:
    size = 100
    while size > wanted:
        size = next(it for it in below(size, 1) if it >= wanted)
    assert size == wanted


@pytest.mark.parametrize(("value", "smallest"), [(25, 23), (24, 23), (23, 23), (1, 1), (5, 0), (70, 20), (300, 1)])
def test_candidates_for_a_size_lie_between_the_smallest_and_the_size_at_hand(value: int, smallest: int) -> None:
    found = list(below(value, smallest))
    assert found == sorted(set(found))
    assert all(smallest <= it < value for it in found)
    assert (value == smallest) or {smallest, value - 1} <= set(found)


def test_features_are_read_off_the_table() -> None:
    on = {"scale", "softcap", "window", "bias", "holes", "sink", "scores", "rotary"}
    assert set(features(case(STARTS[0]))) == on
    assert features(case("op=gqa batch=2 q_len=9 capacity=40 dtype=float16 data=ties seed=3")) == ()


FIRST = Signature("mismatch", ("output",), ("softcap-ignored", "scale-default"), "wrong", gross=True)
ABOVE = Signature("mismatch", ("output",), (), "wrong", side="above", steady=True)


@pytest.mark.parametrize(
    ("first", "other", "follows"),
    [
        (FIRST, replace(FIRST, wrong=("softcap-ignored", "window-ignored")), True),
        (FIRST, replace(FIRST, outputs=("output", "scores"), gross=False), True),
        (FIRST, replace(FIRST, wrong=("window-ignored",)), False),
        (FIRST, replace(FIRST, wrong=()), False),
        (FIRST, replace(FIRST, verdict="crash"), False),
        (replace(FIRST, wrong=()), FIRST, True),
        (replace(FIRST, wrong=()), replace(FIRST, wrong=(), outputs=("present_key",)), False),
        (replace(FIRST, wrong=()), replace(FIRST, wrong=(), look="NaN"), False),
        (replace(FIRST, wrong=(), outputs=("output", "scores")), replace(FIRST, wrong=()), True),
        (replace(FIRST, wrong=()), replace(FIRST, wrong=(), outputs=("output", "scores")), False),
        (replace(FIRST, wrong=()), replace(FIRST, wrong=(), gross=False), False),
        (replace(FIRST, wrong=(), gross=False), replace(FIRST, wrong=()), True),
        (ABOVE, replace(ABOVE, steady=False), True),
        (ABOVE, replace(ABOVE, side="below"), False),
        (ABOVE, replace(ABOVE, side="", steady=False), False),
        (replace(ABOVE, steady=False), replace(ABOVE, side="below"), True),
        (replace(FIRST, side="above", steady=True), replace(FIRST, side="below"), True),
        (Signature("error", text="a # b"), Signature("error", text="a # b"), True),
        (Signature("error", text="a # b"), Signature("error", text="a # c"), False),
        (replace(FIRST, kernels=("flash",)), replace(FIRST, kernels=("naive",)), False),
        (FIRST.loosened, replace(FIRST, wrong=(), gross=False), True),
        (FIRST.loosened, replace(FIRST, verdict="nonfinite", wrong=(), look="NaN"), True),
        (FIRST.loosened, replace(FIRST, outputs=("present_key",)), False),
        (FIRST.loosened, replace(FIRST, verdict="crash"), False),
    ],
)
def test_the_same_failure_in_a_smaller_case_is_followed_and_another_is_not(
    first: Signature, other: Signature, follows: bool
) -> None:
    assert same(first, other) is follows
