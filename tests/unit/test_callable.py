"""A user's own function as a backend: what it gives is judged, and whatever else it does is the verdict of its case."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pytest

from attncheck.backends.callable import Callable
from attncheck.callable import KINDS, takes_problem
from attncheck.engine import run as engine
from attncheck.engine.events import BackendFailed, BackendReady, CaseFinished, Event, Result
from attncheck.problem import LinearProblem, Problem, Rotary, RotaryProblem
from attncheck.scenario.command_line import from_command_line
from attncheck.scenario.model import Scenario
from attncheck.vocabulary import Flag, Status, Verdict
from tests.drawing import scenario

CALLABLES = Path(__file__).parents[1] / "callables"
MEBIBYTE = 2**20


def events(
    function: str, cases: Sequence[Scenario], file: str = "faulty.py", options: engine.Options | None = None
) -> list[Event]:
    backend = Callable(CALLABLES / file, function)
    return list(engine.run(cases, [backend], None, options or engine.Options(time_limit=20.0)))


def results(found: Sequence[Event]) -> list[Result]:
    return [it for event in found if isinstance(event, CaseFinished) for it in event.results]


def decode(**axes: object) -> Scenario:
    """A GQA decode with a past, so that every role is there."""
    return scenario(q_len=(2,), past_len=(5,), **axes)


def result(function: str, options: engine.Options | None = None) -> Result:
    (found,) = results(events(function, [decode()], options=options))
    return found


@pytest.mark.parametrize(
    "case",
    [
        scenario(),
        decode(),
        scenario(q_len=(4, 4, 4), past_len=(3, 17, 0), capacity=30, window=4),
        scenario(op="mha", kv_heads=4, q_len=(7, 7), past_len=(3, 3), causal=True),
        scenario(dtype="float16", q_len=(9,)),
    ],
)
def test_a_function_of_the_problem_that_is_right_passes_whatever_the_operator_and_layout(case: Scenario) -> None:
    (found,) = results(events("attention", [case], "right.py"))
    assert found.verdict is Verdict.PASS, found.message


@pytest.mark.parametrize("axes", [
    {"op": "linear", "update_rule": "linear", "kv_heads": 2},
    {"op": "ms-linear", "update_rule": "delta", "beta": "by-head", "past_state": "given"},
    {"op": "linear", "update_rule": "delta", "beta": "shared", "kv_heads": 2},
])  # fmt: skip
def test_a_function_that_says_so_takes_a_problem_of_another_kind(axes: dict[str, str]) -> None:
    (found,) = results(events("other_kinds", [scenario(q_len=(5,), **axes)], "right.py"))
    assert found.verdict is Verdict.PASS, found.message


@pytest.mark.parametrize(("function", "op"), [("attention", "rotary"), ("attention", "linear"), ("other_kinds", "gqa")])
def test_a_function_is_not_given_a_kind_of_problem_that_it_does_not_take(function: str, op: str) -> None:
    axes = {"rotary": "half", "rotary_dim": 16, "rotary_cache": 5} if op == "rotary" else {}
    (found,) = results(events(function, [scenario(op=op, q_len=(5,), **axes)], "right.py"))
    assert found.verdict is Verdict.UNSUPPORTED
    assert found.message.startswith("it takes problems of")


def test_every_kind_of_problem_can_be_taken() -> None:
    assert {it.kind for it in (Problem, RotaryProblem, LinearProblem)} == set(KINDS)


def test_a_kind_that_there_is_not_is_refused_where_it_is_said() -> None:
    with pytest.raises(ValueError, match="there are attention, rotary, linear"):
        takes_problem("atention")


def test_a_function_of_the_graph_gets_the_model_and_the_graphs_own_names() -> None:
    case = scenario(op="mha", heads=1, kv_heads=1, q_len=(5, 5), causal=False)
    (found,) = results(events("one_head_prefill", [case], "right.py"))
    assert found.verdict is Verdict.PASS, found.message


def test_what_a_function_declares_is_its_evidence_and_its_name_by_default() -> None:
    ready = [it for it in events("attention", [decode()], "right.py") if isinstance(it, BackendReady)]
    assert ready[0].hello.device["provider"] == "NumPy"
    ready = [it for it in events("zeros", [decode()]) if isinstance(it, BackendReady)]
    assert ready[0].backend == "faulty.py:zeros"
    assert ready[0].hello.device["provider"] == "faulty.py"


EXPECTED = {
    "segfault": (Verdict.CRASH, "SIGSEGV"),
    "abort": (Verdict.CRASH, "SIGABRT"),
    "exits": (Verdict.CRASH, "exit code 3"),
    "dies_and_leaves_a_child": (Verdict.CRASH, "SIGABRT"),
    "writes_into_every_stream": (Verdict.CRASH, "stream of its answers"),
    "wrong_shape": (Verdict.MALFORMED, "shape [1, 4, 2, 15], expected [1, 4, 2, 16]"),
    "wrong_dtype": (Verdict.MALFORMED, "float64"),
    "drops_an_output": (Verdict.MALFORMED, "present_value is missing"),
    "invents_an_output": (Verdict.MALFORMED, "outptu"),
    "returns_nothing": (Verdict.MALFORMED, "None"),
    "returns_a_list": (Verdict.MALFORMED, "a list"),
    "returns_objects": (Verdict.MALFORMED, "Python objects"),
    "changes_an_input": (Verdict.OOB_WRITE, "changed its input key: first at [0, 1, 19]"),
    "writes_behind_an_input": (Verdict.OOB_WRITE, "input past_key: the first stray byte is 8 bytes behind"),
    "writes_in_front_of_an_input": (Verdict.OOB_WRITE, "outside of the input past_value: 9 bytes in front"),
    "asks_for_too_much_at_once": (Verdict.OUT_OF_MEMORY, "allocate"),
    "raises": (Verdict.ERROR, "RuntimeError: the kernel is on fire"),
    "zeros": (Verdict.MISMATCH, ""),
    "not_a_number": (Verdict.NONFINITE, ""),
    "prints_garbage": (Verdict.PASS, ""),
}


@pytest.mark.skipif(os.name != "posix", reason="signals are named, and processes forked, on POSIX only")
@pytest.mark.parametrize("function", EXPECTED)
def test_every_fault_is_the_verdict_of_its_case(function: str) -> None:
    verdict, words = EXPECTED[function]
    found = result(function)
    assert found.verdict is verdict, found.message
    assert words in found.message


@pytest.mark.parametrize(("function", "reason"), [("declines", "not my operator"), ("declines_a_graph", "no graph")])
def test_what_a_function_declines_is_unsupported_with_its_reason(function: str, reason: str) -> None:
    found = result(function)
    assert (found.verdict, found.status) == (Verdict.UNSUPPORTED, Status.SKIPPED)
    assert reason in found.message


def test_declining_costs_no_process() -> None:
    told = [it.message for it in results(events("declines", [decode(id="a"), decode(id="b")]))]
    assert [message[-len("asked 1 times") :] for message in told] == ["asked 1 times", "asked 2 times"]


def test_a_step_that_a_function_declines_is_said_and_its_session_skipped() -> None:
    (found,) = results(events("declines_what_has_a_past", [from_command_line("heads=2 kv_heads=1 steps=3-1x3")]))
    assert (found.verdict, found.status) == (Verdict.UNSUPPORTED, Status.SKIPPED)
    assert found.message == "it says: no past (in step 2)"


def test_a_function_that_declines_now_and_then_is_flaky_and_fails() -> None:
    found = result("declines_the_second_time", engine.Options(repeat=3))
    assert found.verdict is Verdict.UNSUPPORTED
    assert Flag.FLAKY in found.flags
    assert found.status is Status.FAILED


def test_a_stray_write_counts_though_the_function_declines_after_it() -> None:
    assert result("declines_after_a_stray_write").verdict is Verdict.OOB_WRITE


def test_a_graph_that_must_be_refused_is_not_refused_by_declining_it() -> None:
    (found,) = results(events("declines", [from_command_line("rotary=half rotary_cache=absent")]))
    assert found.verdict is Verdict.UNSUPPORTED


def test_a_hang_ends_at_the_time_limit() -> None:
    found = result("hangs", engine.Options(time_limit=0.5))
    assert found.verdict is Verdict.TIMEOUT
    assert "0.5 s" in found.message


def test_a_process_that_eats_memory_is_ended_with_both_numbers() -> None:
    found = result("eats_memory", engine.Options(memory_limit=300 * MEBIBYTE))
    assert found.verdict is Verdict.OUT_OF_MEMORY
    assert "of the 300.0 MiB that it may hold" in found.message


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_a_process_that_the_system_kills_is_out_of_memory_where_it_was_near_its_limit_and_a_crash_elsewhere() -> None:
    near = result("holds_270_mebibytes_and_is_killed", engine.Options(memory_limit=300 * MEBIBYTE))
    assert near.verdict is Verdict.OUT_OF_MEMORY
    assert "the system ended it" in near.message
    far = result("holds_270_mebibytes_and_is_killed", engine.Options(memory_limit=3000 * MEBIBYTE))
    assert (far.verdict, "SIGKILL" in far.message) == (Verdict.CRASH, True)
    unlimited = result("is_killed")
    assert (unlimited.verdict, "SIGKILL" in unlimited.message) == (Verdict.CRASH, True)


def test_after_any_fault_the_next_case_gets_a_fresh_process() -> None:
    first, second = results(events("segfault", [decode(id="a"), decode(id="b")]))
    assert (first.case, second.case) == ("a", "b")
    assert {first.verdict, second.verdict} == {Verdict.CRASH}
    assert "about to fall" in second.stderr


def test_a_function_that_answers_differently_each_time_is_flaky() -> None:
    found = result("answers_differently_each_time", engine.Options(repeat=3))
    assert Flag.FLAKY in found.flags
    assert found.status.value == "failed"


@pytest.mark.parametrize(
    ("file", "function", "words"),
    [
        ("right.py", "atention", "has no function 'atention'; it has attention, attention_in_bfloat16, "),
        ("faulty.py", "not_callable", "'not_callable' is not a function"),
        ("broken.py", "anything", "cannot be imported: ModuleNotFoundError: No module named 'a_module_no_one_has'"),
        ("absent.py", "anything", "there is no file"),
    ],
)
def test_a_function_that_cannot_be_had_is_a_backend_that_cannot_start(file: str, function: str, words: str) -> None:
    (failed,) = [it for it in events(function, [decode()], file) if isinstance(it, BackendFailed)]
    assert words in failed.message


def test_the_fields_that_the_documentation_names_are_fields_that_a_function_is_given() -> None:
    text = (Path(__file__).parents[2] / "docs" / "backends.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"\| of `problem` \| what \|\n\| --- \| --- \|\n((?:\|.*\n)+)", text)
    named = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert named <= {it.name for it in fields(Problem)}
    told = {name for line in table.splitlines() if "`style`" in line for name in re.findall(r"`(\w+)`", line)}
    assert {it.name for it in fields(Rotary)} & told == {"style", "dim", "positions"}
