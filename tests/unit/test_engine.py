"""The engine: every kind of outcome becomes its verdict, for that case alone, and the run goes on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from attncheck.backends.base import BackendUnavailable, CannotRequest, Evidence, Hello, Launch, Request
from attncheck.backends.ort_cpu import OrtCpu
from attncheck.compare.arithmetic import Compute
from attncheck.compare.sharpness import Sharpness
from attncheck.engine import run as engine
from attncheck.engine import status
from attncheck.engine.events import BackendFailed, CaseFinished, Counts, Event, Result, RunFinished, RunStarted
from attncheck.graph.case import Case
from attncheck.problem import AnyProblem
from attncheck.scenario.model import Scenario, Tolerance
from attncheck.vocabulary import ExitCode, Flag, Status, Verdict
from tests.drawing import scenario

RUNTIMES = Path(__file__).parents[1] / "runtimes"


class Faulty:
    """A backend on the faulty runtime, in a real process: each case's `about` says what goes wrong."""

    name = "faulty"

    def __init__(self, refuse: str = "", check: str = "") -> None:
        self._refuse, self._check = refuse, check

    def arithmetic(self, problem: AnyProblem) -> Compute:
        return "f32"

    def launch(self) -> Launch:
        return Launch("faulty", {"refuse": self._refuse}, environment={"PYTHONPATH": str(RUNTIMES)})

    def check(self, hello: Hello) -> None:
        if self._check:
            raise BackendUnavailable(self._check)

    def unsupported(self, case: Case, problem: AnyProblem, hello: Hello) -> str | None:
        return "it says so" if case.origin.about == "unsupported" else None

    def requests(self, case: Case, problem: AnyProblem, hello: Hello) -> Sequence[Request]:
        if case.origin.about == "no-request":
            raise CannotRequest("its shader is broken")
        outputs = [{"name": it.name, "shape": it.shape, "dtype": it.dtype} for it in case.outputs]
        return (Request("", {"how": case.origin.about, "outputs": outputs}),)

    def fallback(self, evidence: Evidence) -> str | None:
        return None if evidence.provider == "faulty" else f"{evidence.provider} ran"


def _tags(case: Case) -> tuple[str, ...]:
    assert isinstance(case.origin, Scenario)
    return case.origin.tags


def events(
    *cases: Scenario, reference: bool = True, options: engine.Options | None = None, faulty: Faulty | None = None
) -> list[Event]:
    candidate = faulty or Faulty()
    options = options or engine.Options(time_limit=2.0)
    return list(engine.run(cases, [candidate], OrtCpu() if reference else None, options))


def results(found: Sequence[Event], backend: str) -> list[Result]:
    return [it for event in found if isinstance(event, CaseFinished) for it in event.results if it.backend == backend]


def finished(found: Sequence[Event]) -> RunFinished:
    assert isinstance(found[-1], RunFinished)
    return found[-1]


EXPECTED = {
    "wrong": (Verdict.MISMATCH, ""),
    "nan": (Verdict.NONFINITE, ""),
    "shape": (Verdict.MALFORMED, "shape"),
    "dtype": (Verdict.MALFORMED, "float64"),
    "missing": (Verdict.MALFORMED, "missing"),
    "no-evidence": (Verdict.ERROR, "without evidence"),
    "elsewhere": (Verdict.FALLBACK, "elsewhere ran"),
    "segfault": (Verdict.CRASH, "SIGSEGV"),
    "exit": (Verdict.CRASH, "exit code 7"),
    "hang": (Verdict.TIMEOUT, "2 s"),
    "raise": (Verdict.ERROR, "on fire"),
    "no-request": (Verdict.ERROR, "shader is broken"),
    "unsupported": (Verdict.UNSUPPORTED, "it says so"),
}


def test_every_fault_is_the_verdict_of_its_case_alone_and_the_run_goes_on() -> None:
    found = events(*(scenario(id=how, about=how) for how in EXPECTED))
    faulty = results(found, "faulty")
    assert {it.case: it.verdict for it in faulty} == {how: verdict for how, (verdict, _) in EXPECTED.items()}
    for it in faulty:
        assert EXPECTED[it.case][1] in it.message
    # Whatever the candidate does to its process, the reference's results stand beside it, in the order asked for.
    assert [it.case for it in results(found, "ort-cpu")] == list(EXPECTED)
    assert {it.verdict for it in results(found, "ort-cpu")} == {Verdict.PASS}
    assert finished(found).counts == Counts(failed=len(EXPECTED) - 1, skipped=1)


def test_a_crash_carries_what_the_process_said_last() -> None:
    (crashed,) = results(events(scenario(about="segfault"), reference=False), "faulty")
    assert "about to fall" in crashed.stderr


def test_a_mismatch_names_its_worst_element_and_both_values() -> None:
    (wrong,) = results(events(scenario(about="wrong"), reference=False), "faulty")
    assert wrong.worst is not None
    assert wrong.worst.got == 0.0
    assert wrong.worst.expected != 0.0
    assert wrong.worst.against == "oracle"
    assert {it.role for it in wrong.differences} == {"output", "present_key", "present_value"}


def test_a_refused_reference_is_flagged_on_the_candidates_row() -> None:
    found = events(scenario(head_dim=12, about="wrong"))
    assert [it.verdict for it in results(found, "ort-cpu")] == [Verdict.UNSUPPORTED]
    assert results(found, "faulty")[0].flags == (Flag.REFERENCE_REFUSED,)


def test_the_first_failure_ends_a_run_that_is_to_fail_fast() -> None:
    cases = [scenario(id=str(n), about="wrong") for n in range(9)]
    found = events(*cases, options=engine.Options(fail_fast=True))
    assert [it.case for it in results(found, "faulty")] == ["0"]
    assert finished(found).counts == Counts(failed=1)


def test_a_cancelled_run_ends_at_once_and_keeps_what_was_judged() -> None:
    cancelled = threading.Event()
    options = engine.Options(time_limit=60.0, cancelled=cancelled)
    found: list[Event] = []
    for event in engine.run(
        [scenario(id="a", about="wrong"), scenario(id="b", about="hang")], [Faulty()], None, options
    ):
        found.append(event)
        if isinstance(event, CaseFinished):
            cancelled.set()
    assert [it.case for it in results(found, "faulty")] == ["a"]
    assert finished(found).interrupted
    assert finished(found).counts == Counts(failed=1)


def test_a_verdict_that_changes_between_repeats_is_flaky_and_fails() -> None:
    (flaky,) = results(events(lenient("raise-later"), reference=False, options=engine.Options(repeat=3)), "faulty")
    assert flaky.flags == (Flag.FLAKY,)
    assert (flaky.verdict, flaky.status) == (Verdict.ERROR, Status.FAILED)


def test_bits_that_change_between_repeats_are_a_flag_and_pass() -> None:
    options = engine.Options(repeat=2)
    (wobbly,) = results(events(lenient("wobble"), reference=False, options=options), "faulty")
    # A tolerance as wide as a lenient case's lets every wrong kernel pass, which is a flag of its own.
    assert set(wobbly.flags) == {Flag.NOT_BITWISE, Flag.VACUOUS}
    assert wobbly.status is Status.PASSED
    (steady,) = results(events(lenient("wrong"), reference=False, options=options), "faulty")
    assert steady.flags == (Flag.VACUOUS,)


def lenient(how: str) -> Scenario:
    return scenario(about=how, tolerance={"*": Tolerance(100.0)})


class Other(Faulty):
    """A second faulty backend: what it does is said in the case's only tag."""

    name = "other"

    def requests(self, case: Case, problem: AnyProblem, hello: Hello) -> Sequence[Request]:
        (how,) = _tags(case)
        return super().requests(replace(case, origin=replace(case.origin, about=how)), problem, hello)

    def unsupported(self, case: Case, problem: AnyProblem, hello: Hello) -> str | None:
        return "it says so" if _tags(case) == ("unsupported",) else None


@pytest.mark.parametrize(
    ("reference", "said", "flags"),
    [
        ("wrong", "disputed: other agrees with faulty", (Flag.DISPUTED,)),
        ("nan", "both faulty and other differ from the oracle, and from each other", ()),
        ("unsupported", "judged by the oracle alone: other does not take this case", (Flag.REFERENCE_REFUSED,)),
        ("raise", "judged by the oracle alone: other gave no numbers", ()),
    ],
)
def test_a_wrong_candidate_is_told_apart_from_its_reference(reference: str, said: str, flags: tuple[Flag, ...]) -> None:
    found = list(engine.run([scenario(about="wrong", tags=(reference,))], [Faulty()], Other(), engine.Options()))
    (wrong,) = results(found, "faulty")
    assert wrong.attribution is not None
    assert wrong.attribution.said.startswith(said)
    assert wrong.flags == flags


def test_a_candidate_that_is_wrong_alone_says_so_with_all_three_numbers() -> None:
    (wrong,) = results(events(scenario(about="wrong")), "faulty")
    assert wrong.attribution is not None
    assert wrong.attribution.said == "faulty is wrong: ort-cpu agrees with the oracle"
    assert wrong.attribution.candidate_oracle == pytest.approx(wrong.attribution.candidate_reference, rel=1e-5)
    assert wrong.attribution.reference_oracle is not None
    assert wrong.attribution.reference_oracle < 1e-5


def test_a_wrong_reference_fails_on_its_own_row_and_is_suspect() -> None:
    found = list(engine.run([scenario(about="wrong")], [OrtCpu()], Faulty(), engine.Options()))
    (wrong,) = results(found, "faulty")
    assert wrong.status is Status.FAILED
    assert wrong.attribution is not None
    assert wrong.attribution.said == "reference suspect: ort-cpu agrees with the oracle"
    assert [it.status for it in results(found, "ort-cpu")] == [Status.PASSED]


def test_a_passing_case_tells_what_it_would_have_noticed_where_that_is_asked_for() -> None:
    def sharpness(*, asked_for: bool, tolerance: float) -> Sharpness | None:
        case = scenario(tolerance={"*": Tolerance(tolerance)})
        found = list(engine.run([case], [OrtCpu()], None, engine.Options(sharpness=asked_for)))
        (passed,) = results(found, "ort-cpu")
        assert passed.verdict is Verdict.PASS
        return passed.sharpness

    assert sharpness(asked_for=False, tolerance=1e-5) is None
    sharp, blunt = sharpness(asked_for=True, tolerance=1e-5), sharpness(asked_for=True, tolerance=2.0)
    assert sharp is not None
    assert blunt is not None
    assert not sharp.survivors
    assert "causal-ignored" in sharp.rejected
    assert set(blunt.rejected) < set(sharp.rejected)


@pytest.mark.parametrize(
    ("how", "verdict", "words"),
    [
        ("refuse", Verdict.PASS, "refused, as it must be (do_rotary=1 needs cos_cache and sin_cache)"),
        ("raise", Verdict.ERROR, "failed, which refuses nothing: the graph must be refused (do_rotary=1 needs"),
        ("wrong", Verdict.ERROR, "gave numbers for a graph that must be refused: do_rotary=1"),
        ("segfault", Verdict.CRASH, "SIGSEGV"),
    ],
)
def test_a_graph_that_the_text_forbids_must_be_refused_in_words(how: str, verdict: Verdict, words: str) -> None:
    forbidden = scenario(about=how, rotary="half", rotary_dim=16, rotary_cache=0)
    found = events(forbidden)
    (told,) = results(found, "faulty")
    assert told.verdict is verdict
    assert words in told.message
    assert [it.status for it in results(found, "ort-cpu")] == [Status.PASSED]


@pytest.mark.parametrize("faulty", [Faulty(refuse="no adapter"), Faulty(check="no adapter")])
def test_without_a_candidate_nothing_is_run_and_the_reason_is_told(faulty: Faulty) -> None:
    found = events(scenario(), faulty=faulty)
    assert [(it.backend, it.message) for it in found if isinstance(it, BackendFailed)] == [("faulty", "no adapter")]
    assert not any(isinstance(it, CaseFinished) for it in found)
    assert isinstance(found[0], RunStarted)
    assert finished(found).counts == Counts()


def blank(verdict: Verdict, state: Status, *, reference: bool = False) -> Result:
    return Result("case", "reference" if reference else "candidate", "", False, verdict, state, reference=reference)


PASSED = blank(Verdict.PASS, Status.PASSED)
FAILED = blank(Verdict.MISMATCH, Status.FAILED)
XFAILED = blank(Verdict.MISMATCH, Status.XFAILED)
SKIPPED = blank(Verdict.UNSUPPORTED, Status.SKIPPED)


def as_reference(result: Result) -> Result:
    return replace(result, reference=True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([PASSED, as_reference(PASSED)], Status.PASSED),
        ([PASSED, as_reference(FAILED)], Status.FAILED),
        ([FAILED, as_reference(PASSED)], Status.FAILED),
        ([PASSED, as_reference(SKIPPED)], Status.PASSED),
        ([SKIPPED, PASSED], Status.PASSED),
        ([SKIPPED, as_reference(PASSED)], Status.SKIPPED),
        ([SKIPPED, as_reference(FAILED)], Status.FAILED),
        ([SKIPPED, as_reference(XFAILED)], Status.SKIPPED),
    ],
)
def test_a_case_counts_by_the_worst_of_its_results_and_only_a_candidate_can_pass_it(
    given: list[Result], expected: Status
) -> None:
    assert status.of_case(given) is expected


def ended(interrupted: bool = False, **numbers: int) -> RunFinished:
    return RunFinished(Counts(**numbers), 1.0, interrupted)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (status.exit_code(ended(passed=3)), ExitCode.OK),
        (status.exit_code(ended(passed=3, skipped=2)), ExitCode.OK),
        (status.exit_code(ended(xfailed=1)), ExitCode.OK),
        (status.exit_code(ended(passed=3, failed=1)), ExitCode.FAILED),
        (status.exit_code(ended(passed=3, xpassed=1)), ExitCode.FAILED),
        (status.exit_code(ended()), ExitCode.NOTHING),
        (status.exit_code(ended(skipped=4)), ExitCode.NOTHING),
        (status.exit_code(ended(), unavailable=["wgsl"]), ExitCode.BACKEND),
        (status.exit_code(ended(passed=1), unavailable=["wgsl"]), ExitCode.BACKEND),
        (status.exit_code(ended(failed=1), unavailable=["wgsl"]), ExitCode.FAILED),
        (status.exit_code(ended(failed=1, interrupted=True)), ExitCode.INTERRUPTED),
        (status.exit_code(ended(passed=1), flags=[Flag.VACUOUS]), ExitCode.OK),
        (status.exit_code(ended(passed=1), flags=[Flag.VACUOUS], fail_on=[Flag.VACUOUS]), ExitCode.FAILED),
        (status.exit_code(ended(failed=1), exit_zero=True), ExitCode.OK),
        (status.exit_code(ended(failed=1), unavailable=["wgsl"], exit_zero=True), ExitCode.BACKEND),
        (status.exit_code(ended(), exit_zero=True), ExitCode.NOTHING),
        (status.exit_code(ended(), partial=True), ExitCode.OK),
        (status.exit_code(ended(skipped=4), partial=True), ExitCode.OK),
        (status.exit_code(ended(failed=1), partial=True), ExitCode.FAILED),
        (status.exit_code(ended(), unavailable=["wgsl"], partial=True), ExitCode.BACKEND),
    ],
)
def test_the_exit_code_follows_the_table(code: ExitCode, expected: ExitCode) -> None:
    assert code is expected
