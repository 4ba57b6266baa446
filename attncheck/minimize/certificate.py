"""The certificate: every neighbour one step simpler was run, and none fails in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np

from attncheck.minimize.candidate import Candidate
from attncheck.minimize.ledger import Ledger
from attncheck.minimize.order import BESIDE, SIZES, elements, features, kind, off, settings, simpler, tensors
from attncheck.minimize.passes import numbers
from attncheck.minimize.passes.sessions import fewer_steps
from attncheck.minimize.passes.settings import defaults, plainer_dtype
from attncheck.minimize.passes.sizes import cut, least
from attncheck.minimize.signature import Signature
from attncheck.scenario.axes import AXES, spell
from attncheck.scenario.complete import LENGTHS
from attncheck.scenario.values import Broadcast, Choice, Integer


@dataclass(frozen=True)
class Step:
    """A case one step simpler, and the step in words: `q_len 3 -> 2`."""

    change: str
    case: Candidate


@dataclass(frozen=True)
class Neighbour:
    """A step that was run; `same` says whether it fails in the same way, `said` why there are no numbers."""

    change: str
    case: Candidate
    verdict: str
    same: bool
    said: str = ""


def certificate(steps: Sequence[Step], ledger: Ledger, failure: Signature) -> tuple[Neighbour, ...]:
    """Every step with its verdict. Raises Spent."""
    ledger.first((step.case for step in steps), failure)
    return tuple(_run(step, ledger, failure) for step in steps)


def _run(step: Step, ledger: Ledger, failure: Signature) -> Neighbour:
    seen = ledger.seen(step.case)[0]
    return Neighbour(step.change, step.case, seen.verdict, ledger.fails(step.case, failure), seen.said)


def neighbours(case: Candidate) -> Iterator[Step]:
    """The cases one step simpler by the order:

    a feature off; steps of a session dropped or shortened; a size or setting one less, each of a list by itself;
    heads and kv_heads the next fewer together; one entry of the batch less; an earlier dtype or word; a default in
    place of what is said; an array zero or one throughout; and of few numbers each one zero.
    """
    told: set[Candidate] = set()
    for step in _steps(case):
        if step.case not in told and simpler(step.case, case):
            told.add(step.case)
            yield step


def _steps(case: Candidate) -> Iterator[Step]:
    for change, found in _changes(case):
        if found is not None:
            yield Step(change, found)


def _changes(case: Candidate) -> Iterator[tuple[str, Candidate | None]]:
    for axis in features(case):
        plain = off(axis)
        word = spell(AXES[axis].default if plain is None else plain)
        yield f"{axis} {spell(case.value(axis))} -> {word}", case.with_({axis: plain})
    for found in fewer_steps(case):
        yield _difference(case, found), found
    yield from _smaller_sizes(case)
    yield from _smaller_batch(case)
    yield from _plainer_settings(case)
    for found in (*plainer_dtype(case), *defaults(case)):
        yield _difference(case, found), found
    yield from _plainer_numbers(case)


def _smaller_sizes(case: Candidate) -> Iterator[tuple[str, Candidate | None]]:
    for axis in dict.fromkeys((*SIZES, *settings(case))):
        value = case.value(axis)
        if isinstance(value, bool) or axis == "batch":
            continue
        if isinstance(value, tuple) and axis in LENGTHS:
            for at, one in enumerate(value):
                if one > least(axis):
                    less = (*value[:at], one - 1, *value[at + 1 :])
                    yield f"{axis} {spell(value)} -> {spell(less)}", cut(case, {axis: less})
        elif isinstance(value, int) and hasattr(AXES[axis].values, "minimum") and value > least(axis):
            # Not every number is possible: blocks have 16, 32, 64 or 128 tokens.
            tried = ((less, cut(case, {axis: less})) for less in range(value - 1, least(axis) - 1, -1))
            yield from ((f"{axis} {value} -> {less}", found) for less, found in islice(filter(itemgetter(1), tried), 1))
    heads, kv_heads = case.complete.integer("heads"), case.complete.integer("kv_heads")
    for many in range(heads, 0, -1):
        fewer = [few for few in range(1, many + 1) if many % few == 0 and (many, few) < (heads, kv_heads)]
        for few in fewer if many >= heads - 1 else ():
            yield f"heads {heads}/{kv_heads} -> {many}/{few}", cut(case, {"heads": many, "kv_heads": few})


def _smaller_batch(case: Candidate) -> Iterator[tuple[str, Candidate | None]]:
    batch = case.complete.batch
    lists: dict[str, Any] = {axis: case.value(axis) for axis in LENGTHS if isinstance(case.value(axis), tuple)}
    for entry in range(batch if batch > 1 else 0):
        rest: dict[str, Any] = {axis: values[:entry] + values[entry + 1 :] for axis, values in lists.items()}
        rest = {axis: values[0] if len(values) == 1 else values for axis, values in rest.items()}
        yield f"without batch entry {entry}", cut(case, {"batch": batch - 1, **rest})


def _plainer_settings(case: Candidate) -> Iterator[tuple[str, Candidate | None]]:
    for axis in settings(case):
        values, value = AXES[axis].values, case.value(axis)
        if isinstance(values, Choice | Broadcast) and values.words.index(value) > 0:
            word = values.words[values.words.index(value) - 1]
            yield f"{axis} {value} -> {word}", case.with_({axis: word})
        if isinstance(values, Integer) and isinstance(value, int):
            continue


def _plainer_numbers(case: Candidate) -> Iterator[tuple[str, Candidate | None]]:
    for tensor in tensors(case):
        for filled in range(min(2, kind(case, tensor))):
            yield f"{tensor} all {filled}", case.with_({f"{tensor}_values": filled})
        if elements(case, tensor) > numbers.LISTED_UP_TO:
            continue
        values = numbers.held(case, tensor)
        nonzero = np.argwhere(values)
        for where in map(tuple, nonzero.tolist() if len(nonzero) <= numbers.EACH_UP_TO else ()):
            changed = values.copy()
            changed[where] = 0.0
            names = ("query", "batch", "head", "key") if tensor in BESIDE else ("token", "batch", "head", "dim")
            place = ", ".join(f"{name} {at}" for name, at in zip(names, where, strict=True))
            yield f"{tensor}[{place}] {values[where]:g} -> 0", numbers.given(case, tensor, changed)


def _difference(case: Candidate, other: Candidate | None) -> str:
    if other is None:
        return ""
    said = {**case.written, **other.written}
    axes = [axis for axis in AXES if axis in said and case.value(axis) != other.value(axis)]
    return ", ".join(f"{axis} {_word(axis, case)} -> {_word(axis, other)}" for axis in axes)


def _word(axis: str, case: Candidate) -> str:
    """A value as it is spelled, or what stands where none does."""
    value = case.value(axis)
    return AXES[axis].otherwise if value is None else spell(value)
