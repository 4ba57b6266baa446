"""Canonical problems: what every operator becomes before an oracle or a kernel sees it. One file a kind.

`Problem` is attention, whose operators are most; `AnyProblem` is what a case may pose. Every kind has `kind`, `op`,
`dtype`, `batch`, `group`, `inputs`, `outputs` and `invalid`; each room looks at the rest in one place of its own.
"""

from attncheck.problem.attention import (
    Blocks,
    Columns,
    EmptyRow,
    Eviction,
    Mask,
    Norm,
    Problem,
    Projection,
    Quantised,
    Scores,
    ScoreStage,
)
from attncheck.problem.linear import LinearProblem
from attncheck.problem.rotary import RotaryProblem
from attncheck.problem.tensors import (
    Arrays,
    Layout,
    Role,
    Rotary,
    Scattered,
    Tensor,
    joined,
    judged_heads,
    output_shape,
    role_heads,
    role_of,
    split_heads,
)

AnyProblem = Problem | RotaryProblem | LinearProblem
"""Attention, rows that turn, or linear attention."""

__all__ = [
    "AnyProblem",
    "Arrays",
    "Blocks",
    "Columns",
    "EmptyRow",
    "Eviction",
    "Layout",
    "LinearProblem",
    "Mask",
    "Norm",
    "Problem",
    "Projection",
    "Quantised",
    "Role",
    "Rotary",
    "RotaryProblem",
    "Scattered",
    "ScoreStage",
    "Scores",
    "Tensor",
    "joined",
    "judged_heads",
    "output_shape",
    "role_heads",
    "role_of",
    "split_heads",
]
