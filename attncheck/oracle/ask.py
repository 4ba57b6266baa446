"""Whatever the kind of problem: the oracle's answers to it."""

from __future__ import annotations

from collections.abc import Mapping

from attncheck.oracle import attention, recurrence, rotary
from attncheck.oracle.answer import Answer
from attncheck.problem import AnyProblem, Arrays, LinearProblem, Problem, RotaryProblem


def answer(problem: AnyProblem, inputs: Arrays, carried: Mapping[str, Answer] | None = None) -> tuple[Answer, ...]:
    """One Answer an output of the graph, in the graph's order. Raises NoAnswer where the operator forbids the graph.

    carried   by the name of a past or a state, the answer to the present that it came from, in a session
    """
    match problem:
        case Problem():
            return attention.answer(problem, inputs, carried)
        case RotaryProblem():
            return rotary.answer(problem, inputs)
        case LinearProblem():
            return recurrence.answer(problem, inputs, carried)
