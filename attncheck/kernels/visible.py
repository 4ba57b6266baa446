"""What query rows see, as the kernels are given it: four integers a row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attncheck.problem import Problem


def visible_rows(problem: Problem) -> NDArray[np.int32]:
    """int32 [batch, rows, 4]: every query row sees the slots [lo, hi) and goes over [first, end).

    It goes over no more than it sees, but over all keys where, seeing none, it gives their mean: known here of a row
    whose interval is empty, and only on the device of one that masks empty. Rows beyond q_len go over nothing.
    """
    rows = np.zeros((problem.batch, problem.rows, 4), np.int32)
    rows[..., :2] = np.maximum(problem.visible, 0)
    empty = rows[..., 0] >= rows[..., 1]
    rows[empty] = 0
    rows[..., 2:] = rows[..., :2]
    if problem.averages_empty_rows:
        everything = np.array([(0, kv_len) for kv_len in problem.kv_len], np.int32)[:, None]
        wide = empty[..., None] if not problem.masks else np.True_
        rows[..., 2:] = np.where(wide, everything, rows[..., 2:])
    rows[~problem.stated_rows] = 0
    return rows


def held_rows(problem: Problem) -> NDArray[np.int32]:
    """int32 [batch, rows, 4]: every query row sees all slots that hold a key, as scores before masks do."""
    rows = np.zeros((problem.batch, problem.rows, 4), np.int32)
    rows[..., 1::2] = np.array(problem.kv_len, np.int32)[:, None, None]
    rows[~problem.stated_rows] = 0
    return rows
