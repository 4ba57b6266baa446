"""Whatever the kind of problem: the oracle's answers to it."""

from __future__ import annotations

from attncheck.oracle import attention, recurrence, rotary
from attncheck.oracle.answer import Answer
from attncheck.problem import AnyProblem, Arrays, LinearProblem, Problem, RotaryProblem


def answer(problem: AnyProblem, inputs: Arrays) -> tuple[Answer, ...]:
    """One Answer an output of the graph, in the graph's order. Raises NoAnswer where the operator forbids the graph."""
    match problem:
        case Problem():
            return attention.answer(problem, inputs)
        case RotaryProblem():
            return rotary.answer(problem, inputs)
        case LinearProblem():
            return recurrence.answer(problem, inputs)
