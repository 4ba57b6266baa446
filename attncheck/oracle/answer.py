"""What the oracle says of a Problem: values, where they are stated, and how far rounding may move them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.problem import AnyProblem, Tensor, join_heads

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
    """

    output: str
    values: NDArray[np.float64]
    stated: NDArray[np.bool_]
    compute: NDArray[np.float64]
    storage: NDArray[np.float64]


def refuse_invalid(problem: AnyProblem) -> None:
    """Raise NoAnswer where the operator's text forbids the graph."""
    if problem.invalid:
        raise NoAnswer(f"nothing is stated of this graph's outputs: {problem.invalid}")


def laid_out(tensor: Tensor, values: Float, compute: Float, storage: Float, stated: Bool) -> Answer:
    """The Answer at a tensor of which everything is known by [batch, heads, rows, dim].

    It has the tensor's own shape, as `join_heads` makes it.
    """
    own_values, own_compute, own_storage = (
        join_heads(array, tensor.layout) for array in (np.where(stated, values, np.nan), compute, storage)
    )
    return Answer(tensor.name, own_values, join_heads(stated, tensor.layout), own_compute, own_storage)
