"""Sessions: each step has the backend's own present as its past, and the first step that goes wrong is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from attncheck.backends.base import Backend
from attncheck.backends.callable import Callable
from attncheck.backends.ort_cpu import OrtCpu
from attncheck.backends.registry import Settings, create
from attncheck.backends.wgsl import Wgsl
from attncheck.compare import judge
from attncheck.engine import run as engine
from attncheck.engine import sessions
from attncheck.engine.events import AtStep, CaseFinished, Result
from attncheck.engine.journal import Journal
from attncheck.engine.journal import read as read_journal
from attncheck.graph import read, write
from attncheck.graph.session import session
from attncheck.oracle import ask, attention
from attncheck.problem import Problem
from attncheck.scenario import Scenario, ScenarioErrors, from_command_line
from attncheck.scenario.steps import calls
from attncheck.tensors.dtypes import dtype
from attncheck.vocabulary import Flag, Status, Verdict

CALLABLES = Path(__file__).parents[1] / "callables"
SPECULATIVE = "steps=5-1-4a2.speculative-1"


def run(
    cases: Sequence[Scenario], candidates: Sequence[Backend], reference: Backend | None = None, repeat: int = 1
) -> list[CaseFinished]:
    found = engine.run(cases, candidates, reference, engine.Options(repeat=repeat))
    return [event for event in found if isinstance(event, CaseFinished)]


def result(function: str, text: str, repeat: int = 1, reference: Backend | None = None) -> Result:
    backend = Callable(CALLABLES / "sessions.py", function)
    (finished,) = run([from_command_line(text)], [backend], reference, repeat)
    return finished.results[0]


def drawn(number: int, seed: int, **fixed: str) -> Iterator[Scenario]:
    """Sessions of every operator, drawn until there are so many that can be."""
    draw, found = Random(seed), 0
    while found < number:
        axes = {**_axes(draw), **fixed}
        try:
            yield from_command_line(" ".join(f"{axis}={value}" for axis, value in axes.items()))
        except ScenarioErrors:
            continue
        found += 1


def _axes(draw: Random) -> dict[str, str]:
    op = draw.choice(("gqa", "gqa", "mha", "attention", "ms-attention"))
    batch = draw.choice((1, 1, 2, 3))
    prompt = "+".join(str(draw.randint(1, 20)) for _ in range(batch)) if op == "gqa" else str(draw.randint(1, 20))
    steps = [prompt]
    for _ in range(draw.randint(1, 4)):
        new = draw.randint(1, 6)
        steps.append(draw.choice((f"{new}", f"1x{draw.randint(1, 5)}", f"{new}a{draw.randint(0, new)}")))
    axes = {"op": op, "batch": str(batch), "steps": "-".join(steps), "heads": "4"}
    axes["kv_heads"] = draw.choice("124") if op != "ms-attention" else "4"
    axes["head_dim"] = draw.choice(("16", "32"))
    axes["data"] = draw.choice(("normal", "rising-scores", "huge-logit", "ties", "large-logits"))
    axes["capacity"] = draw.choice(("exact", "48", "64")) if op in ("gqa", "attention") else "exact"
    if op == "gqa":
        axes["rotary"] = draw.choice(("none", "half", "interleaved"))
        axes["window"] = draw.choice(("none", "3", "9"))
        axes["query_seqlens"] = draw.choice(("false", "true"))
        axes["softcap"] = draw.choice(("none", "20"))
        axes["past"] = draw.choice(("auto", "empty"))
    elif draw.random() < 0.3:
        axes["past_len"] = str(draw.randint(1, 9))
    if op == "attention":
        axes["opset"] = "25"  # ONNX Runtime's CPU computes 23 and 24 partly in float16 (docs/semantics.md)
    if op != "attention" and draw.random() < 0.3:
        axes["bias"] = "1xNxSxT"
    return axes


@pytest.mark.slow
@pytest.mark.parametrize("element", ["float32", "float16"])
def test_drawn_sessions_pass_on_the_reference_and_on_our_own_kernels(element: str) -> None:
    finished = run(list(drawn(40, seed=5, dtype=element)), create("wgsl", Settings()), OrtCpu())
    told = [(it.case, it.backend, str(it.verdict), it.message) for event in finished for it in event.results]
    assert [it for it in told if it[2] not in ("pass", "unsupported")] == []
    assert sum(it[2] == "pass" for it in told) > 60
    assert [it.case for event in finished for it in event.results if Flag.VACUOUS in it.flags] == []


BEYOND = [
    "op=gqa rotary=half rotary_cache=8 steps=6-2-1r",
    "op=sparse rotary=half rotary_cache=18 steps=16-2-1r",
    "op=ms-rotary rotary_cache=8 steps=6-2-1r",
    "op=gqa capacity=8 steps=6-1-3r",
    "op=mha capacity=8 steps=6-2-1r.full",
    "op=attention capacity=8 steps=6-2-1r",
    "op=decoder-mha past_len=6 capacity=8 steps=1x2-1r",
]


@pytest.mark.parametrize("text", BEYOND)
def test_a_step_that_goes_too_far_passes_where_it_is_refused_and_fails_by_name_where_it_is_not(text: str) -> None:
    given = from_command_line(text)
    steps = sessions.steps(session(given))
    assert [bool(step.problem.invalid) for step in steps] == [step.refused for step in given.steps]
    (found,) = run([given], [OrtCpu()])
    assert found.results[0].verdict is Verdict.PASS, found.results[0].message
    if "rotary" not in text:
        answered = result("answers_whatever_it_is_asked", text)
        assert answered.verdict is Verdict.ERROR
        assert answered.message.startswith("gave numbers for a graph that must be refused")
        assert answered.step == AtStep(len(steps), len(steps), given.steps[-1].label)


@pytest.mark.parametrize("backend", [Wgsl(), Callable(CALLABLES / "sessions.py", "declines_the_forbidden")])
def test_who_declares_that_it_takes_no_forbidden_step_is_judged_by_those_before(backend: Backend) -> None:
    (found,) = run([from_command_line("op=mha capacity=8 steps=6-2-1r")], [backend])
    assert found.results[0].verdict is Verdict.PASS, found.results[0].message
    assert found.results[0].step is not None
    assert found.results[0].step.number < 3


@pytest.mark.parametrize("text", ["steps=5-1x5-2a0-1 capacity=8", "query_seqlens=true steps=6-1-3a2-1x2 capacity=8"])
def test_buffers_of_group_query_attention_grow_where_they_are_full_or_a_chunk_says_its_tokens(text: str) -> None:
    steps = sessions.steps(session(from_command_line(f"op=gqa {text}")))
    lengths = [step.problem.capacity for step in steps if isinstance(step.problem, Problem)]
    assert lengths[0] == 8
    assert max(lengths) > 8
    (finished,) = run([from_command_line(f"op=gqa {text}")], create("wgsl", Settings()), OrtCpu())
    assert {it.verdict for it in finished.results} == {Verdict.PASS}


@pytest.mark.parametrize("op", ["gqa", "mha", "attention"])
def test_steps_agree_with_the_whole_call(op: str) -> None:
    """Expected values come from the oracle of one call, which knows no sessions."""
    whole = write.build(from_command_line(f"op={op} q_len=9 kv_heads=2 past_len=3"))
    problem = read.problem(whole.model, whole.inputs)
    expected = {it.output: it.values for it in attention.answer(problem, whole.inputs)}
    steps = sessions.steps(session(from_command_line(f"op={op} steps=4-1x2-3 kv_heads=2 past_len=3")))
    output = problem.output.name
    rows = [it.values for step in steps for it in step.answers if it.output == output]
    np.testing.assert_allclose(np.concatenate(rows, axis=1), expected[output], rtol=1e-12, atol=1e-12)
    last = {it.output: it.values for it in steps[-1].answers}
    for present in ("present_key", "present_value"):
        np.testing.assert_allclose(last[present], expected[present], rtol=0, atol=0)


def test_rotated_keys_are_carried_unrounded_and_with_the_bounds_of_the_step_that_made_them() -> None:
    steps = sessions.steps(session(from_command_line("steps=4-2-1 rotary=half dtype=float16")))
    first, *_, last = ({it.output: it for it in step.answers}["present_key"] for step in steps)
    for bound in ("values", "compute", "storage"):
        np.testing.assert_array_equal(getattr(last, bound)[:, :, :4], getattr(first, bound))
    assert (first.storage > 0.0).any()
    # The case itself holds what the dtype can, so that any tool can run the step alone.
    given = steps[-1].case.inputs["past_key"]
    np.testing.assert_array_equal(given[:, :, :4], first.values.astype(np.float16))


def test_a_past_with_bounds_widens_the_tolerance_of_what_is_computed_from_it_and_no_other() -> None:
    """A key error of e moves a score by |q| e scale: closed form for one key that is seen, and weights that are 1."""
    steps = sessions.steps(session(from_command_line("steps=4-1 rotary=half heads=1 window=2")))
    asked = steps[1]
    bare = ask.answer(asked.problem, asked.case.inputs)
    with_bounds, without = asked.answers[0], bare[0]
    assert (with_bounds.compute >= without.compute).all()
    assert (with_bounds.compute > without.compute).any()
    plain = sessions.steps(session(from_command_line("steps=4-1 heads=1 window=2")))[1]
    np.testing.assert_array_equal(plain.answers[0].compute, ask.answer(plain.problem, plain.case.inputs)[0].compute)


def test_a_dropped_token_is_another_than_the_one_that_takes_its_place() -> None:
    steps = calls(from_command_line("steps=2-4a1-2 kv_heads=1 heads=1"))
    keys = [write.build(step).inputs["key"] for step in steps]
    whole = write.build(from_command_line("q_len=5 kv_heads=1 heads=1")).inputs["key"]
    np.testing.assert_array_equal(np.concatenate([keys[0], keys[1][:, :1], keys[2]], axis=1), whole)
    assert not np.isin(keys[1][:, 1:], whole).any()


def test_a_kernel_that_appends_too_late_is_found_in_the_first_step_with_a_past() -> None:
    found = result("appends_one_slot_too_late", f"{SPECULATIVE} capacity=24", reference=OrtCpu())
    assert (found.verdict, found.step) == (Verdict.MISMATCH, AtStep(2, 4))
    assert found.worst is not None
    assert found.worst.role.startswith("present")
    assert found.case == f"case::{SPECULATIVE},capacity=24"
    assert found.attribution is not None
    assert found.attribution.said.endswith("is wrong: ort-cpu agrees with the oracle")


def test_a_cache_that_is_not_rewound_is_found_in_the_step_behind_the_rewinding() -> None:
    found = result("forgets_to_rewind", f"{SPECULATIVE} capacity=24")
    assert (found.verdict, found.step) == (Verdict.MISMATCH, AtStep(4, 4))


def test_a_wrong_step_is_named_by_its_number_and_label() -> None:
    found = result("wrong_in_the_third_call", SPECULATIVE)
    assert (found.verdict, found.step) == (Verdict.MISMATCH, AtStep(3, 4, "speculative"))


def test_a_crash_in_the_middle_ends_the_session_and_is_its_verdict_at_that_step() -> None:
    backend = Callable(CALLABLES / "sessions.py", "dies_in_the_third_call")
    cases = [from_command_line(SPECULATIVE), from_command_line("steps=3-1")]
    crashed, after = (event.results[0] for event in run(cases, [backend]))
    assert (crashed.verdict, crashed.step) == (Verdict.CRASH, AtStep(3, 4, "speculative"))
    assert (after.verdict, after.status) == (Verdict.PASS, Status.PASSED)


def test_every_repeat_takes_the_whole_session_anew() -> None:
    found = result("appends_one_slot_too_late", f"{SPECULATIVE} capacity=24", repeat=3)
    assert (found.verdict, found.step, found.flags) == (Verdict.MISMATCH, AtStep(2, 4), ())
    assert result("wrong_in_the_third_call", "steps=2-1-1", repeat=3).verdict is Verdict.PASS


def test_a_backend_reads_its_own_present_as_its_past() -> None:
    """Its keys are 2^-22 too large, in every step the same: were its past the oracle's, its present would be right."""
    found = result("eats_what_it_is_given", "steps=4-1")
    assert (found.verdict, found.step) == (Verdict.MISMATCH, AtStep(1, 2))
    # With rotary the bound allows for it at once, and later steps must too: they copy what the first one made.
    steps = sessions.steps(session(from_command_line("steps=4-1-1 rotary=half")))
    bounds = [
        judge.tolerances({it.output: it for it in step.answers}["present_key"], dtype("float32"), "f32", None)
        for step in steps
    ]
    np.testing.assert_array_equal(bounds[2][:, :, :4], bounds[0])


def test_a_journal_holds_a_session_with_its_step_and_a_resumed_run_tells_it_again(tmp_path: Path) -> None:
    backend = Callable(CALLABLES / "sessions.py", "wrong_in_the_third_call")
    (finished,) = run([from_command_line(SPECULATIVE)], [backend])
    with Journal(tmp_path / "run.journal") as file:
        file.write(finished)
    (told,) = read_journal(tmp_path / "run.journal")
    assert told == finished
    assert isinstance(told, CaseFinished)
    options = engine.Options(finished={told.origin.id: told})
    again = engine.run([from_command_line(SPECULATIVE)], [backend], None, options)
    assert [event for event in again if isinstance(event, CaseFinished)] == [told]
    (other,) = run([from_command_line(f"{SPECULATIVE} seed=1")], [backend])
    assert other.digest != told.digest


def test_the_past_of_a_session_is_that_of_its_first_step() -> None:
    first, second = calls(from_command_line("steps=2-1 past_len=7+3 op=gqa"))
    assert (first.past_len, second.past_len) == ((7, 3), (9, 5))


def drawn_of_other_operators(number: int, seed: int) -> Iterator[str]:
    """Sessions of the operators that have no past of keys alone: pages, block masks, states, and rows that turn."""
    draw = Random(seed)
    for index in range(number):
        op = ("paged", "sparse", "linear", "ms-linear", "rotary", "ms-rotary")[index % 6]
        counts = [str(draw.randint(1, 20)), *(draw.choice(("1x3", "2", "5")) for _ in range(draw.randint(1, 4)))]
        axes = {"op": op, "steps": "-".join(counts), "batch": str(draw.choice((1, 2))), "head_dim": "32"}
        axes["dtype"] = "float16" if op == "paged" else draw.choice(("float32", "float16"))
        if op in ("paged", "sparse"):
            axes |= {"kv_heads": draw.choice("124"), "rotary": draw.choice(("none", "half", "interleaved"))}
            axes |= {"past_len": draw.choice("09"), "packed": draw.choice(("none", "qkv"))}
            axes["steps"] += draw.choice(("", "-4a1-2", "-3a0-1"))
        if op == "paged":
            axes |= {"page": draw.choice(("4", "16")), "window": draw.choice(("none", "5"))}
        if "linear" in op:
            axes |= {"past_state": draw.choice(("absent", "zeros", "given")), "kv_heads": draw.choice("24")}
            axes["update_rule"] = draw.choice(("linear", "gated", "delta", "gated-delta"))
        if "rotary" in op:
            axes |= {"positions": draw.choice(("implicit", "explicit", "shifted")), "past_len": draw.choice("04")}
        yield " ".join(f"{axis}={value}" for axis, value in axes.items())


@pytest.mark.slow
def test_drawn_sessions_of_other_operators_pass_on_the_reference_and_on_our_own_kernels() -> None:
    cases = [from_command_line(text) for text in drawn_of_other_operators(36, seed=3)]
    finished = run(cases, create("wgsl", Settings()), OrtCpu())
    told = [(it.case, it.backend, str(it.verdict), it.message) for event in finished for it in event.results]
    assert [it for it in told if it[2] not in ("pass", "unsupported")] == []
    assert {it[0] for it in told if it[2] == "pass" and it[1] == "wgsl"} == {case.id for case in cases}


@pytest.mark.parametrize(
    ("whole", "steps"),
    [
        ("op=paged q_len=9 past_len=3 page=4 kv_heads=2", "op=paged steps=4-1x2-3 past_len=3 page=4 kv_heads=2"),
        ("op=sparse q_len=19 past_len=3 kv_heads=2", "op=sparse steps=14-1x2-3 past_len=3 kv_heads=2"),
        ("op=linear q_len=9 past_state=given", "op=linear steps=4-1x2-3 past_state=given"),
        ("op=ms-linear q_len=9 update_rule=gated", "op=ms-linear steps=4-1x2-3 update_rule=gated"),
        ("op=rotary q_len=9 past_len=2", "op=rotary steps=4-1x2-3 past_len=2"),
        (
            "op=ms-rotary q_len=9 positions=scattered rotary_cache=30",
            "op=ms-rotary steps=4-1x2-3 positions=scattered rotary_cache=30",
        ),
    ],
)
def test_steps_of_other_operators_agree_with_the_whole_call(whole: str, steps: str) -> None:
    """Expected values come from the oracle of one call, which knows no sessions."""
    case = write.build(from_command_line(whole))
    expected, *_ = ask.answer(read.any_problem(case.model, case.inputs), case.inputs)
    found = sessions.steps(session(from_command_line(steps)))
    axis = 0 if "op=paged" in whole else 1
    rows = [step.answers[0].values for step in found]
    np.testing.assert_allclose(np.concatenate(rows, axis=axis), expected.values, rtol=1e-12, atol=1e-12)


def test_a_state_is_carried_unrounded_and_with_what_its_rounding_may_have_moved() -> None:
    """In float16 a state is stored between calls, and not between the tokens of one."""
    whole = write.build(from_command_line("op=linear q_len=8 dtype=float16"))
    _, state = ask.answer(read.any_problem(whole.model, whole.inputs), whole.inputs)
    *_, last = sessions.steps(session(from_command_line("op=linear steps=1x8 dtype=float16")))
    np.testing.assert_allclose(last.answers[1].values, state.values, rtol=1e-12, atol=1e-12)
    assert (last.answers[1].storage >= state.storage * (1 - 1e-12)).all()
    assert (last.answers[1].storage > 1.5 * state.storage).any()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("op=linear steps=4-3a1", "the state of linear cannot be rewound"),
        ("op=rotary batch=2 steps=4-1 positions=one-row", "no step can follow it"),
        ("op=paged steps=4-1 present=absent", "leaves nothing that the next one could have as its past"),
    ],
)
def test_steps_that_an_operator_cannot_have_are_refused(text: str, said: str) -> None:
    with pytest.raises(ScenarioErrors, match=said):
        from_command_line(text)


def test_what_a_paged_step_dropped_is_not_held_to_stay() -> None:
    """Each backend has its own numbers there, which rotary rounds, and the operator leaves them alone."""
    *_, last = sessions.steps(session(from_command_line("op=paged steps=4-4a1-1 rotary=half page=4")))
    assert isinstance(last.problem, Problem)
    assert last.problem.past_key is not None
    assert last.problem.past_key.scattered is not None
    places = last.problem.past_key.scattered.places[0]
    stated = {it.output: it.stated for it in last.answers}["key_cache_out"].reshape(-1, 4, 16)
    assert stated[places[:6]].all()
    assert not stated[places[6:8]].any()


@pytest.mark.parametrize("op", ["gqa", "mha", "attention", "ms-attention", "sparse", "paged", "linear", "ms-linear"])
def test_every_step_but_the_first_is_given_what_the_one_before_left(op: str) -> None:
    first, *later = sessions.steps(session(from_command_line(f"op={op} steps=3-2-1")))
    assert not first.bind
    assert [len(step.bind) for step in later] == [1 if op in ("ms-attention", "linear", "ms-linear") else 2] * 2
