"""Diagnosis: what wrong numbers look like. The known wrong kernel that they equal, or else where they are wrong.

Wrong kernels are first held against a few wrong rows, which costs little, and those that fit there against everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.compare import judge, pattern
from attncheck.compare.arithmetic import Compute
from attncheck.compare.pattern import Places
from attncheck.oracle.answer import Answer
from attncheck.oracle.conventions import followed
from attncheck.oracle.wrong import blocks
from attncheck.oracle.wrong.lineup import Lineup, Parts, Suspect, lineup
from attncheck.problem import AnyProblem, Arrays, judged_heads, role_of
from attncheck.scenario.model import Tolerance
from attncheck.tensors.dtypes import dtype, widen

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

ROOM = 4.0
"""A wrong kernel's own rounding may exceed what the oracle's answer allows a right one, for its scores are others."""

PROBES = 3
"""Wrong rows that a wrong kernel must explain before all of them are computed."""

CLOSER = 0.1
"""A fit lies nearer than this part of the way to the right answer."""

CHANCE = 0.1
"""Elements of a buffer that nobody wrote may equal inputs so often, from what the memory held before."""

BLOCKWISE = {wrong.name for wrong in blocks.BLOCKS}
"""Names of the catalogue's faults that skip or repeat keys in blocks; further ones are tried behind the readings."""

NAMED = 3
"""So many wrong kernels are named where several give the same here."""


@dataclass(frozen=True)
class _Output:
    """One output with the room [batch, heads, rows, dim] that a fitting wrong kernel has there."""

    name: str
    places: Places
    room: Float


@dataclass(frozen=True)
class _Scene:
    """What is to be explained, and the few rows of it that are tried first: `probed` [batch, rows], within `parts`."""

    problem: AnyProblem
    lineup: Lineup
    outputs: tuple[_Output, ...]
    roundoff: float
    parts: Parts
    probed: Bool
    poisoned: bool


@dataclass(frozen=True)
class Diagnosis:
    """What wrong numbers look like.

    words   for a person; "" for numbers that look like nothing known
    wrong   names in the catalogue of the wrong kernels that explain every output, each by itself
    """

    words: str = ""
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Fit:
    """A wrong kernel, its name, or two at once, without one, that give these numbers; the largest difference."""

    words: str
    name: str
    error: float


def diagnose(
    problem: AnyProblem,
    inputs: Arrays,
    answers: Sequence[Answer],
    outputs: Arrays,
    compute: Compute,
    override: Tolerance | None = None,
) -> Diagnosis:
    """What these wrong `outputs` look like; no words when they are within tolerance, or like nothing known.

    "equals the result with softcap ignored, within 2.4e-7", when a wrong kernel of the catalogue (or two at once) gives
    the same in every output, NaN in the same places; else the same for each output by itself; else where the outputs
    are wrong: "output zero in dims 8..15 (the upper half of head_dim)".
    """
    scene = _scene(problem, inputs, answers, outputs, compute, override)
    wrong = [each for each in scene.outputs if each.places.wrong.any()]
    if not wrong:
        return Diagnosis()
    silent = _silent(scene)
    whole, single = _fits(scene)
    if whole:
        names = tuple(fit.name for fit in whole if fit.name)
        proven = followed(problem, names) is not None or not {each.name for each in wrong} <= silent
        return Diagnosis(_equals(whole) if proven else _where(scene), names)
    return Diagnosis(_one_by_one(scene, wrong, {name: fits for name, fits in single.items() if name not in silent}))


def _one_by_one(scene: _Scene, wrong: Sequence[_Output], single: Mapping[str, Sequence[_Fit]]) -> str:
    """Each output for itself: what one kernel of a backend spoils, the others need not."""
    problem = scene.problem
    if not single:
        return _where(scene)
    said = [f"{each.places.role} {_equals(single[each.name])}" for each in wrong if each.name in single]
    rest = pattern.describe(problem, [each.places for each in wrong if each.name not in single])
    return "; ".join([*said, rest] if rest else said)


def _silent(scene: _Scene) -> frozenset[str]:
    """Outputs that are NaN throughout where inputs hold NaN that must not be read.

    Whatever reads one gives that: to equal it proves nothing, unless it is a reading of the text, which is known to be
    met.
    """
    return frozenset(
        each.name for each in scene.outputs if scene.poisoned and np.isnan(each.places.got[each.places.stated]).all()
    )


def _where(scene: _Scene) -> str:
    return pattern.describe(scene.problem, [each.places for each in scene.outputs])


def _equals(fits: Sequence[_Fit]) -> str:
    first, *others = fits[:NAMED]
    same = f" (here the same as {', or '.join(other.words for other in others)})" if others else ""
    within = f"within {_number(first.error)}" if first.error else "exactly"
    return f"equals the result with {first.words}{same}, {within}"


def _number(value: float) -> str:
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}" if int(exponent) < -2 else f"{value:.2g}"


def _scene(
    problem: AnyProblem,
    inputs: Arrays,
    answers: Sequence[Answer],
    outputs: Arrays,
    compute: Compute,
    override: Tolerance | None,
) -> _Scene:
    seen = tuple(_output(problem, inputs, each, outputs[each.output], compute, override) for each in answers)
    storage = dtype(problem.dtype).roundoff
    roundoff = judge.CONSTANT[compute] * judge.unit(dtype(problem.dtype), compute)
    parts, probed = _probes(seen[0].places.wrong)
    within = roundoff + judge.STORAGE * storage
    return _Scene(problem, lineup(problem, inputs), seen, within, parts, probed, _poisoned(problem, inputs))


def _poisoned(problem: AnyProblem, inputs: Arrays) -> bool:
    """Whether NaN stands in keys, values or queries, past or new."""
    held = {role.tensor.name: role.dtype for role in problem.inputs}
    return any(bool(np.isnan(widen(inputs[name], kind)).any()) for name, kind in held.items())


def _known(problem: AnyProblem, inputs: Arrays, values: Float) -> bool:
    """Whether more of these elements of a present than chance would have it stand in keys or values, past or new."""
    sources = {role.tensor.name: role.dtype for role in problem.inputs if role.name != "query"}
    given = [widen(inputs[name], held).ravel() for name, held in sources.items()]
    return float(np.mean(np.isin(values, np.concatenate(given)))) > CHANCE


def _output(
    problem: AnyProblem,
    inputs: Arrays,
    answer: Answer,
    output: NDArray[np.generic],
    compute: Compute,
    override: Tolerance | None,
) -> _Output:
    role = role_of(problem.outputs, answer.output)
    got = widen(output, role.dtype)
    error, _ = judge.errors(got, answer.values)
    storage = dtype(problem.dtype)
    wrong = answer.stated & (error > judge.tolerances(answer, storage, compute, override))
    room = ROOM * judge.tolerances(answer, storage, compute, None)

    def by_place(array: NDArray[np.generic]) -> Any:
        return judged_heads(array, role)

    everywhere = bool(wrong[answer.stated].all())
    foreign = role.name in ("present_key", "present_value") and everywhere and not _known(problem, inputs, got[wrong])
    places = Places(
        role.name, by_place(answer.stated), by_place(wrong), by_place(got), by_place(answer.values), foreign
    )
    return _Output(answer.output, places, by_place(room))


def _probes(wrong: Bool) -> tuple[Parts, Bool]:
    """First, middle and last wrong row of the batch entry that has most; of entry 0 too, as others may be given its."""
    rows: Bool = np.any(wrong, axis=(1, 3))
    member = int(np.argmax(rows.sum(axis=1)))
    found = np.flatnonzero(rows[member]) if rows.any() else np.arange(1)
    chosen = sorted({int(row) for row in found[np.linspace(0, len(found) - 1, PROBES).astype(int)]})
    members = sorted({0, member})
    parts = tuple((slice(m, m + 1), slice(row, row + 1)) for m in members for row in chosen)
    probed = np.zeros_like(rows)
    probed[member, chosen] = True
    return parts, probed


def _fits(scene: _Scene) -> tuple[tuple[_Fit, ...], dict[str, tuple[_Fit, ...]]]:
    """The wrong kernels that explain all outputs, and by name those that explain one wrong output alone.

    Those of the catalogue, else further ones.
    """
    single: dict[str, tuple[_Fit, ...]] = {}
    for suspects in (scene.lineup.known, *scene.lineup.further):
        whole, found = _fitting(scene, suspects)
        if whole:
            return (*_readings(scene, whole), *whole), {}
        single = found | single
        if all(each.name in single for each in scene.outputs if each.places.wrong.any()):
            break
    return (), single


def _readings(scene: _Scene, whole: Sequence[_Fit]) -> tuple[_Fit, ...]:
    """Readings of the text that give the same as these, where only blocks do: on few keys much looks like a block."""
    if not {fit.name for fit in whole} <= BLOCKWISE:
        return ()
    fits, _ = _fitting(scene, scene.lineup.readings)
    return fits


def _fitting(scene: _Scene, suspects: Iterable[Suspect]) -> tuple[tuple[_Fit, ...], dict[str, tuple[_Fit, ...]]]:
    """Those suspects that explain every output, and by name those that explain one wrong output."""
    whole: list[_Fit] = []
    single: dict[str, list[_Fit]] = {each.name: [] for each in scene.outputs if each.places.wrong.any()}
    for suspect in suspects:
        probe = suspect.outputs(scene.parts)
        if all(_distance(each, probe, scene, probed=True) is None for each in scene.outputs if each.name in single):
            continue
        outputs = suspect.outputs(None)
        errors = {each.name: _distance(each, outputs, scene, probed=False) for each in scene.outputs}
        for name, fits in single.items():
            error = errors[name]
            if error is not None:
                fits.append(_Fit(suspect.words, suspect.name, error))
        if None not in errors.values():
            largest = max(error for error in errors.values() if error is not None)
            whole.append(_Fit(suspect.words, suspect.name, largest))
    return _closest(whole), {name: _closest(fits) for name, fits in single.items() if fits}


def _closest(fits: Sequence[_Fit]) -> tuple[_Fit, ...]:
    """The closest first; of equally close ones the first in order."""
    best = min((fit.error for fit in fits), default=0.0)
    return tuple(sorted(fits, key=lambda fit: fit.error > 2.0 * best))


def _distance(each: _Output, outputs: Mapping[str, Float], scene: _Scene, *, probed: bool) -> float | None:
    """The largest difference to `outputs` (in the rows that are probed, or in all), None where they do not fit.

    Where the output is wrong, they must be far nearer than the right answer, for rounding alone is no wrong kernel.
    """
    places = each.places
    role = role_of(scene.problem.outputs, each.name)
    values = judged_heads(outputs[each.name], role).astype(np.float64)
    asked = (
        places.stated & scene.probed[:, None, :, None]
        if probed and places.role in ("output", "scores")
        else places.stated
    )
    error, _ = judge.errors(places.got, values)
    size = np.max(np.abs(values), axis=-1, keepdims=True, where=np.isfinite(values), initial=0.0)
    if (asked & (error > each.room + scene.roundoff * size)).any():
        return None
    largest = float(np.max(error, where=asked, initial=0.0))
    if not (asked & places.wrong).any():
        return largest
    apart, _ = judge.errors(places.got, places.expected)
    return largest if largest <= CLOSER * float(np.max(apart, where=asked, initial=0.0)) else None
