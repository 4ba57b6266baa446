"""The plan of rotary embedding alone: one dispatch of the kernel that also turns queries and keys."""

from __future__ import annotations

import math

import numpy as np

from attncheck.kernels.draft import ELEMENTS, Draft, itemsize
from attncheck.kernels.store import store
from attncheck.problem import RotaryProblem

KERNEL = "rotary"
"""There is one, so that a policy has nothing to choose."""


def draw(draft: Draft[RotaryProblem]) -> None:
    """Every row into its own place, turned."""
    problem = draft.problem
    shape = (problem.heads, problem.rows, problem.head_dim)
    extents = draft.constant("extents", np.array([(0, problem.rows)] * problem.batch, np.int32))
    turned = draft.tensor(problem.turned, *shape, output=True)
    store(draft, extents, draft.tensor(problem.input, *shape), turned, problem.rotary)


def bindings(problem: RotaryProblem) -> dict[str, int]:
    """Bytes of the buffers that grow with the problem."""
    element = itemsize(ELEMENTS[problem.dtype])
    rows_read = int(problem.rotary.positions.max(initial=0)) + 1
    return {
        "the output": element * math.prod(problem.outputs[0].shape),
        "a rotary cache": element * rows_read * (problem.rotary.dim // 2),
    }
