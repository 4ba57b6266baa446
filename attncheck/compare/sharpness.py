"""Sharpness: which wrong kernels a case would notice. A case that notices none proves nothing (flag `vacuous`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.compare import judge
from attncheck.compare.arithmetic import Compute
from attncheck.compare.difference import Difference
from attncheck.oracle.answer import Answer
from attncheck.oracle.wrong.lineup import lineup
from attncheck.problem import AnyProblem, Arrays, Problem, role_of
from attncheck.scenario.model import Tolerance
from attncheck.tensors.dtypes import narrow


@dataclass(frozen=True)
class Trial:
    """A wrong kernel held against the oracle: its outputs as it would store them, and what the judge found."""

    name: str
    outputs: Mapping[str, NDArray[np.generic]]
    found: tuple[Difference, ...]

    @property
    def rejected(self) -> bool:
        """Whether something is out of tolerance."""
        return any(not each.passed for each in self.found)

    @property
    def by_poison(self) -> bool:
        """Whether nothing but NaN or infinity is."""
        return self.rejected and all(each.failing == each.nonfinite for each in self.found)


@dataclass(frozen=True)
class Sharpness:
    """Names of wrong kernels: `relevant` ones that were tried, and of these the `rejected` and the `survivors`.

    by_poison  of the rejected, those that nothing but NaN or infinity gave away, as where they read what nobody filled:
               no tolerance, however wide, lets that pass
    exact      whether no query has a key and the tolerance is 0: a NaN in the place of the zeros is what there is to
               notice, and any other number is noticed as well
    idle       whether zeros pass in the place of the output: the tolerance is as large as all that is expected
    """

    relevant: tuple[str, ...]
    rejected: tuple[str, ...]
    survivors: tuple[str, ...]
    by_poison: tuple[str, ...] = ()
    exact: bool = False
    idle: bool = False

    @property
    def vacuous(self) -> bool:
        """Whether the tolerance rejects no wrong kernel at all, or does not ask that anything be computed."""
        if self.exact and self.rejected:
            return False
        return self.idle or set(self.rejected) <= set(self.by_poison)


def sharpness(
    problem: AnyProblem,
    inputs: Arrays,
    answers: Sequence[Answer],
    compute: Compute,
    override: Tolerance | None = None,
    *,
    first_only: bool = False,
) -> Sharpness:
    """Hold every relevant wrong kernel against the oracle's `answers`, by the tolerance that a backend would have.

    first_only  stop at the first that the tolerance rejects: all that `vacuous` needs, nearly always after one
    """
    idle = _zeros_pass(problem, answers, compute, override)
    relevant: list[str] = []
    rejected: list[str] = []
    by_poison: list[str] = []
    for trial in trials(problem, inputs, answers, compute, override):
        relevant.append(trial.name)
        if trial.by_poison:
            by_poison.append(trial.name)
        if trial.rejected:
            rejected.append(trial.name)
            if first_only and not trial.by_poison:
                break
    survivors = tuple(name for name in relevant if name not in rejected)
    exact = _sees_nothing(problem) and (override is None or override.max_abs == 0.0)
    return Sharpness(tuple(relevant), tuple(rejected), survivors, tuple(by_poison), exact, idle)


def _zeros_pass(
    problem: AnyProblem, answers: Sequence[Answer], compute: Compute, override: Tolerance | None
) -> bool:
    """Whether the output may as well be zeros; what else there is, as a present, shows nothing of attention."""
    output = problem.outputs[0].tensor.name
    own = [answer for answer in answers if answer.output == output]
    zeros = {it.output: narrow(np.zeros_like(it.values), role_of(problem.outputs, it.output).dtype) for it in own}
    return all(each.passed for each in judge.differences(problem, own, zeros, compute, "zeros", override))


def _sees_nothing(problem: AnyProblem) -> bool:
    """Whether no query that means something has a key, and each gives zeros: the rule, which knows no rounding."""
    if not isinstance(problem, Problem) or problem.averages_empty_rows:
        return False
    return bool((problem.visible[..., 0] >= problem.visible[..., 1])[problem.stated_rows].all())


def trials(
    problem: AnyProblem, inputs: Arrays, answers: Sequence[Answer], compute: Compute, override: Tolerance | None = None
) -> Iterator[Trial]:
    """Every relevant wrong kernel, one after the other, in the line-up's order."""
    for wrong in lineup(problem, inputs).known:
        outputs = wrong.outputs(None)
        with np.errstate(over="ignore"):  # what a wrong kernel computes need not fit its dtype
            stored = {name: narrow(values, role_of(problem.outputs, name).dtype) for name, values in outputs.items()}
        yield Trial(wrong.name, stored, judge.differences(problem, answers, stored, compute, wrong.name, override))
