"""Which kernels compute a problem: the only place that knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from attncheck.kernels import linear, turning
from attncheck.problem import AnyProblem, LinearProblem, Problem
from attncheck.scenario.model import DEFAULT_THRESHOLD, Kernel


@dataclass(frozen=True)
class Policy:
    """Naive or online, where it is attention; other problems have one kernel.

    kernel     "auto" chooses by the number of keys and runs both kernels; a kernel's name forces it, alone
    threshold  "auto" takes online from this many keys (the longest of the batch) on
    """

    kernel: Kernel = "auto"
    threshold: int = DEFAULT_THRESHOLD

    def __post_init__(self) -> None:
        if self.kernel not in get_args(Kernel):
            raise ValueError(f"unknown kernel {self.kernel!r}; choose one of {', '.join(get_args(Kernel))}")
        if self.threshold < 0:
            raise ValueError(f"the kernel threshold is a number of keys, 0 or more, not {self.threshold}")

    def choose(self, problem: AnyProblem) -> tuple[str, ...]:
        """The kernels to run, the judged one first."""
        if not isinstance(problem, Problem):
            return (linear.KERNEL if isinstance(problem, LinearProblem) else turning.KERNEL,)
        if self.kernel != "auto":
            return (self.kernel,)
        if max(problem.kv_len) >= self.threshold:
            return ("online", "naive")
        return ("naive", "online")
