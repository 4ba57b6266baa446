"""issue.md: the failure as an issue in somebody's bug tracker, ready to paste."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attncheck import __version__
from attncheck.bundle import words
from attncheck.bundle.fresh import Rerun
from attncheck.bundle.subject import Subject
from attncheck.engine.judge import NUMBERS
from attncheck.reports import describe
from attncheck.vocabulary import Verdict

NAME = "issue.md"
LONG = 120
"""Characters of a neighbour's message that are shown."""

LISTED = 12
"""Neighbours that are listed; minimal.json holds all."""


def text(
    it: Subject,
    environment: Mapping[str, Any],
    script: str,
    rerun: Rerun,
    case: str | None,
    minimal: Any,
    lacks: str = "",
) -> str:
    """The issue.

    case     the scenario file, None for a model that no scenario says
    minimal  what `minimize` has found, as minimal.json holds it
    lacks    why the script cannot run by itself
    """
    parts = [
        f"# {words.title(it, minimal)}",
        _environment(environment),
        "\n".join(["## What is wrong", "", *(f"- {line}" for line in words.numbers(it, minimal))]),
        _case(it, case, minimal),
        *_neighbours(minimal),
        _reproduction(environment, rerun, lacks),
        _folded("repro.py", "python", script),
        f"Found with attncheck {__version__}{_expected(it, minimal)}.",
    ]
    return "\n\n".join(parts) + "\n"


def _expected(it: Subject, minimal: Any) -> str:
    """What the expected numbers are, where there are any."""
    if it.worst is None:
        return ""
    if words.open_question(it, minimal) is not None:
        return "; what is expected is its reading of the operator's text, which leaves that open, computed in float64"
    return "; what is expected is the operator's text, computed in float64"


def _environment(environment: Mapping[str, Any]) -> str:
    rows = {
        **environment["versions"],
        "Python": environment["python"],
        "platform": environment["platform"],
        **({"device": environment["device"]["adapter"]} if "adapter" in environment["device"] else {}),
        **({"driver": environment["device"]["driver"]} if environment["device"].get("driver") else {}),
        **({"adapters here": "; ".join(environment["adapters"])} if environment["adapters"] else {}),
        **({"requirements": ", ".join(environment["requirements"])} if environment["requirements"] else {}),
        **{f"`{name}`": value for name, value in {**environment["gpu"], **environment["environment"]}.items()},
    }
    table = [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join(["## Environment", "", "| what | which |", "| --- | --- |", *table])


def _case(it: Subject, case: str | None, minimal: Any) -> str:
    heading = "## The smallest case" if minimal and minimal.get("one_minimal") else "## The case"
    lines = [heading, "", describe.origin(it.origin)]
    return "\n".join([*lines, *(["", "```yaml", case.rstrip("\n"), "```"] if case is not None else [])])


def _neighbours(minimal: Any) -> list[str]:
    """What the cases one step simpler do, a row each: first those that fail, or are not run, then those right."""
    if not minimal or not (minimal.get("neighbours") or minimal.get("one_minimal")):
        return []
    found: Sequence[Mapping[str, Any]] = sorted(minimal["neighbours"], key=lambda it: it["verdict"] == Verdict.PASS)
    if not found:
        return ["## What its neighbours do\n\nThere is no case one step simpler than this one."]
    _, of = words.how_often(minimal)
    times = f", each run up to {of} times" if of > 1 else ""
    lines = ["## What its neighbours do", "", f"Cases one step simpler than this one{times}:", ""]
    lines += ["| step | result |", "| --- | --- |"]
    lines += [f"| {each['change']} | {_said(each)} |" for each in found[:LISTED]]
    if len(found) > LISTED:
        counted = Counter(_said(each) for each in found[LISTED:])
        lines += ["", f"And {len(found) - LISTED} more, in minimal.json: {_counted(counted)}."]
    return ["\n".join(lines)]


def _counted(results: Mapping[str, int]) -> str:
    return ", ".join(f"{many} {result}" for result, many in sorted(results.items(), reverse=True))


def _said(each: Mapping[str, Any]) -> str:
    """Right, or wrong and how: one word for each, whatever a verdict is called."""
    if each["verdict"] == Verdict.PASS:
        return "right"
    if each["same"]:
        return "wrong in the same way"
    said = f": {_cell(each['said'])}" if each.get("said") else ""
    if each["verdict"] in (Verdict.UNSUPPORTED, Verdict.QUARANTINED):
        return f"not run{said}"
    if each["verdict"] in NUMBERS:
        return f"wrong in another way: {'other numbers' if each['verdict'] == Verdict.MISMATCH else each['verdict']}"
    return f"{each['verdict']}{said}"  # which may be a refusal, and no fault


def _cell(said: str) -> str:
    """A sentence in a table's cell: its end, which says most, where it is long."""
    plain = " ".join(said.split()).replace("|", "\\|")
    return plain if len(plain) <= LONG else f"... {plain[-LONG:].partition(' ')[2]}"


def _reproduction(environment: Mapping[str, Any], rerun: Rerun, lacks: str) -> str:
    said = rerun.output.rstrip().splitlines()[-LISTED:]
    return "\n".join(
        [
            "## To reproduce",
            "",
            f"    {environment['repro']['install']}",
            "    python repro.py",
            "",
            f"In a fresh process that gave {rerun.words}{':' if said else '.'}",
            *(["", "```", *said, "```"] if said else []),
            *(["", f"It cannot run by itself: {lacks}."] if lacks else []),
        ]
    )


def _folded(name: str, language: str, content: str) -> str:
    lines = [f"<details><summary>{name}</summary>", "", f"```{language}", content.rstrip("\n"), "```", "", "</details>"]
    return "\n".join(lines)
