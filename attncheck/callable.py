"""For a user's own kernel in Python: how a function that `--backend file.py:name` names is called.

Undecorated, the function is called as ``name(model, inputs)``: the ONNX model's bytes, and the graph's inputs by name;
it returns the graph's outputs by name. Decorators change that, or say more. Both return the function itself. What it
does not cover, it says by raising `Unsupported`:

    import attncheck.callable

    @attncheck.callable.takes_problem
    def attention(problem, tensors):
        if problem.rotary is not None:
            raise attncheck.callable.Unsupported("no rotary embedding")
        scores = problem.scale * tensors["query"] @ ...
        return {"output": ...}

Standard library only, in older syntax: a worker loads this file under whatever interpreter the backend names.
"""

from __future__ import annotations

from typing import Any, Callable, TypeVar, overload  # noqa: UP035 - older interpreters read this file

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

KINDS = ("attention", "rotary", "linear")
"""Kinds of problem: of attention over keys, of rows that turn and attend to nothing, of a state in the keys' place."""
TAKES_PROBLEM = "__attncheck_takes_problem__"
EVIDENCE = "__attncheck_evidence__"


class Unsupported(Exception):
    """Raised by a function for a case that it does not cover: `unsupported` and skipped, where else is `error`.

    Its words are the reason, as a person is to read it. Of a session it may be raised in any step.
    """


@overload
def takes_problem(function: Kernel, /) -> Kernel: ...


@overload
def takes_problem(*kinds: str) -> Callable[[Kernel], Kernel]: ...


def takes_problem(*given: Any) -> Any:
    """Call the function as ``name(problem, tensors)``, free of any operator's conventions.

    It takes problems of attention, or of the kinds that it says: ``@takes_problem("rotary", "linear")``. A case of
    another kind is `unsupported`. Raises ValueError for a kind that there is not.

    problem  the fields of attncheck.problem.Problem, as attributes: sizes, per-batch lengths, `visible`, scale, ...;
             of RotaryProblem or LinearProblem for another `problem.kind`. No properties: the keys that a batch entry
             holds, kv_len, are past_len + new_len. docs/backends.md tells the fields
    tensors  inputs by role ("query", "key", "value", "past_key", ...), each [batch, heads, rows, dim] whatever the
             graph's layout; an absent one is missing. Where the problem has them: "cos" and "sin" [rows, dim / 2],
             "sink" [heads], and each of problem.masks by its name, the graph's array, to be taken as `mask.shape`:
             rank 1 to 4, broadcast from the right over [batch, heads, rows, slots], `mask.slots` of them, which may be
             fewer than problem.capacity; keys behind these are hidden

    It returns a dict of roles: "output" [batch, heads, rows, v_head_dim] and, where the problem's are not None,
    "present_key" and "present_value" [batch, kv_heads, capacity, dim], "scores" [batch, heads, rows, slots]. Rotary: of
    "input", "turned". Linear: of "query", "key", "value" and, where there are any, "past_state", "decay" and "beta",
    "output" [batch, max(heads, kv_heads), rows, v_head_dim], "present_state" [batch, kv_heads, head_dim, v_head_dim].
    """
    if len(given) == 1 and callable(given[0]):
        return takes_problem(KINDS[0])(given[0])
    unknown = [kind for kind in given if kind not in KINDS]
    if unknown or not given:
        raise ValueError(f"takes_problem: no kind of problem {unknown}; there are {', '.join(KINDS)}")

    def decorate(function: Kernel) -> Kernel:
        setattr(function, TAKES_PROBLEM, given)
        return function

    return decorate


def declares(provider: str, *kernels: str) -> Callable[[Kernel], Kernel]:
    """Say what the function runs on, and which kernels: its evidence, by default the names of its file and itself."""

    def decorate(function: Kernel) -> Kernel:
        setattr(function, EVIDENCE, (provider, kernels))
        return function

    return decorate
