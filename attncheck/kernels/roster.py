"""The kernels of attention: how each draws its dispatches, and what it does not cover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attncheck.compare.arithmetic import Compute
from attncheck.kernels import decode, flash, matrix, naive, online
from attncheck.kernels.draft import Draft, Limits, View
from attncheck.kernels.operands import Operands
from attncheck.kernels.parts import larger
from attncheck.problem import Problem

Attend = Callable[[Draft[Problem], Operands, View], None]
Lacks = Callable[[Problem, Limits], str | None]


def _nothing(problem: Problem, limits: Limits) -> None:
    """It covers all that `attention.refusal` lets pass."""


@dataclass(frozen=True)
class Member:
    """One kernel.

    attend  appends the dispatches that compute the output, or a block of its rows, from operands that are there
    lacks   why it does not cover a problem on such an adapter, in a few words, or None; `online` then takes its place
    promise what it computes in
    as_given whether it reads queries that nothing has turned where they lie and in their own dtype, not in float32
    """

    attend: Attend
    lacks: Lacks = _nothing
    promise: Compute = "f32"
    as_given: bool = False


ROSTER: dict[str, Member] = {
    "naive": Member(naive.attend, larger),
    "online": Member(online.attend),
    "flash": Member(flash.SMALL.attend, flash.SMALL.lacks, as_given=True),
    "flash-large": Member(flash.LARGE.attend, flash.LARGE.lacks, as_given=True),
    "matrix": Member(matrix.attend, matrix.lacks, "mixed", as_given=True),
    "decode": Member(decode.attend, decode.lacks, as_given=True),
}
"""Name, as in `--kernel`, to kernel."""


def promise(kernel: str) -> Compute:
    """What `kernel` computes in; rows that turn and states have kernels of their own, in float32."""
    return ROSTER[kernel].promise if kernel in ROSTER else "f32"
