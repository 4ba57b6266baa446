"""The scenarios written by hand reject every wrong kernel somewhere, and each all that are relevant, or say why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest

from attncheck.compare.arithmetic import Compute
from attncheck.compare.sharpness import Sharpness, sharpness
from attncheck.engine import sessions
from attncheck.graph.session import session
from attncheck.oracle.wrong.catalogue import CATALOGUE
from attncheck.oracle.wrong.masks import MASKS
from attncheck.oracle.wrong.recurrences import RECURRENCES
from attncheck.oracle.wrong.sinks import SINKS
from attncheck.oracle.wrong.turning import TURNING
from attncheck.scenario.load import load
from attncheck.scenario.model import Scenario
from attncheck.scenario.select import SET_APART
from attncheck.shipped import scenarios_dir

pytestmark = pytest.mark.slow

ROUNDING = {"score-upper-half-ignored", "scale-missing", "scale-twice", "not-normalised"}
BY_KEY = {f"{what}-not-rescaled-by-key" for what in ("maximum", "sums", "total")}
BY_32 = {f"{what}-not-rescaled-by-32" for what in ("maximum", "sums", "total")}
SKIPPED = {"keys-16-to-31-of-32-skipped", "keys-8-to-15-of-16-skipped", "keys-4-to-7-of-8-skipped"}
SHORT = {"blocks-of-4-scored-as-8", "blocks-of-4-scored-as-8-kept", "blocks-of-8-scored-as-16"}
CAUSAL = {"causal-ignored", "causal-one-ahead", "causal-one-behind"}
ENDS = {"first-key-dropped", "last-key-dropped", "new-ignored"}
WINDOW = {"window-ignored", "window-of-first-row", "window-one-long", "window-one-short"}


@dataclass(frozen=True)
class Excuse:
    """Why these wrong kernels need not show in the cases that it covers."""

    reason: str
    covers: Callable[[Scenario], bool]
    names: set[str]


EXCUSES = (
    Excuse(
        "one key holds all the weight of a row, whatever becomes of the others and of the size of the scores",
        lambda it: it.data == "huge-logit",
        ROUNDING
        | BY_KEY
        | SKIPPED
        | SHORT
        | WINDOW
        | {"causal-ignored", "causal-one-ahead", "first-key-dropped", "last-key-dropped", "past-ignored"},
    ),
    Excuse(
        "the largest few scores hold all the weight: what is done to a key far below them does not show",
        lambda it: it.data == "large-logits",
        {"keys-16-to-31-of-32-skipped"} | SHORT | CAUSAL | ENDS,
    ),
    Excuse(
        "scores rise from key to key, so that after many the first has no weight left",
        lambda it: it.data == "rising-scores" and max(it.kv_len) > 1000,
        {"first-key-dropped"},
    ),
    Excuse(
        "groups of keys have equal scores, in q.k as in its lower half, and the maximum comes early",
        lambda it: it.data == "ties",
        {"score-upper-half-ignored"} | BY_KEY | BY_32,
    ),
    Excuse(
        "all keys have the same score, so that the weights are uniform whatever is done to it",
        lambda it: it.data == "constant",
        {"uniform-weights"} | (ROUNDING - {"not-normalised"}) | BY_KEY,
    ),
    Excuse(
        "whole rows, or all that an entry has, are hidden: a mask read as a length, or from another row, says the "
        "same of many, and a last row that is hidden is zero",
        lambda it: it.holes in ("first-row", "middle-row", "last-row", "entry"),
        {"mask-to-length", "mask-of-row-0", "last-query-dropped"},
    ),
    Excuse(
        "one key of a thousand weighs less than float16 arithmetic may err",
        lambda it: it.op == "paged" and max(it.kv_len) > 1000,
        CAUSAL | ENDS,
    ),
    Excuse(
        "the last keys lie behind the mask's end",
        lambda it: it.mask_len is not None,
        {"last-key-dropped"},
    ),
    Excuse(
        "an MHA twin of a case with one KV head: every head holds the same keys",
        lambda it: it.op in ("mha", "ms-attention") and it.kv_heads == 1,
        {"kv-head-0-for-all", "kv-head-next"},
    ),
)


@cache
def shipped() -> tuple[tuple[Scenario, Sharpness], ...]:
    by_hand = (it for it in load([scenarios_dir()], scenarios_dir()) if not {"pairs", *SET_APART} & set(it.tags))
    return tuple((it, told) for it in by_hand for told in sharp(it))


def sharp(it: Scenario) -> tuple[Sharpness, ...]:
    """With float32 arithmetic, and with the dtype's own, as backends may have either."""
    steps = [step for step in sessions.steps(session(it)) if not step.problem.invalid]
    computes: tuple[Compute, ...] = ("f32",) if it.dtype == "float32" else ("f32", "native")
    override = it.tolerance.get("*")
    return tuple(
        sessions.together([sharpness(one.problem, one.case.inputs, one.answers, compute, override) for one in steps])
        for compute in computes
    )


def excused(it: Scenario) -> set[str]:
    return {name for excuse in EXCUSES if excuse.covers(it) for name in excuse.names}


def test_every_wrong_kernel_is_rejected_somewhere() -> None:
    rejected = {name for _, told in shipped() for name in told.rejected}
    # Masks, sinks and packed heads count as soon as a shipped case has them.
    asked = {name for _, told in shipped() for name in told.relevant}
    every = {wrong.name for wrong in CATALOGUE} | {wrong.name for wrong in TURNING}
    every |= {wrong.name for wrong in RECURRENCES}
    assert every - {wrong.name for wrong in (*SINKS, *MASKS)} <= asked
    assert asked - rejected == set()


def test_no_shipped_case_is_vacuous() -> None:
    assert [it.id for it, told in shipped() if told.vacuous] == []


def test_each_case_rejects_every_wrong_kernel_that_is_relevant_to_it_and_not_excused() -> None:
    missed = {it.id: left for it, told in shipped() if (left := set(told.survivors) - excused(it))}
    assert missed == {}


def test_no_excuse_is_idle() -> None:
    """A name that no case needs goes, or the excuse would hide a case that becomes blunt."""
    for excuse in EXCUSES:
        survivors = {name for it, told in shipped() if excuse.covers(it) for name in told.survivors}
        assert excuse.names - survivors == set(), excuse.reason
