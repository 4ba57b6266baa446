"""Works whose masks have numbers for each query row, and how often a plan combines them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attncheck.kernels.plan import Plan
from tests.device import Work, work
from tests.drawing import scenario
from tests.dressing import masked, packed, sunk

ROWS, BLOCKS = 150, 3
"""No multiple of any tile, and in how many blocks they are where memory is short: of 50 rows, no multiple either."""


def given(dtype: str = "float32", **axes: Any) -> Work:
    """Two entries, one of them shorter, in the layout whose rows are apart from each other."""
    shape = {"q_len": (ROWS, ROWS - 70), "past_len": (30, 0), "heads": 4, "kv_heads": 2, "head_dim": 32}
    return work(scenario(dtype=dtype, **(shape | axes)))


def of_rows(like: Work, batch: int = 1, heads: int = 1) -> Work:
    """With biases [batch, heads, rows, slots], some keys hidden, and one row masked empty."""
    problem = like.problem
    array = np.random.default_rng(5).uniform(-3, 3, (batch, heads, problem.rows, max(problem.kv_len)))
    array[np.random.default_rng(6).uniform(size=array.shape) < 0.2] = -np.inf
    array[..., problem.rows // 2, :] = -np.inf
    return masked(like, array)


DRESSED: dict[str, Callable[[str], Work]] = {
    "of-all": lambda dtype: of_rows(given(dtype)),
    "of-each-head": lambda dtype: of_rows(given(dtype), 2, 4),
    "window": lambda dtype: of_rows(given(dtype, window=9)),
    "sink": lambda dtype: sunk(of_rows(given(dtype)), np.linspace(-1, 2, 4)),
    "packed": lambda dtype: of_rows(packed(given(dtype, past_len=(0, 0)))),
    "turned": lambda dtype: of_rows(given(dtype, rotary="interleaved")),
    "mean": lambda dtype: of_rows(given(dtype)).with_problem(empty_row="mean"),
    "two": lambda dtype: masked(of_rows(given(dtype)), np.arange(ROWS + 30) % 5 != 2),
}


def combinations(found: Plan) -> int:
    """How often masks are combined, for all rows or for a block."""
    return sum(it.shader == "mask" and it.bindings[1] == "[bias]" for it in found.dispatches)
