"""From a Problem to a Plan: which buffers, which dispatches. Pure but for reading the shaders' text."""

from __future__ import annotations

from pathlib import Path

from attncheck.kernels import attention, linear, turning
from attncheck.kernels.draft import ELEMENTS, Draft, Limits
from attncheck.kernels.plan import Plan
from attncheck.problem import AnyProblem, LinearProblem, Problem, RotaryProblem


def plan(problem: AnyProblem, kernel: str, limits: Limits, shaders: Path) -> Plan:
    """The plan that computes every output of `problem` with `kernel`, from a folder of shaders.

    The problem is one that `refusal` lets pass, and the kernel one that a policy chose for it.
    Raises ShaderError when a shader is missing or breaks its contract.
    """
    match problem:
        case Problem():
            attends = Draft(problem, limits, shaders)
            attention.draw(attends, kernel)
            return attends.finish(kernel)
        case RotaryProblem():
            turns = Draft(problem, limits, shaders)
            turning.draw(turns)
            return turns.finish(kernel)
        case LinearProblem():
            recurs = Draft(problem, limits, shaders)
            linear.draw(recurs)
            return recurs.finish(kernel)


def refusal(problem: AnyProblem, limits: Limits) -> str | None:
    """Why these kernels cannot compute the problem on such an adapter, or None."""
    if problem.invalid:
        return f"the operator forbids this graph: {problem.invalid}"
    if problem.dtype not in ELEMENTS:
        return f"dtype {problem.dtype}: the kernels compute {' and '.join(ELEMENTS)}"
    if problem.dtype == "float16" and not limits.f16:
        return "dtype float16: the adapter has no f16 (WebGPU feature shader-f16)"
    return _beyond(problem) or _too_large(problem, limits)


def _beyond(problem: AnyProblem) -> str | None:
    """Why the kernels of its kind cannot compute the problem on any adapter, or None."""
    match problem:
        case Problem():
            return attention.refusal(problem)
        case RotaryProblem():
            return None
        case LinearProblem():
            return linear.refusal(problem)


def _too_large(problem: AnyProblem, limits: Limits) -> str | None:
    for tensor, nbytes in _bindings(problem).items():
        if nbytes > limits.binding_bytes:
            why = attention.divided(problem) if isinstance(problem, Problem) and "present" in tensor else None
            beside = f"; it is not bound in parts where {why}" if why else ""
            bound = f"the adapter binds at most {limits.binding_bytes} at a time"
            return f"{tensor} takes {nbytes} bytes, and {bound}{beside}"
    most = limits.buffer_bytes or limits.binding_bytes
    for tensor, nbytes in (attention.buffers(problem) if isinstance(problem, Problem) else {}).items():
        if nbytes > most:
            return f"{tensor} takes {nbytes} bytes, and the adapter has buffers of at most {most}"
    return None


def _bindings(problem: AnyProblem) -> dict[str, int]:
    """Bytes of the buffers that grow with the problem and cannot be split."""
    match problem:
        case Problem():
            return attention.bindings(problem)
        case RotaryProblem():
            return turning.bindings(problem)
        case LinearProblem():
            return linear.bindings(problem)
