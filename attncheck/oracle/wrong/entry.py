"""An entry of the catalogue of wrong kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from attncheck.oracle.wrong.kernel import compute
from attncheck.oracle.wrong.recipe import Float, Recipe
from attncheck.problem import Arrays, LinearProblem, Problem, RotaryProblem


@dataclass(frozen=True)
class Wrong:
    """A wrong kernel of attention.

    name       kebab-case, for tables and tests
    words      what it does, to follow "the result with": "softcap ignored"
    relevant   whether it must differ from a right kernel on this Problem, whatever usual data the tensors hold
    change     how the recipe of a right kernel becomes its own; only asked where it is relevant
    pairs      whether it is often one of two faults of the same kernel, so that diagnosis tries it with others
    """

    name: str
    words: str
    relevant: Callable[[Problem], bool]
    change: Callable[[Recipe], Recipe]
    pairs: bool = False

    def outputs(self, problem: Problem, inputs: Arrays) -> dict[str, Float]:
        """What it gives, float64, by output name, in each output's own shape."""
        return compute(self.change(Recipe(problem, inputs)))


Other = TypeVar("Other", bound=RotaryProblem | LinearProblem)


def whatever_is_given(_: object, __: Arrays) -> bool:
    """That no values hide what a wrong kernel does wrong."""
    return True


@dataclass(frozen=True)
class WrongOf(Generic[Other]):
    """A wrong kernel of a problem that is no attention: with name, words and relevance as `Wrong` has them.

    outputs    what it gives, float64, by output name, in each output's own shape; only asked where it is relevant
    shows      whether it can differ with the values given, where it is relevant: not in a past of zeros, say
    """

    name: str
    words: str
    relevant: Callable[[Other], bool]
    outputs: Callable[[Other, Arrays], dict[str, Float]]
    shows: Callable[[Other, Arrays], bool] = whatever_is_given
