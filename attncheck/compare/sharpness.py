"""Sharpness: which wrong kernels a case would notice. A case that notices none proves nothing (flag `vacuous`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.compare import judge
from attncheck.compare.judge import Compute
from attncheck.oracle.answer import Answer
from attncheck.oracle.wrong.lineup import lineup
from attncheck.problem import AnyProblem, Arrays
from attncheck.scenario.model import Tolerance
from attncheck.tensors.dtypes import narrow


@dataclass(frozen=True)
class Sharpness:
    """Names of wrong kernels: `relevant` ones that were tried, and of these the `rejected` and the `survivors`.

    by_poison  of the rejected, those that nothing but NaN or infinity gave away, as where they read what nobody filled:
               no tolerance, however wide, lets that pass
    """

    relevant: tuple[str, ...]
    rejected: tuple[str, ...]
    survivors: tuple[str, ...]
    by_poison: tuple[str, ...] = ()

    @property
    def vacuous(self) -> bool:
        """Whether the tolerance rejects no wrong kernel at all."""
        return set(self.rejected) <= set(self.by_poison)


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
    tried: list[str] = []
    rejected: list[str] = []
    by_poison: list[str] = []
    for wrong in lineup(problem, inputs).known:
        tried.append(wrong.name)
        noticed, finite = _noticed(problem, answers, wrong.outputs(None), compute, override)
        if noticed:
            rejected.append(wrong.name)
            if not finite:
                by_poison.append(wrong.name)
            elif first_only:
                break
    survivors = tuple(name for name in tried if name not in rejected)
    return Sharpness(tuple(tried), tuple(rejected), survivors, tuple(by_poison))


def _noticed(
    problem: AnyProblem,
    answers: Sequence[Answer],
    outputs: Mapping[str, NDArray[np.float64]],
    compute: Compute,
    override: Tolerance | None,
) -> tuple[bool, bool]:
    """Whether the outputs are out of tolerance somewhere, and whether they are so with a finite number."""
    with np.errstate(over="ignore"):  # what a wrong kernel computes need not fit its dtype
        stored = {name: narrow(values, problem.dtype) for name, values in outputs.items()}
    found = judge.differences(problem, answers, stored, compute, "", override)
    return any(not each.passed for each in found), any(each.failing > each.nonfinite for each in found)
