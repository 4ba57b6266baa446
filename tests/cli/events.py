"""Constructed runs: real events with every verdict and every flag, for tests of the reports."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from attncheck.backends.base import Evidence, Hello
from attncheck.compare.difference import Difference, Place
from attncheck.compare.picture import Axis, Map, Mark, Numbers, Picture, ScoreRow
from attncheck.compare.sharpness import Sharpness
from attncheck.engine.events import (
    AtStep,
    Attribution,
    BackendFailed,
    BackendReady,
    CaseFinished,
    Change,
    Commands,
    Compared,
    Counts,
    Event,
    Expected,
    Result,
    RunFinished,
    RunStarted,
)
from attncheck.graph.case import GivenModel
from attncheck.oracle.conventions import Convention
from attncheck.scenario.model import Scenario, Source, Step
from attncheck.vocabulary import Flag, Status, Verdict

PLACE = Place("output", 1, 3, 127, 63)


def difference(margin: float = 0.038, role: str = "output", subject: str = "naive", **changes: object) -> Difference:
    tolerance = 1.1e-6
    failing = 12 if margin > 1 else 0
    made = Difference(
        role=role,
        subject=subject,
        against="oracle",
        max_abs=margin * tolerance,
        error=margin * tolerance,
        tolerance=tolerance,
        margin=margin,
        place=PLACE,
        got=0.123456791,
        expected=0.123456791 - margin * tolerance,
        compared=4096,
        failing=failing,
        nonfinite=0,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def result(case: str, verdict: Verdict = Verdict.PASS, **changes: object) -> Result:
    status = {Verdict.PASS: Status.PASSED, Verdict.UNSUPPORTED: Status.SKIPPED}.get(verdict, Status.FAILED)
    made = Result(case, "wgsl", "naive", True, verdict, status)
    if verdict is Verdict.PASS:
        made = replace(made, differences=(difference(),), worst=difference())
    return replace(made, **changes)  # type: ignore[arg-type]


def reference(case: str, verdict: Verdict = Verdict.PASS, **changes: object) -> Result:
    return result(case, verdict, **{"backend": "ort-cpu", "kernel": "", "auto": False, "reference": True, **changes})


def scenario(case: str, **changes: object) -> Scenario:
    made = Scenario(
        id=case,
        source=Source(case.partition("::")[0], 7),
        op="gqa",
        dtype="float32",
        batch=2,
        q_len=(1, 4),
        past_len=(20, 20),
        kv_len=(21, 24),
        heads=4,
        kv_heads=2,
        head_dim=16,
        v_head_dim=16,
        window=3,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def finished(*results: Result) -> CaseFinished:
    return CaseFinished(scenario(results[0].case), "digest", results)


MISMATCH = difference(
    281.8, got=-0.123456791, expected=-0.123146811, place=Place("output", 1, 3, 127, 63), subject="online"
)
SUSPECT = Attribution("reference suspect: wgsl agrees with the oracle", reference_oracle=3.1e-4)
NONFINITE = difference(
    math.inf,
    role="present_value",
    max_abs=math.inf,
    error=math.inf,
    got=math.nan,
    expected=0.25,
    failing=64,
    nonfinite=64,
    place=Place("present_value", 0, 1, 21, 0),
)


PICTURE = Picture(
    *("output", "output", 1, 3, 127, 63),
    Numbers(
        60, (0.5, 0.25, "NaN", -0.123456791), (0.5, 0.25, 0.125, -0.123146811), (1.1e-6,) * 4, (0.5, 0.25, 0.125, 0.0)
    ),
    (
        Map("margin", None, Axis("query", 128, 64), Axis("head", 4), ((0.1, 0.2, 0.0, 1.5), (None, "NaN", 0.3, 281.8))),
        Map(
            "weight",
            3,
            Axis("query", 128, 64),
            Axis("key", 150, 50, (Mark(22, "new keys"),)),
            ((0.5, 1.0, 0.0), (0.0, 0.25, 1.0)),
            ((0, 86), (20, 150)),
        ),
    ),
    ScoreRow(Axis("key", 150, 50), (None, 1.5, 2.25), (0.0, 0.25, 0.75), (87, 150)),
)

KNOWN = Expected(
    "expectations.yaml:2",
    "mismatch with max_abs from 0.0001 to 0.1",
    "the window is never read",
    "https://example.org/issues/1",
)
DEADLY = Expected("expectations.yaml:9", "crash", "no cache, no check", "https://example.org/issues/2")


def every_verdict() -> list[Event]:
    """One case for each verdict, flag and status."""
    prefill, window = "scenarios/prefill.yaml::", "scenarios/window.yaml::"
    long = window + "window-edges-with-a-long-name:op=mha,head_dim=128,window=22"
    cases = [
        finished(result(prefill + "plain:op=gqa"), reference(prefill + "plain:op=gqa")),
        finished(
            result(prefill + "odd-head:head_dim=20", flags=(Flag.REFERENCE_REFUSED,)),
            reference(prefill + "odd-head:head_dim=20", Verdict.UNSUPPORTED, message="head_dim % 8 must be 0"),
        ),
        finished(
            result(prefill + "exact"),
            reference(
                prefill + "exact", Verdict.MISMATCH, worst=MISMATCH, differences=(MISMATCH,), attribution=SUSPECT
            ),
        ),
        finished(
            result(
                long,
                Verdict.MISMATCH,
                kernel="online",
                worst=MISMATCH,
                differences=(difference(), MISMATCH, difference(3.0, "present_key", "online")),
                diagnosis="equals the kernel that forgets the window",
                attribution=Attribution("wgsl is wrong: ort-cpu agrees with the oracle", 3.1e-4, 2.0e-7, 3.1e-4),
            ),
            reference(long),
        ),
        finished(result(window + "holes", Verdict.NONFINITE, worst=NONFINITE, differences=(NONFINITE,))),
        finished(result(window + "overrun", Verdict.OOB_WRITE, message="3 bytes behind present_key changed")),
        finished(result(window + "elsewhere", Verdict.FALLBACK, message="asked for WebGPU, the CPU provider ran")),
        finished(
            result(
                window + "dead",
                Verdict.CRASH,
                message="the backend's process was ended by SIGSEGV",
                stderr="loading\nassertion failed: lanes <= 32\n",
            )
        ),
        finished(result(window + "slow", Verdict.TIMEOUT, message="no answer within the time limit of 60 s")),
        finished(result(window + "large", Verdict.OUT_OF_MEMORY, message="a buffer of 3 GiB could not be made")),
        finished(result(window + "gone", Verdict.DEVICE_LOST, message="the device was lost: unknown reason")),
        finished(result(window + "short", Verdict.MALFORMED, message="output: shape (2, 4) instead of (2, 4, 64)")),
        finished(result(window + "broken", Verdict.ERROR, message="naive.wgsl:12:5: no definition in scope: `hedas`")),
        finished(result(window + "half", Verdict.UNSUPPORTED, message="the adapter has no f16")),
        finished(result(window + "known", Verdict.MISMATCH, status=Status.XFAILED, worst=MISMATCH, expected=KNOWN)),
        finished(result(window + "mended", status=Status.XPASSED, expected=replace(KNOWN, departure="it passes"))),
        finished(
            result(
                window + "worse",
                Verdict.NONFINITE,
                worst=NONFINITE,
                differences=(NONFINITE,),
                expected=replace(KNOWN, departure="the verdict is nonfinite"),
            )
        ),
        finished(
            result(
                window + "deadly",
                Verdict.QUARANTINED,
                status=Status.SKIPPED,
                message="quarantined by expectations.yaml:9 as crash: no cache, no check (https://example.org/issues/2)",
                expected=DEADLY,
            )
        ),
        finished(result(window + "loose", flags=(Flag.VACUOUS, Flag.FLAKY, Flag.NOT_BITWISE, Flag.DISPUTED))),
    ]
    return run_of(cases)


EVIDENCE = Evidence("WebGpuExecutionProvider", ("GroupQueryAttention|CopyKVCache", "FlashAttention"))
READING = Convention("reads the lengths as offsets", "lengths are lengths", "")


def everything() -> list[Event]:
    """Whatever a report can be made of: each verdict, status and flag, and something in each key of a result."""
    of = "scenarios/sessions.yaml::"
    told = scenario(
        of + "spoken",
        about="a key leaves the window one step too early",
        tags=("fast", "window"),
        written=(("q_len", "1+4"), ("window", "3")),
    )
    noticed = Sharpness(("no-window", "no-scale"), ("no-window",), ("no-scale",), ("no-window",))
    cases = [
        CaseFinished(
            told,
            "1" * 64,
            (
                result(of + "spoken", sharpness=noticed, evidence=EVIDENCE, step=AtStep(2, 3), seconds=0.25),
                reference(of + "spoken", evidence=Evidence("CPUExecutionProvider", ("GroupQueryAttention",))),
            ),
        ),
        CaseFinished(
            scenario(of + "read-otherwise", steps=(Step((5, 5), (5, 5)), Step((4, 4), (2, 2), "speculative"))),
            "2" * 64,
            (
                result(
                    of + "read-otherwise",
                    Verdict.MISMATCH,
                    backend="ort-webgpu",
                    kernel="FlashAttention",
                    auto=False,
                    instead="flash lacks a softcap",
                    worst=MISMATCH,
                    differences=(MISMATCH, difference(2.0, "scores", "online", against="naive")),
                    diagnosis="equals the kernel that reads lengths as offsets",
                    wrong=("lengths-as-offsets",),
                    picture=PICTURE,
                    convention=READING,
                    flags=(Flag.DISPUTED,),
                    evidence=EVIDENCE,
                    step=AtStep(2, 2, "speculative"),
                    repeat=1,
                    stderr="\x1b[31mvalidation\x1b[0m\nof the shader failed\n",
                ),
            ),
        ),
        CaseFinished(
            GivenModel("decoder.onnx", "models/decoder.onnx", "a model with one GroupQueryAttention"),
            "3" * 64,
            (result("decoder.onnx", Verdict.CRASH, message="the backend's process was ended by SIGSEGV"),),
        ),
    ]
    before = [it for it in every_verdict() if isinstance(it, CaseFinished)]
    first, *rest = run_of([*before, *cases])
    assert isinstance(first, RunStarted)
    commands = Commands(
        ("attncheck", "run", Commands.CASE, "--backend", Commands.BACKEND, "--adapter", "a b"),
        ("attncheck", "minimize", Commands.CASE, "--backend", Commands.BACKEND),
        {"ort-webgpu": "ort-webgpu:1"},
        tested=("wgsl", "ort-webgpu:1", "wgpu-native"),
    )
    backends = ("wgsl", "ort-webgpu", "wgpu-native", "ort-cpu")
    started = replace(first, backends=backends, settings={"kernel": "auto"}, commands=commands)
    webgpu = Hello({"onnxruntime-webgpu": "1.32.0"}, {"adapter": "llvmpipe"})
    gone = BackendFailed("wgpu-native", "no adapter was found: install mesa-vulkan-drivers")
    new = Change("new", cases[1].origin.id, "ort-webgpu", "", "mismatch with margin 282")
    better = Change("better", "scenarios/window.yaml::mended", "wgsl", "mismatch with margin 3", "pass")
    against = Compared("main.json", 1, (new, better), ("wgsl: wgpu was 0.31.0, is 0.32.0",))
    return [started, BackendReady("ort-webgpu", webgpu), gone, *rest[:-1], against, rest[-1]]


def run_of(cases: list[CaseFinished], *, interrupted: bool = False, unavailable: bool = False) -> list[Event]:
    order = (Status.FAILED, Status.XPASSED, Status.XFAILED, Status.PASSED, Status.SKIPPED)
    worst = Counter(next(s for s in order if s in {r.status for r in case.results}) for case in cases)
    counts = Counts(**{status.value: worst[status] for status in order})
    hello = Hello({"wgpu": "0.32.0"}, {"adapter": "llvmpipe (LLVM 19.1.7, 256 bits)", "driver": "Mesa 25.0.7"})
    first: list[Event] = [
        RunStarted(len(cases), ("wgsl", "ort-cpu"), "ort-cpu"),
        BackendReady("wgsl", hello),
        BackendFailed("ort-cpu", "ONNX Runtime is not installed: pip install onnxruntime")
        if unavailable
        else BackendReady("ort-cpu", Hello({"onnxruntime": "1.32.0"})),
    ]
    return [*first, *cases, RunFinished(counts, 9.4, interrupted)]
