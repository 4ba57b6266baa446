"""Which kernels compute a problem: the only place that knows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import get_args

from attncheck.kernels import linear, turning
from attncheck.kernels.draft import Limits
from attncheck.kernels.roster import ROSTER
from attncheck.kernels.thresholds import Rule, load
from attncheck.problem import AnyProblem, LinearProblem, Problem
from attncheck.scenario.model import Kernel


@dataclass(frozen=True)
class Choice:
    """Kernels to run, the judged one first; `instead` says why the one that was asked for is not it, or is empty."""

    kernels: tuple[str, ...]
    instead: str = ""


@dataclass(frozen=True)
class Policy:
    """The kernel of attention; other problems have one kernel each.

    kernel     "auto" takes the first rule that holds, and runs a plain kernel too, which must agree; a kernel's name
               forces it, alone, or online where it does not cover the problem
    threshold  from this many keys (the longest of the batch) on online is chosen where no rule of another kernel holds
    rules      thresholds, None for the shipped ones
    """

    kernel: Kernel = "auto"
    threshold: int | None = None
    rules: tuple[Rule, ...] | None = None

    def __post_init__(self) -> None:
        if self.kernel not in get_args(Kernel):
            raise ValueError(f"unknown kernel {self.kernel!r}; choose one of {', '.join(get_args(Kernel))}")
        if self.threshold is not None and self.threshold < 0:
            raise ValueError(f"the kernel threshold is a number of keys, 0 or more, not {self.threshold}")

    def choose(self, problem: AnyProblem, limits: Limits) -> Choice:
        """The kernels to run on such an adapter."""
        if not isinstance(problem, Problem):
            return Choice((linear.KERNEL if isinstance(problem, LinearProblem) else turning.KERNEL,))
        if self.kernel == "auto":
            chosen = self._by_size(problem, limits)
            beside = ("online",) if chosen == "naive" else ("naive", "online")
            plain = (it for it in beside if it != chosen and ROSTER[it].lacks(problem, limits) is None)
            return Choice((chosen, *islice(plain, 1)))
        lacks = ROSTER[self.kernel].lacks(problem, limits)
        if lacks is not None:
            return Choice(("online",), f"{self.kernel} does not cover {lacks}")
        return Choice((self.kernel,))

    def _by_size(self, problem: Problem, limits: Limits) -> str:
        for rule in self._rules():
            if rule.holds(problem, limits) and ROSTER[rule.kernel].lacks(problem, limits) is None:
                return str(rule.kernel)
        return "online" if ROSTER["naive"].lacks(problem, limits) else "naive"

    def _rules(self) -> tuple[Rule, ...]:
        rules = load() if self.rules is None else self.rules
        if self.threshold is None:
            return rules
        asked = Rule(kernel="online", least_keys=self.threshold, measured="asked for")
        return (*(rule for rule in rules if rule.kernel != "online"), asked)
