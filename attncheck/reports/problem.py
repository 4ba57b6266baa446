"""One case in words: how it was written, the graph around it, and the attention problem read from that graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.case import Case, GivenModel, Origin
from attncheck.graph.session import Session, bindings
from attncheck.problem import AnyProblem, LinearProblem, Problem, Rotary, RotaryProblem
from attncheck.reports import describe
from attncheck.reports.lines import BLANK, Line, columns, line, paragraph
from attncheck.reports.numbers import plural
from attncheck.scenario.model import Scenario

ROWS = 8
"""How many different visible intervals of one batch entry are told before the middle is left out."""

SMALL = 16
"""Up to how many integers of an input are told."""

EMPTY = {"zero": "gives zeros", "mean": "gives the mean of its values"}


def exhibit(case: Case, problem: AnyProblem, width: int | None) -> list[Line]:
    """Everything that `attncheck show` says of a case."""
    lines = [line(case.id, "heading"), *_origin(case.origin, width)]
    lines.append(line(f"  digest {case.digest[:16]}"))
    lines += [BLANK, line("inputs", "heading"), *columns(_inputs(case.inputs))]
    outputs = {output.name: f"{output.dtype} {_shape(output.shape)}" for output in case.outputs}
    lines += [BLANK, line("outputs", "heading"), *columns(outputs)]
    lines += [BLANK, line("problem", "heading")]
    match problem:
        case Problem():
            lines += [*columns(_sizes(problem)), BLANK, line("visible keys", "heading"), *_visible(problem, width)]
        case RotaryProblem():
            lines += [*columns(_turning(problem)), BLANK, line("positions", "heading"), *_positions(problem, width)]
        case LinearProblem():
            lines += columns(_recurring(problem))
    return lines


def session(it: Session, problems: Sequence[Problem], width: int | None) -> list[Line]:
    """What `attncheck show` says of a session: a line for each step, and how to see one."""
    lines = [line(it.id, "heading"), *_origin(it.origin, width)]
    lines += [line(f"  digest {it.digest[:16]}"), BLANK, line("steps", "heading")]
    labels = [step.label for step in it.origin.steps] if isinstance(it.origin, Scenario) else []
    before: Problem | None = None
    for number, (problem, label) in enumerate(zip(problems, labels, strict=True), 1):
        called = f" ({label})" if label else ""
        lines.append(line(f"  {number}{called}: {_step(problem, before)}"))
        before = problem
    return [*lines, BLANK, line("Any of them by itself: --step N")]


def _step(it: Problem, before: Problem | None) -> str:
    """Lengths, and which inputs are given presents of the step before."""
    lengths = f"q_len {describe.lengths(it.q_len)}, past_len {describe.lengths(it.past_len)}"
    bound = bindings(before, it) if before is not None else {}
    given = [f"{name} is the first {plural(bind.rows, 'slot')} of {bind.output}" for name, bind in bound.items()]
    return "; ".join([lengths, *given])


def _origin(it: Origin, width: int | None) -> Iterator[Line]:
    """What the case is, and where that is said."""
    if isinstance(it, GivenModel):
        yield from paragraph(it.about, width, "  ")
        yield line(f"  from {it.place}")
        return
    if it.about:
        yield from paragraph(it.about, width, "  ")
    yield from paragraph(describe.scenario(it), width, "  ")
    if not it.source.file.startswith("--"):
        yield line(f"  written at {it.source.file}:{it.source.line}")
    if it.tags:
        yield line(f"  tags {', '.join(it.tags)}")


def _inputs(inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, str]:
    return {name: f"{array.dtype} {_shape(array.shape)}{_values(array)}" for name, array in inputs.items()}


def _values(array: NDArray[np.generic]) -> str:
    """The lengths and the like: small, and what a wrong reading of a graph begins with."""
    small = array.dtype.kind == "i" and array.size <= SMALL
    return f"  holds {', '.join(map(str, array.ravel()))}" if small else ""


def _shape(shape: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _sizes(it: Problem) -> dict[str, str]:
    told = {
        "operator": it.op,
        "dtype": it.dtype,
        "heads": f"{it.heads}, {it.group} to each of {it.kv_heads} kv_heads",
        "head_dim": f"{it.head_dim}" + (f", values {it.v_head_dim}" if it.v_head_dim != it.head_dim else ""),
        "rows": f"{plural(it.rows, 'query row')}, {plural(it.new_rows, 'new key row')}, padding included",
        "buffers": f"{plural(it.past_capacity, 'past slot')}, {plural(it.present_capacity, 'present slot')}",
        "scale": f"{it.scale:.9g}",
        "softcap": f"{it.softcap:g}" if it.softcap else "none",
        "rotary": "none",
        "empty rows": f"a query that sees no key {EMPTY[it.empty_row]}",
    }
    if it.rotary is not None:
        told["rotary"] = _rotary(it.rotary, it.head_dim)
    if it.norm is not None:
        told["norm"] = f"RMS of queries (epsilon {it.norm.query_epsilon:g}) and keys (epsilon {it.norm.key_epsilon:g})"
    if it.evicts is not None:
        first, given = _list(it.past_first), _list(it.present_first)
        told["evicts"] = f"row 0 of past is slot {first}, row 0 of present slot {given}"
    if it.beams is not None:
        told["beams"] = "some past slots are read from other batch entries"
    return told


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, dict.fromkeys(numbers)))


def _rotary(how: Rotary, head_dim: int) -> str:
    angles = f", angles of base {how.base:g}" if how.base else ""
    return f"{how.style}, the first {how.dim} of {head_dim} dims{angles}"


def _turning(it: RotaryProblem) -> dict[str, str]:
    return {
        "operator": it.op,
        "dtype": it.dtype,
        "heads": str(it.heads),
        "head_dim": str(it.head_dim),
        "rows": plural(it.rows, "row"),
        "rotary": _rotary(it.rotary, it.head_dim),
    }


def _recurring(it: LinearProblem) -> dict[str, str]:
    factors = "one factor a KV head" if it.decay_dim == 1 else "one factor a dim of the key"
    return {
        "operator": it.op,
        "dtype": it.dtype,
        "heads": f"{it.heads}, and {it.kv_heads} kv_heads, each with a state",
        "head_dim": f"{it.head_dim}, values {it.v_head_dim}",
        "rows": plural(it.rows, "row"),
        "scale": f"{it.scale:.9g}",
        "decay": "none" if it.decay is None else factors,
        "update": "corrected by what the state holds (delta rule)" if it.delta else "added as it is",
        "beta": "none" if it.beta is None else plural(it.beta_heads, "head"),
        "past": "zeros" if it.past_state is None else "a state",
    }


def _positions(it: RotaryProblem, width: int | None) -> Iterator[Line]:
    """The rows of the caches by which each batch entry's rows turn."""
    for entry, positions in enumerate(it.rotary.positions):
        yield line(f"  batch {entry}")
        told = [f"row {row} at {position}" for row, position in enumerate(positions)]
        yield from paragraph("; ".join(_shortened(told)), width, "    ")


def _shortened(told: list[str]) -> list[str]:
    if len(told) <= ROWS:
        return told
    return [*told[: ROWS // 2], f"... {len(told) - ROWS} more", *told[-ROWS // 2 :]]


def _visible(it: Problem, width: int | None) -> Iterator[Line]:
    """Each batch entry's lengths, and runs of query rows with the half-open interval of slots that they see."""
    for entry in range(it.batch):
        lengths = f"q_len {it.q_len[entry]}, past_len {it.past_len[entry]}, kv_len {it.kv_len[entry]}"
        yield line(f"  batch {entry}: {lengths}")
        told = [
            f"query {row} sees [{low}, {high})" for row, (low, high) in enumerate(it.visible[entry, : it.q_len[entry]])
        ]
        yield from paragraph("; ".join(_shortened(told)), width, "    ")
