"""What a problem cannot do without: operations and bytes, from the intervals of keys that its query rows see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attncheck.problem import Problem
from attncheck.tensors.dtypes import dtype


@dataclass(frozen=True)
class Work:
    """The least that any kernel does.

    flop      floating-point operations: a multiplication and an addition for each element of a key that a query sees,
              and of its value
    kv_bytes  keys and values that any query row sees, each read once
    bytes     these, the queries read once, and the output written once
    """

    flop: int
    kv_bytes: int
    bytes: int

    def floor(self, flop_rate: float, byte_rate: float) -> float:
        """Seconds below which no kernel comes: of the two, what takes longer at these rates a second."""
        return max(self.flop / flop_rate, self.bytes / byte_rate)

    def bound_by(self, flop_rate: float, byte_rate: float) -> str:
        """Which of the two that is: "arithmetic" or "memory"."""
        return "arithmetic" if self.flop / flop_rate >= self.bytes / byte_rate else "memory"


def work(problem: Problem) -> Work:
    """The work of attention itself: that of masks, of rotary, of a projection and of moving the cache is not in it."""
    itemsize = dtype(problem.dtype).storage.itemsize
    low, high = problem.visible[..., 0].astype(np.int64), problem.visible[..., 1].astype(np.int64)
    sees = problem.stated_rows & (low < high)
    visible = int(np.where(sees, high - low, 0).sum())
    dims = problem.head_dim + problem.v_head_dim
    kv_bytes = _slots(low, high, sees) * problem.kv_heads * dims * itemsize
    rows = int(problem.stated_rows.sum())
    return Work(2 * visible * problem.heads * dims, kv_bytes, kv_bytes + rows * problem.heads * dims * itemsize)


def _slots(low: np.ndarray, high: np.ndarray, sees: np.ndarray) -> int:
    """How many slots any row of their batch entry sees."""
    total = 0
    for member in range(low.shape[0]):
        starts, ends = low[member][sees[member]], high[member][sees[member]]
        reached = 0
        for at in np.argsort(starts, kind="stable"):
            total += max(0, int(ends[at]) - max(reached, int(starts[at])))
            reached = max(reached, int(ends[at]))
    return total
