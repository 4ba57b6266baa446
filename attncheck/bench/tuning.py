"""From what sizes on which kernel pays on an adapter: the cases that tell, and the rules that follow from times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attncheck.bench.events import CaseTimed
from attncheck.graph import read, write
from attncheck.kernels.draft import Limits
from attncheck.kernels.roster import ROSTER
from attncheck.problem import Problem
from attncheck.scenario import Scenario, from_command_line

GAIN = 1.05
"""How many times as fast a kernel must be for a rule to take it: below that, noise would choose."""

DECODING_ROWS = 16
"""Up to so many query rows are taken for decoding, beyond for a prompt."""

HEADS, KV_HEADS, HEAD_DIM = 8, 2, 64
"""Of the cases: a group of four, as many models have it."""


@dataclass(frozen=True)
class Way:
    """Attention as it is met: rows of a prompt, or one token behind a past."""

    name: str
    decodes: bool
    sizes: tuple[int, ...]

    def axes(self, keys: int, dtype: str) -> str:
        """A case of so many keys."""
        rows = f"q_len=1 past_len={keys - 1}" if self.decodes else f"q_len={keys}"
        sizes = f"heads={HEADS} kv_heads={KV_HEADS} head_dim={HEAD_DIM}"
        return f"op=gqa dtype={dtype} {sizes} {rows} data=few-rows"

    @property
    def limits(self) -> str:
        """The rows that its rules are about, in words of the file."""
        return f"most_rows = {DECODING_ROWS}" if self.decodes else f"least_rows = {DECODING_ROWS + 1}"


def ways(most: int) -> tuple[Way, ...]:
    """Both, with sizes that double up to `most` keys; a prompt of more than a sixteenth of them is left to a rule."""
    ladder = tuple(1 << power for power in range(5, most.bit_length()) if 1 << power <= most)
    prompts = tuple(size for size in ladder if DECODING_ROWS < size <= max(ladder[-1] // 16, 128))
    return (Way("decode", True, ladder), Way("prefill", False, prompts))


@dataclass(frozen=True)
class Asked:
    """One case to be timed, and what it stands for."""

    way: Way
    keys: int
    dtype: str
    scenario: Scenario


def asked(most: int, limits: Limits, memory: int) -> tuple[Asked, ...]:
    """Every case that tells something on such an adapter, the small ones first."""
    return tuple(
        Asked(way, keys, dtype, from_command_line(way.axes(keys, dtype), memory))
        for way in ways(most)
        for dtype in ("float32", *(["float16"] if _narrow(way, limits) else []))
        for keys in way.sizes
    )


def _narrow(way: Way, limits: Limits) -> bool:
    """Whether a kernel computes float16 alone: rules know no dtype, so that float32 decides about all others."""
    plain, narrow = (_problem(way.axes(way.sizes[0], dtype)) for dtype in ("float32", "float16"))
    return any(it.lacks(narrow, limits) is None and it.lacks(plain, limits) is not None for it in ROSTER.values())


def _problem(axes: str) -> Problem:
    case = write.build(from_command_line(axes))
    return read.problem(case.model, case.inputs)


@dataclass(frozen=True)
class Rule:
    """A kernel that pays from so many keys on, with what was measured there."""

    way: Way
    kernel: str
    keys: int
    measured: str


Times = Mapping[int, Mapping[str, float]]
"""Keys -> kernel -> median seconds."""


def times(cases: Sequence[CaseTimed], of: Sequence[Asked], way: Way, dtype: str) -> dict[int, dict[str, float]]:
    """What was timed of one way and dtype."""
    meant = {it.scenario.id: it.keys for it in of if it.way == way and it.dtype == dtype}
    return {
        meant[case.case]: {it.kernel: it.summary.median for it in case.timings if it.timed}
        for case in cases
        if case.case in meant
    }


def rules(way: Way, plain: Times, narrow: Times) -> list[Rule]:
    """The rules of one way, the first that holds deciding.

    plain    times in float32
    narrow   times in float16, empty where no kernel computes that alone: such a kernel comes before the others, as it
             passes over the rest
    """
    everywhere = {kernel for of in plain.values() for kernel in of}
    only = {kernel for of in narrow.values() for kernel in of} - everywhere
    before = [rule for rule in _steps(way, narrow) if rule.kernel in only]
    return [*before, *_steps(way, plain)]


def _steps(way: Way, found: Times) -> list[Rule]:
    """From the largest size down, a rule wherever another kernel takes over; below all of them naive needs none."""
    chosen: list[tuple[int, str]] = []
    for keys in sorted(found):
        if found[keys]:
            chosen.append((keys, _best(found[keys], chosen[-1][1] if chosen else "naive")))
    changes = [
        (keys, kernel) for (keys, kernel), (_, below) in zip(chosen, [(0, "naive"), *chosen], strict=False)
        if kernel != below
    ]  # fmt: skip
    return [Rule(way, kernel, keys, _told(kernel, found[keys])) for keys, kernel in reversed(changes)]


def _best(of: Mapping[str, float], before: str) -> str:
    """The fastest kernel, unless the one of the size below is all but as fast."""
    fastest = min(of, key=lambda kernel: of[kernel])
    return before if before in of and of[before] < GAIN * of[fastest] else fastest


def _told(kernel: str, of: Mapping[str, float]) -> str:
    others = ", ".join(f"{it} {of[it] / of[kernel]:.2f}" for it in sorted(of, key=lambda it: of[it]) if it != kernel)
    return f"times that of {kernel}: {others}" if others else "nothing else computes it"


def text(found: Sequence[Rule], adapter: str, software: bool, when: str) -> str:
    """The file, as kernels/thresholds.py reads it."""
    lines = [
        f"# Written by attncheck tune on {when}, on {adapter}.",
        "# The first rule that holds, and whose kernel covers the problem, decides; naive where none does.",
        "# --thresholds FILE takes it.",
        *(() if found else ("", "rule = []  # naive was the fastest at every size")),
    ]
    return "\n".join([*lines, *(line for rule in found for line in _lines(rule, adapter, software))]) + "\n"


def _lines(rule: Rule, adapter: str, software: bool) -> Iterator[str]:
    yield from ("", "[[rule]]", f"kernel = {json.dumps(rule.kernel)}", f"least_keys = {rule.keys}")
    yield rule.way.limits
    yield f'adapter = "{"software" if software else "hardware"}"'
    told = f"{adapter}, {rule.way.name} at {rule.keys} keys; {rule.measured}"
    yield f"measured = {json.dumps(told, ensure_ascii=False)}"
