"""A failure in words: what a title, a script's head and an issue say of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attncheck.bundle.subject import Subject
from attncheck.oracle.conventions import Convention, followed
from attncheck.oracle.wrong.lineup import lineup
from attncheck.reports import describe
from attncheck.reports.numbers import number
from attncheck.vocabulary import Flag, Verdict

_WITHOUT_NUMBERS: Mapping[Verdict, str] = {
    Verdict.CRASH: "ends the process",
    Verdict.TIMEOUT: "does not come to an end",
    Verdict.OUT_OF_MEMORY: "takes more memory than there should be need of",
    Verdict.DEVICE_LOST: "loses the device",
    Verdict.FALLBACK: "runs elsewhere than asked",
    Verdict.OOB_WRITE: "writes where it may not",
    Verdict.MALFORMED: "gives outputs of another form",
    Verdict.ERROR: "fails with an error",
}


def title(it: Subject, minimal: Mapping[str, Any] | None = None) -> str:
    """One line: operator, what goes wrong, where it ran; `minimal` as for `numbers`."""
    often = ", in some runs only" if flaky(it, minimal) else ""
    return f"{it.problem.op.rpartition('.')[2]}: {_what(it, minimal)}{often} ({where(it)})"


def flaky(it: Subject, minimal: Mapping[str, Any] | None) -> bool:
    """Whether it is known to fail in some runs only."""
    return Flag.FLAKY in it.result.flags or how_often(minimal)[1] > 1


def how_often(minimal: Mapping[str, Any] | None) -> tuple[int, int]:
    """In how many of how many runs of each case `minimize` has seen it fail; 1 of 1 where it always did."""
    runs = (minimal or {}).get("runs")
    if not isinstance(runs, Mapping) or runs.get("of", 1) == 1:
        return 1, 1
    return int(runs.get("confirmed", runs["of"])), int(runs["of"])


def open_question(it: Subject, minimal: Mapping[str, Any] | None) -> Convention | None:
    """The other reading that it surely follows, where nobody's text settles which one is right."""
    found, sure = _reading(it, minimal)
    return found if found is not None and sure and not found.settled else None


def _what(it: Subject, minimal: Mapping[str, Any] | None) -> str:
    worst, convention = it.worst, open_question(it, minimal)
    if convention is not None:
        return f"{convention.reading}, which no text of it settles"
    if worst is None:
        if it.problem.invalid and it.result.verdict is Verdict.ERROR and it.result.evidence is not None:
            return "gives numbers for a graph that must be refused"
        return _WITHOUT_NUMBERS.get(it.result.verdict, str(it.result.verdict))
    if math.isfinite(worst.got) and math.isfinite(worst.expected):
        return f"{worst.role} is off by {number(worst.error)}"
    names = ["NaN" if math.isnan(value) else "infinite" if math.isinf(value) else "a number" for value in _values(it)]
    return f"{worst.role} is {names[0]} where {names[1]} must stand"


def _values(it: Subject) -> tuple[float, float]:
    assert it.worst is not None
    return it.worst.got, it.worst.expected


def where(it: Subject) -> str:
    """Runtime with version, and what of it ran: ``onnxruntime 1.32.0, CPUExecutionProvider``."""
    versions, device = it.hello.versions, it.hello.device
    runtime = ", ".join(f"{name} {version}" for name, version in versions.items() if name not in {"numpy", "python"})
    ran = it.result.evidence.provider if it.result.evidence is not None else ""
    place = device.get("adapter") or it.launch.options.get("provider") or ran or device.get("device")
    if not runtime:
        return it.result.backend
    return runtime if not place or str(place) in runtime else ", ".join(filter(None, (runtime, str(place))))


def about(it: Subject, minimal: Mapping[str, Any] | None = None) -> str:
    """Paragraphs: the case, its numbers, what they look like, who agrees with whom; `minimal` as for `numbers`."""
    return "\n\n".join([describe.origin(it.origin), "\n".join(numbers(it, minimal))])


def numbers(it: Subject, minimal: Mapping[str, Any] | None = None) -> list[str]:
    """A line for each thing that was seen.

    minimal   what `minimize` has found, as minimal.json holds it: what a small case looks like may be chance
    """
    result, worst = it.result, it.worst
    if it.problem.invalid and result.verdict is Verdict.ERROR and result.evidence is not None:
        return [f"It must be refused: {it.problem.invalid}."]
    if worst is None:
        return [f"{result.verdict}: {result.message}", *_instead(it), *_often(it, minimal)]
    lines = [*describe.worst(worst)]
    if math.isfinite(worst.error):
        lines.append(f"off by {number(worst.error)}, where rounding may lead {number(worst.tolerance)} away")
    lines += [result.diagnosis] if result.diagnosis else []
    lines += _before(it, minimal)
    lines += _convention(it, minimal)
    lines += describe.others(result.differences, worst)
    lines += describe.attribution(result.attribution, numbers=False) if result.attribution is not None else []
    return [*lines, *_often(it, minimal)]


def _instead(it: Subject) -> list[str]:
    """Of a failure without numbers: what must come instead, and what the reference does."""
    must = [f"it must be refused, by an error: {it.problem.invalid}"] if it.problem.invalid else []
    if it.reference is None:
        return must
    right = "refuses it" if it.problem.invalid else "computes it, and is right"
    does = {Verdict.PASS: right, Verdict.UNSUPPORTED: "does not take this case"}
    return [*must, f"{it.reference.backend} {does.get(it.reference.verdict, f'fails too: {it.reference.verdict}')}"]


def _often(it: Subject, minimal: Mapping[str, Any] | None) -> list[str]:
    """That it does not fail in every run, and how often it does where that is known."""
    failed, of = how_often(minimal)
    if of > 1:
        return [f"flaky: it failed in {failed} of {of} runs"]
    return ["flaky: it does not fail in every run"] if flaky(it, minimal) else []


def _before(it: Subject, minimal: Mapping[str, Any] | None) -> list[str]:
    """Which wrong kernel the case equalled before it was shrunk, where the diagnosis begins with another: in a small
    case many are alike.
    """
    failure = _start(minimal)
    if failure is None:
        return []
    kept = [name for name in it.result.wrong if name in failure.get("wrong", ())]
    if not kept or it.result.wrong[0] in kept:
        return []
    known = lineup(it.problem, it.case.inputs)
    words = {suspect.name: suspect.words for suspect in (*known.known, *known.readings)}
    said = ", or ".join(words.get(name, name) for name in kept)
    return [f"the larger case that this one was shrunk from equals the result with {said}"]


def _convention(it: Subject, minimal: Mapping[str, Any] | None) -> list[str]:
    """Which other reading of the text these numbers follow, and how sure that is of a case that was shrunk."""
    found, sure = _reading(it, minimal)
    if found is None:
        return []
    first, *rest = describe.convention(found)
    if not sure:
        return [f"in this smallest case only, and so perhaps by chance, like {first}", *rest]
    shrunk = ["the larger case that this one was shrunk from is alike in that"] if _start(minimal) is not None else []
    return [first, *rest, *shrunk]


def _reading(it: Subject, minimal: Mapping[str, Any] | None) -> tuple[Convention | None, bool]:
    """The other reading that its numbers follow, and whether the case before shrinking followed it too."""
    found, failure = it.result.convention, _start(minimal)
    if found is None or failure is None:
        return found, True
    before = set(failure.get("wrong", ())) & set(it.result.wrong)
    return found, followed(it.problem, sorted(before)) == found


def _start(minimal: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """How the case failed that this one was shrunk from, None where that is not known."""
    failure = (minimal or {}).get("failure")
    return failure if isinstance(failure, Mapping) else None
