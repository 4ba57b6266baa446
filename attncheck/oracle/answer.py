"""What the oracle says of a Problem: values, where they are stated, and how far rounding may move them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.problem import AnyProblem, Tensor, joined

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


class NoAnswer(ValueError):
    """The operator's text forbids the graph, so that nothing is stated of its outputs. The message says why."""


@dataclass(frozen=True)
class Answer:
    """One graph output in float64, in the output's own shape.

    values   float64; NaN outside `stated`
    stated   bool: the operator says what stands here; other elements are not compared
    compute  float64: first-order bound on the error of a computation in arithmetic of unit roundoff u, divided by u
             (score error u * sum|q||k| * scale carried through sum p|v|, plus the summation itself);
             0 where the operator only copies
    storage  float64: magnitude that is rounded once when the result is stored in the output's dtype
    weights  float64: how far it moves, over u, where weights are rounded at random before they meet the values, one
             standard deviation; None where there are no weights
    """

    output: str
    values: NDArray[np.float64]
    stated: NDArray[np.bool_]
    compute: NDArray[np.float64]
    storage: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None


def refuse_invalid(problem: AnyProblem) -> None:
    """Raise NoAnswer where the operator's text forbids the graph."""
    if problem.invalid:
        raise NoAnswer(f"nothing is stated of this graph's outputs: {problem.invalid}")


def laid_out(
    tensor: Tensor,
    values: Float,
    compute: Float,
    storage: Float,
    stated: Bool,
    before: Float | None = None,
    weights: Float | None = None,
) -> Answer:
    """The Answer at a tensor of which everything is known by [batch, heads, rows, dim], in the tensor's own shape.

    before   what the array held, for one that is changed in place: exactly that stays where no row lies, and NaN, which
             nobody put there to be kept, is not stated
    """
    there = None if before is None else np.isfinite(before)
    own = joined(np.where(stated, values, np.nan), tensor, before)
    rounded = None if weights is None else joined(weights, tensor)
    bounds = (joined(compute, tensor), joined(storage, tensor), rounded)
    return Answer(tensor.name, own, joined(stated, tensor, there), *bounds)
