"""Sessions: how steps are spelled, what the cache holds before each, and each step as a scenario of its own.

A step is spelled `Q`, and behind that `xN` for its repeats, `aN` for the tokens that are kept, `r` where it must be
refused, `.LABEL`; steps are joined by `-`, lists over the batch by `+`: `5-1x6-4a2.speculative`, `3+1x2`, `15-1-1r`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attncheck.scenario.model import Scenario, Step, Within

LIMIT = 256
"""Steps that a session may have."""

IN_PLACE = ("sparse", "paged")
"""Operators that write new keys into the buffers that they are given."""

LABEL = r"[A-Za-z][A-Za-z0-9_]*"
_SPELLED = re.compile(
    rf"(?P<q_len>\d+(\+\d+)*)(x(?P<repeat>\d+))?(a(?P<accept>\d+(\+\d+)*))?"
    rf"(?P<refused>r)?(\.(?P<label>{LABEL}))?"
)

Lengths = int | tuple[int, ...]


@dataclass(frozen=True)
class Written:
    """A step as somebody wrote it: `q_len` and `accept` for all entries, or one each; no `accept`: all are kept.

    refused   whether the operator forbids it, so that a backend must refuse it
    """

    q_len: Lengths
    repeat: int = 1
    accept: Lengths | None = None
    label: str = ""
    refused: bool = False

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Written:
        """From a mapping that has been checked."""
        accept = _held(plain["accept"]) if "accept" in plain else None
        repeat, label, refused = plain.get("repeat", 1), plain.get("label", ""), plain.get("refused", False)
        return cls(_held(plain["q_len"]), repeat, accept, label, refused)


def _held(lengths: int | list[int]) -> Lengths:
    return tuple(lengths) if isinstance(lengths, list) else lengths


def spelled(steps: Iterable[object]) -> str:
    """The one spelling of steps, given as `Written` or as plain mappings, which may hold anything."""
    return "-".join(_spelled(vars(step) if isinstance(step, Written) else step) for step in steps)


def _spelled(step: object) -> str:
    if not isinstance(step, Mapping):
        return str(step)
    repeat, accept, label = step.get("repeat", 1), step.get("accept"), step.get("label")
    return (
        _lengths(step.get("q_len"))
        + (f"x{repeat}" if repeat != 1 else "")
        + (f"a{_lengths(accept)}" if accept is not None else "")
        + ("r" if step.get("refused") else "")
        + (f".{label}" if label else "")
    )


def _lengths(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def parsed(text: str) -> list[dict[str, Any]] | None:
    """Steps as `spelled` writes them, as plain mappings; None for anything else."""
    found = [_SPELLED.fullmatch(part) for part in text.split("-")]
    return [_plain(one) for one in found if one is not None] if all(found) else None


def _plain(found: re.Match[str]) -> dict[str, Any]:
    given = {key: value for key, value in found.groupdict().items() if value is not None}
    return {key: _READ.get(key, _numbers)(value) for key, value in given.items()}


def _numbers(text: str) -> int | list[int]:
    return [int(part) for part in text.split("+")] if "+" in text else int(text)


_READ: dict[str, Callable[[str], Any]] = {"label": str, "refused": bool}


def unrolled(steps: Sequence[Written], batch: int) -> tuple[Step, ...]:
    """Every call of a session, repeats one by one. Lists over the batch must be as long as it is."""
    calls: list[Step] = []
    for step in steps:
        q_len = over(step.q_len, batch)
        accept = q_len if step.accept is None else over(step.accept, batch)
        calls += [Step(q_len, accept, step.label, step.refused)] * step.repeat
    return tuple(calls)


def over(lengths: Lengths, batch: int) -> tuple[int, ...]:
    """A value for each batch entry."""
    return lengths if isinstance(lengths, tuple) else (lengths,) * batch


def pasts(steps: Iterable[Step], past_len: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """past_len of each step, the first having the one that is given."""
    for step in steps:
        yield past_len
        past_len = after(past_len, step.accept)


def after(past_len: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    """How many tokens there are of each batch entry, new ones included."""
    return tuple(past + kept for past, kept in zip(past_len, new, strict=True))


def _grown(scenario: Scenario, past: int) -> bool:
    """Whether the past fills a buffer of GroupQueryAttention, which then is one that grows: present is a past longer.

    By its text past_key is "of length max_sequence_length" where it is shared, "otherwise of length
    past_sequence_length", and a past of that length is both.
    """
    capacity = scenario.capacity
    return scenario.op == "gqa" and capacity is not None and not scenario.window_cache and past >= capacity


def calls(scenario: Scenario) -> tuple[Scenario, ...]:
    """Each step of a session as a scenario of one call; a scenario without steps alone.

    `past: empty` is said of the first step: later ones have what it left. Buffers that an operator changes in place
    have one length from the first step on; those of GroupQueryAttention grow where the past fills them.
    """
    if not scenario.steps:
        return (scenario,)
    found = []
    # com.microsoft Attention gives a present beside a past alone, so that the first step has one without a slot.
    bare = scenario.op == "ms-attention" and scenario.capacity is None and max(scenario.past_len) == 0
    first_past = "empty" if bare else scenario.past
    before = tuple(pasts(scenario.steps, scenario.past_len))
    capacity = scenario.capacity
    if capacity is None and scenario.op in IN_PLACE:
        capacity = max(max(after(past, step.q_len)) for past, step in zip(before, scenario.steps, strict=True))
    for number, (step, past) in enumerate(zip(scenario.steps, before, strict=True), 1):
        first = tuple(now - then for now, then in zip(past, scenario.past_len, strict=True))
        found.append(
            replace(
                scenario,
                id=f"{scenario.id}#{number}",
                q_len=step.q_len,
                past_len=past,
                kv_len=after(past, step.q_len),
                capacity=None if _grown(scenario, max(past)) else capacity,
                past=first_past if number == 1 else "auto",
                steps=(),
                within=Within(number, first, step.accept),
                written=tuple(pair for pair in scenario.written if pair[0] != "steps"),
            )
        )
    return tuple(found)
