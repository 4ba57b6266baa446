"""Input projection in float64, and how far rounding may move it.

Source: com.microsoft Attention ("the weights for input projection of Q, K and V are merged", stacked as columns of Q,
of K, of V) and the input `bias` of com.microsoft MultiHeadAttention ("from input projection"): rows = input @ weights +
bias. Without weights the input is the product already.

    |y - exact|  <=  u * (sum_i |x_i| |w_ij| + sqrt(n - 1) |sum_i x_i w_ij| + |y|)

to first order: a dot product of n terms as `sums` bounds it, and the last term for the sum with the bias.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.bounded import Bounded, exact
from attncheck.oracle.sums import walked
from attncheck.problem import Arrays, Columns, Problem, Tensor, role_heads, split_heads
from attncheck.tensors.dtypes import widen

Float = NDArray[np.float64]


def projected(problem: Problem, role: str, tensor: Tensor, inputs: Arrays, heads: int, dim: int) -> Bounded:
    """New rows of "query", "key" or "value", [batch, heads, rows, dim]; exact where nothing is computed."""
    it = problem.projection
    weights = None if it is None else _columns(problem, it.weights, role, inputs, heads * dim)
    bias = None if it is None else _columns(problem, it.bias, role, inputs, heads * dim)
    rows = widen(role_heads(inputs[tensor.name], tensor, heads if weights is None else 1), problem.dtype)
    if weights is None and bias is None:
        return exact(rows)
    error = np.zeros((1, 1, 1, 1))
    if weights is not None:
        given = rows[:, 0]
        product = given @ weights
        terms = ((given != 0.0).astype(np.intp)) @ ((weights != 0.0).astype(np.intp))
        bound = np.abs(given) @ np.abs(weights) + walked(product, terms)
        error = split_heads(bound, "bsnh", heads).astype(np.float64)
        rows = split_heads(product, "bsnh", heads).astype(np.float64)
    if bias is not None:
        rows = rows + bias.reshape(heads, 1, dim)
        error = error + np.abs(rows)
    return Bounded(rows, error, np.abs(rows))


def _columns(problem: Problem, it: Columns | None, role: str, inputs: Arrays, count: int) -> Float | None:
    """The columns of a role, [..., count]."""
    first = None if it is None else it.first(role)
    if it is None or first is None:
        return None
    return widen(inputs[it.name], problem.dtype)[..., first : first + count]
