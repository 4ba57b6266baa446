"""Published outputs beside the oracle: where they differ every judged row says so, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from attncheck.backends.ort_cpu import OrtCpu
from attncheck.engine import run as engine
from attncheck.engine.events import CaseFinished, Result
from attncheck.graph import write
from attncheck.graph.case import Case, GivenModel
from attncheck.graph.vectors import SUITE, vectors
from attncheck.problem import Arrays
from attncheck.scenario.model import Tolerance
from attncheck.vocabulary import Flag, Status, Verdict
from tests.drawing import scenario

pytestmark = pytest.mark.slow
"""The onnx package takes some seconds to generate its tests."""


def official(name: str) -> Case:
    return next(case for case in vectors() if case.id == f"{SUITE}::{name}")


def judged(case: Case) -> Result:
    (finished,) = (it for it in engine.run([case], [OrtCpu()], None, engine.Options()) if isinstance(it, CaseFinished))
    assert finished.origin == case.origin
    return finished.results[0]


def test_ids_name_the_package_and_nothing_twice() -> None:
    ids = [case.id for case in vectors()]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(re.escape(SUITE) + r"::[a-z0-9_]+", each) for each in ids)


def test_a_published_output_that_the_oracle_gives_is_nothing_to_tell() -> None:
    result = judged(official("attention_4d_causal"))
    assert (result.verdict, result.flags, result.attribution) == (Verdict.PASS, (), None)


@pytest.mark.parametrize("changed", [0.1, np.nan], ids=str)
def test_a_published_output_that_differs_is_disputed_and_the_backend_still_judged_by_the_oracle(changed: float) -> None:
    case = official("attention_4d_causal")
    wrong = case.published["Y"].copy()
    wrong[1, 2, 3, 4] += changed
    result = judged(replace(case, published={"Y": wrong}))
    assert result.verdict is Verdict.PASS
    assert Flag.DISPUTED in result.flags
    assert result.attribution is not None
    assert "disputed: the published output Y differs from the oracle" in result.attribution.said


def test_a_published_output_of_another_form_is_disputed_too() -> None:
    case = official("attention_4d_causal")
    misshapen: Arrays = {"Y": case.published["Y"][:1]}
    result = judged(replace(case, published=misshapen))
    assert Flag.DISPUTED in result.flags
    assert result.attribution is not None
    assert "shape" in result.attribution.said


def test_rounding_is_no_dispute_in_any_official_test_that_is_read() -> None:
    cases = [case for case in vectors() if "::attention" in case.id]
    events = engine.run(cases, [OrtCpu()], None, engine.Options())
    results = {it.origin.id: it.results[0] for it in events if isinstance(it, CaseFinished)}
    assert len(results) == len(cases)
    assert {case for case, it in results.items() if Flag.DISPUTED in it.flags} == set()
    assert {it.status for it in results.values()} <= {Status.PASSED, Status.SKIPPED}


def test_a_model_that_is_not_read_is_unsupported_everywhere_with_the_reason() -> None:
    foreign = official("attention_4d_causal").model.replace(b"Attention", b"Retention")
    case = replace(official("attention_4d_causal"), model=foreign, origin=GivenModel("x", "here", "no attention"))
    result = judged(case)
    assert (result.verdict, result.status) == (Verdict.UNSUPPORTED, Status.SKIPPED)
    assert "not read by attncheck" in result.message
    assert "Retention" in result.message


def test_a_case_has_its_scenarios_wishes_and_a_given_model_none() -> None:
    bound = {"*": Tolerance(1e-3), "wgsl": Tolerance(1e-4)}
    wishing = write.build(scenario(kernel="online", tolerance=bound))
    assert wishing.kernel == "online"
    assert (wishing.tolerance("wgsl"), wishing.tolerance("ort-cpu")) == (bound["wgsl"], bound["*"])
    given = official("attention_4d_causal")
    assert (given.kernel, given.tolerance("wgsl")) == (None, None)
