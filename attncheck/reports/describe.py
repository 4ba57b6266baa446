"""Scenarios, results and places in words."""

from __future__ import annotations

from collections.abc import Sequence

from attncheck.compare.difference import Difference, Place, axes
from attncheck.compare.sharpness import Sharpness
from attncheck.engine.events import AtStep, Attribution, Result
from attncheck.graph.case import Origin
from attncheck.oracle.conventions import Convention
from attncheck.reports.numbers import element, number, plural
from attncheck.scenario.model import Scenario

AUTO_MARK = "*"
"""Stands behind a kernel that a policy chose."""
AUTO_MEANING = "chosen by --kernel auto; another kernel ran too, and the two must agree"
INSTEAD_MARK = "†"
"""Stands behind a kernel that took the place of the one asked for."""


def origin(it: Origin) -> str:
    """A scenario by its axes, and a given model by what is said of it."""
    return scenario(it) if isinstance(it, Scenario) else it.about


SAID = {
    "op", "dtype", "batch", "q_len", "past_len", "heads", "kv_heads", "head_dim", "capacity", "window", "softcap",
    "scale", "causal", "rotary", "rotary_dim", "data", "seed", "kernel",
}  # fmt: skip
"""Axes that `scenario` has words for; the others are told as they were written."""


def scenario(it: Scenario) -> str:
    """One sentence of the axes that shape a case and its data, defaults left out."""
    heads = f"{it.heads} heads" + (f" over {it.kv_heads}" if it.kv_heads != it.heads else "")
    parts = [
        f"{it.op} {it.dtype}",
        f"batch {it.batch}",
        f"q_len {lengths(it.q_len)}",
        f"past_len {lengths(it.past_len)}",
        heads,
        f"head_dim {it.head_dim}",
    ]
    if it.capacity is not None:
        parts.append(f"capacity {it.capacity}")
    if it.window is not None:
        parts.append(f"window {it.window}")
    if it.softcap:
        parts.append(f"softcap {it.softcap:g}")
    if it.scale is not None:
        parts.append(f"scale {it.scale:g}")
    if not it.causal:
        parts.append("not causal")
    if it.rotary is not None:
        parts.append(f"rotary {it.rotary} over {it.rotary_dim}")
    parts += [f"{axis} {spelled}" for axis, spelled in it.written if axis not in SAID]
    return ", ".join([*parts, f"data {it.data}", f"seed {it.seed}"])


def label(result: Result) -> str:
    """Backend and kernel, as in ``wgsl online*``."""
    if not result.kernel:
        return result.backend
    mark = AUTO_MARK if result.auto else INSTEAD_MARK if result.instead else ""
    return f"{result.backend} {result.kernel}{mark}"


def step(at: AtStep) -> str:
    """``step 3 of 8 (speculative)``."""
    return f"step {at.number} of {at.of}" + (f" ({at.label})" if at.label else "")


def place(where: Place, role: str) -> str:
    """Coordinates of an element: ``output[batch 0, head 1, query 3, dim 12]``."""
    at = zip(axes(where, role), (where.batch, where.head, where.row, where.dim), strict=True)
    return f"{role}[{', '.join(f'{name} {index}' for name, index in at)}]"


def worst(difference: Difference) -> tuple[str, str]:
    """Two lines on the worst element: where it is and who is held against whom, then both values."""
    held = f", {difference.subject or 'result'} against {difference.against}"
    # A backend without kernels is one subject, and the oracle what everything is held against.
    plain = not difference.subject and difference.against == "oracle"
    return (
        f"{place(difference.place, difference.role)}{'' if plain else held}",
        f"{_values(difference)}; {_extent(difference)}",
    )


def _values(it: Difference) -> str:
    if it.against == "oracle":
        return f"got {element(it.got)}, expected {element(it.expected)}"
    return f"{it.subject or 'it'} gives {element(it.got)}, {it.against} gives {element(it.expected)}"


def attribution(found: Attribution, *, numbers: bool) -> list[str]:
    """Who is alone; with `numbers`, also the largest difference of each pair."""
    pairs = {
        "candidate to oracle": found.candidate_oracle,
        "reference to oracle": found.reference_oracle,
        "candidate to reference": found.candidate_reference,
    }
    told = [f"{pair} {number(value)}" for pair, value in pairs.items() if value is not None]
    return [found.said, *(["largest differences: " + ", ".join(told)] if numbers and told else [])]


def convention(followed: Convention) -> list[str]:
    """Which other reading of the operator's text this is, and what the text says, if anything."""
    why = f"for the operator's text has it: {followed.text}" if followed.settled else "but no text of it settles that"
    return [f"another convention: it {followed.reading}", f"the oracle: {followed.oracle}, {why}"]


def others(differences: Sequence[Difference], told: Difference | None) -> list[str]:
    """One line for each further difference out of tolerance."""
    return [
        f"also {it.role}, {it.subject or 'result'} against {it.against}: {_extent(it)}"
        for it in differences
        if it != told and not it.passed
    ]


def _extent(difference: Difference) -> str:
    failing = f"{difference.failing:,} of {difference.compared:,} elements"
    if difference.nonfinite == difference.failing:
        return f"{failing} not finite"
    return f"{failing} fail" + (f", {difference.nonfinite:,} not finite" if difference.nonfinite else "")


def lengths(over: tuple[int, ...]) -> str:
    """A number over the batch: one where it is the same everywhere."""
    if len(set(over)) == 1:
        return str(over[0])
    return "[" + ", ".join(map(str, over)) + "]"


def sharpness(found: Sharpness) -> str:
    """How many wrong kernels a passing case would have noticed, and which it would not."""
    said = f"rejects {len(found.rejected)} of {plural(len(found.relevant), 'relevant wrong kernel')}"
    return f"{said}; not {', '.join(found.survivors)}" if found.survivors else said
