"""How far rounding moves a dot product, whatever the order of its sums.

A dot product of n terms rounds each product and each of n - 1 sums, by at most u times the product or the sum so far:

    |error|  <=  u * (sum_k |q_k k_k| + sqrt(n - 1) * |q.k|)

The first term covers the products, and the sums where terms cancel: a walk of n steps of size a comes as far as
sqrt(n) a, and its sums round by sqrt(n) * sqrt(n) a = n a together. The second covers sums that stay as large as the
whole, as where one term or one sign rules: each of the others is then rounded as the whole is (Higham and Mary, "A new
approach to probabilistic rounding error analysis", 2019). n counts the terms that are not 0: a single product is
rounded once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def walked(values: NDArray[np.float64], terms: NDArray[np.intp]) -> NDArray[np.float64]:
    """sqrt(n - 1) |sum| for sums of so many terms that are not 0, which broadcast to the sums."""
    found: NDArray[np.float64] = np.sqrt(np.maximum(terms - 1, 0)) * np.abs(values)
    return found
