"""The judge: results against the oracle, or against each other, element by element within a derived tolerance.

    tolerance = CONSTANT[compute] * u_compute * Answer.compute + STORAGE * u_storage * Answer.storage
                + the dtype's smallest normal number

with u_compute the unit roundoff of the backend's arithmetic and u_storage that of the output's dtype. Where the
operator only copies, both bounds are 0 and the result must be exact. The last term allows for a GPU that flushes
subnormal results to 0, as WGSL lets it: for arithmetic in float32 only where the result may be subnormal.
`docs/tolerance.md` tells how the constants were measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.compare.arithmetic import Compute
from attncheck.compare.difference import Difference, Place, Term
from attncheck.graph.case import Output
from attncheck.oracle.answer import Answer
from attncheck.problem import AnyProblem, Arrays, judged_heads, role_of
from attncheck.scenario.model import Tolerance
from attncheck.tensors.dtypes import DType, dtype, widen
from attncheck.vocabulary import Verdict

Float = NDArray[np.float64]

CONSTANT: dict[Compute, float] = {"f32": 10.0, "mixed": 10.0, "native": 6.0}
"""How far an implementation may exceed the first-order bound: measured, with headroom (docs/tolerance.md)."""

WEIGHTS = 4.0
"""Of `mixed`: rounding to nearest has a deviation of u / sqrt(3), so that this is 7 deviations, one element in 4e11."""

STORAGE = 2.0
"""WGSL lets a conversion to a narrower type round to either neighbour, not only to the nearest: up to 2u."""


class Incomparable(ValueError):
    """A result cannot be judged by numbers: nothing to compare, or no finite tolerance to compare by."""


class EmptyComparison(Incomparable):
    """The first output without a single stated element: nothing could ever fail there."""


def differences(
    problem: AnyProblem,
    answers: Sequence[Answer],
    outputs: Arrays,
    compute: Compute,
    subject: str,
    override: Tolerance | None = None,
) -> tuple[Difference, ...]:
    """One Difference an answer that states anything: `outputs`, computed by `subject`, against the oracle.

    compute    arithmetic that the backend promises: float32, or the dtype's own
    override   an absolute bound that replaces the derived tolerance on every element
    Raises EmptyComparison, and KeyError for an output that is missing (ask `malformed` first).
    """
    return tuple(
        _difference(
            problem, each, widened(problem, each, outputs), each.values, compute, subject, "oracle", override
        )
        for each in _stating(problem, answers)
    )


def agreement(
    problem: AnyProblem,
    answers: Sequence[Answer],
    first: Arrays,
    second: Arrays,
    compute: Compute,
    subject: str,
    against: str,
    override: Tolerance | None = None,
) -> tuple[Difference, ...]:
    """One Difference an answer that states anything: `first`, by `subject`, against `second`, by `against`.

    The tolerance is the one that each of them has against the oracle.
    """
    return tuple(
        _difference(
            problem,
            each,
            widened(problem, each, first),
            widened(problem, each, second),
            compute,
            subject,
            against,
            override,
        )
        for each in _stating(problem, answers)
    )


def widened(problem: AnyProblem, answer: Answer, outputs: Arrays) -> Float:
    """What came for an answer, in float64: a quantised present is in the dtype of its buffers, not in the problem's."""
    return widen(outputs[answer.output], role_of(problem.outputs, answer.output).dtype)


def _stating(problem: AnyProblem, answers: Sequence[Answer]) -> list[Answer]:
    """The answers that state anything: scores and presents do not where there is no key, the output always does."""
    for answer in answers:
        if answer.output == problem.outputs[0].tensor.name and not answer.stated.any():
            raise EmptyComparison(f"output {answer.output} has no element that the operator states: nothing to compare")
    return [answer for answer in answers if answer.stated.any()]


def verdict_of(found: Sequence[Difference]) -> Verdict:
    """What these differences amount to: pass, nonfinite, or mismatch."""
    if any(each.nonfinite for each in found):
        return Verdict.NONFINITE
    return Verdict.PASS if all(each.passed for each in found) else Verdict.MISMATCH


def malformed(expected: Sequence[Output], outputs: Arrays) -> str | None:
    """What is wrong with the form of the outputs (one missing, another shape or dtype), or None."""
    faults = [fault for output in expected if (fault := _fault(output, outputs)) is not None]
    return "; ".join(faults) or None


def _fault(expected: Output, outputs: Arrays) -> str | None:
    if expected.name not in outputs:
        came = ", ".join(outputs) or "none"
        return f"output {expected.name} is missing (outputs that came: {came})"
    got = outputs[expected.name]
    wanted = dtype(expected.dtype).storage
    if got.shape != expected.shape:
        return f"output {expected.name} has shape {list(got.shape)}, expected {list(expected.shape)}"
    if got.dtype != wanted:
        bits = "" if expected.dtype == wanted.name else f" (the bits of {expected.dtype})"
        return f"output {expected.name} has dtype {got.dtype}, expected {wanted}{bits}"
    return None


def unit(storage: DType, compute: Compute) -> float:
    """Unit roundoff of the arithmetic."""
    return storage.roundoff if compute == "native" else dtype("float32").roundoff


def tolerances(answer: Answer, storage: DType, compute: Compute, override: Tolerance | None) -> Float:
    """How far each element of an output may lie from the oracle, in the answer's shape."""
    return _sum(_terms(answer, storage, compute, override))


def _sum(terms: Mapping[str, Float]) -> Float:
    first, *others = terms.values()
    return sum(others, first)


def _terms(answer: Answer, storage: DType, compute: Compute, override: Tolerance | None) -> dict[str, Float]:
    """What the tolerances are sums of, by name, each in the answer's shape."""
    if override is not None:
        return {"given": np.full(answer.values.shape, override.max_abs)}
    found = {
        f"arithmetic in {compute}": CONSTANT[compute] * unit(storage, compute) * answer.compute,
        f"storage in {storage.name}": STORAGE * storage.roundoff * answer.storage,
    }
    if compute == "mixed" and answer.weights is not None:
        found["rounded weights"] = WEIGHTS * storage.roundoff * answer.weights
    bound = _sum(found)
    # Arithmetic in float32 meets the subnormals of a narrower dtype only when it stores a number that is one of them.
    flushed = (bound > 0.0) & ((compute == "native") | (np.abs(answer.values) <= storage.smallest_normal + bound))
    return {**found, "smallest normal number": np.where(flushed, storage.smallest_normal, 0.0)}


def _difference(
    problem: AnyProblem,
    answer: Answer,
    got: Float,
    expected: Float,
    compute: Compute,
    subject: str,
    against: str,
    override: Tolerance | None,
) -> Difference:
    role = role_of(problem.outputs, answer.output)
    parts = _terms(answer, dtype(problem.dtype), compute, override)
    tolerance = _sum(parts)
    boundless = answer.stated & np.isfinite(answer.values) & ~np.isfinite(tolerance)
    if boundless.any():
        raise Incomparable(
            f"output {answer.output}: no finite tolerance for {np.count_nonzero(boundless)} elements: the bound of "
            "the rounding error overflows; give the case plainer numbers"
        )
    found = held(role.name, answer.output, subject, against, *by_place(problem, answer, got, expected, tolerance))
    at = (found.place.batch, found.place.head, found.place.row, found.place.dim)
    terms = ((name, float(judged_heads(each, role)[at])) for name, each in parts.items())
    found = replace(found, terms=tuple(Term(name, value) for name, value in terms if value > 0.0))
    pages = role.tensor.scattered
    return found if pages is None or not pages.page else replace(found, place=replace(found.place, paged=True))


def by_place(
    problem: AnyProblem, answer: Answer, got: Float, expected: Float, tolerance: Float
) -> tuple[Float, Float, Float, NDArray[np.bool_]]:
    """Got, expected, tolerance, and where they are stated, each [batch, heads, rows, dim]."""
    role = role_of(problem.outputs, answer.output)
    if role.name == "scores":
        got, expected = (_hidden_as_infinity(answer, scores, dtype(problem.dtype)) for scores in (got, expected))
    got = _overflown(got, expected, dtype(role.dtype))

    def placed(array: NDArray[Any]) -> Any:
        return judged_heads(array, role)

    return placed(got), placed(expected), placed(tolerance), placed(answer.stated)


def held(
    role: str,
    output: str,
    subject: str,
    against: str,
    got: Float,
    expected: Float,
    tolerance: Float,
    stated: NDArray[np.bool_],
) -> Difference:
    """`got` against `expected` where `stated`, each [batch, heads, rows, dim], by a tolerance for each element."""
    error, nonfinite = errors(got, expected)
    margin = margins(error, tolerance, stated)
    batch, head, row, dim = (int(i) for i in np.unravel_index(int(np.argmax(margin)), margin.shape))

    def there(array: Float) -> float:
        return float(array[batch, head, row, dim])

    return Difference(
        role=role,
        subject=subject,
        against=against,
        max_abs=float(np.max(error, where=stated, initial=0.0)),
        error=there(error),
        tolerance=there(tolerance),
        margin=there(margin),
        place=Place(output, batch, head, row, dim),
        got=there(got),
        expected=there(expected),
        compared=int(np.count_nonzero(stated)),
        failing=int(np.count_nonzero(margin > 1.0)),
        nonfinite=int(np.count_nonzero(nonfinite & stated)),
        above=int(np.count_nonzero((margin > 1.0) & (got > expected))),
    )


def margins(error: Float, tolerance: Float, stated: NDArray[np.bool_]) -> Float:
    """Errors over what they may be; -1 where nothing is stated."""
    # Whatever has no tolerance to be divided by must be exact: NaN in a bound never lets an error pass.
    margin = np.where(error > 0.0, np.inf, 0.0)
    np.divide(error, tolerance, out=margin, where=np.isfinite(tolerance) & (tolerance > 0.0))
    margin[~stated] = -1.0
    return margin


def _hidden_as_infinity(answer: Answer, scores: Float, storage: DType) -> Float:
    """Scores of hidden keys, stated as -inf, that are written as a number near the dtype's lowest.

    The ONNX reference evaluator and ONNX Runtime's CPU at opset 25 write -inf; ONNX Runtime's CPU at opsets 23 and 24
    writes the lowest number, with or without a score added. What follows, a weight of 0, is the same.
    """
    return np.where(np.isneginf(answer.values) & (scores <= -storage.largest / 2.0), -np.inf, scores)


def _overflown(got: Float, expected: Float, storage: DType) -> Float:
    """Infinities in the place of numbers beyond the largest of the dtype, as which these are stored."""
    stored = np.isinf(got) & (np.sign(got) == np.sign(expected)) & (np.abs(expected) > storage.largest)
    return np.where(stored, expected, got)


def errors(got: Float, expected: Float) -> tuple[Float, NDArray[np.bool_]]:
    """Absolute differences, infinite where one side alone is not finite, and where that is; NaN matches NaN."""
    both = np.isfinite(got) & np.isfinite(expected)
    same = (np.isnan(got) & np.isnan(expected)) | (got == expected)
    error = np.zeros_like(expected)
    np.subtract(got, expected, out=error, where=both)
    np.abs(error, out=error)
    nonfinite = ~both & ~same
    error[nonfinite] = np.inf
    return error, nonfinite
