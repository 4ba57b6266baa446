"""What the oracle says of a Problem: values, where they are stated, and how far rounding may move them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
