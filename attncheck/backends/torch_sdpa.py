"""PyTorch's scaled_dot_product_attention, for what it covers: no rotary embedding, no softcap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from attncheck.backends import refusals
from attncheck.backends.base import BackendUnavailable, Evidence, Hello, Launch, Request
from attncheck.backends.refusals import Declared, Refusal, RefusalOfAny
from attncheck.compare.arithmetic import Compute
from attncheck.graph.case import Case
from attncheck.problem import AnyProblem, Problem

OLDEST = "2.5"
"""From here on there is `enable_gqa`, and a query row without a visible key gives zeros, not NaN."""


def _has_averaging_row(problem: Problem) -> bool:
    """Whether a query row that sees no key must give the mean of all values, as far as can be told without data."""
    sees_none = problem.visible[..., 0] >= problem.visible[..., 1]
    may_hide_all = bool(problem.masks) or bool((sees_none & problem.stated_rows).any())
    return problem.empty_row == "mean" and may_hide_all


REFUSALS: tuple[Declared, ...] = (
    RefusalOfAny(
        lambda _, problem, __: problem.kind != "attention",
        "scaled_dot_product_attention computes attention, and nothing else",
    ),
    Refusal(
        lambda _, problem, __: problem.rotary is not None,
        "scaled_dot_product_attention does not rotate queries and keys",
    ),
    Refusal(
        lambda _, problem, __: problem.norm is not None,
        "scaled_dot_product_attention does not normalise queries and keys",
    ),
    Refusal(
        lambda _, problem, __: problem.quantised is not None,
        "scaled_dot_product_attention has no KV cache of integers",
    ),
    Refusal(
        lambda _, problem, __: problem.evicts is not None,
        "scaled_dot_product_attention has no cache that evicts",
    ),
    Refusal(
        lambda _, problem, __: problem.beams is not None,
        "scaled_dot_product_attention reads no past of other beams",
    ),
    Refusal(lambda _, problem, __: problem.softcap != 0.0, "scaled_dot_product_attention has no softcap"),
    Refusal(
        lambda _, problem, __: problem.projection is not None,
        "scaled_dot_product_attention does not project queries, keys and values",
    ),
    Refusal(
        lambda _, problem, __: problem.sink is not None or problem.smooth,
        "scaled_dot_product_attention has no sink in its softmax",
    ),
    Refusal(
        lambda _, problem, __: problem.scores is not None,
        "scaled_dot_product_attention does not give scores out",
    ),
    Refusal(
        lambda _, problem, __: bool(problem.invalid),
        "scaled_dot_product_attention never sees the graph that it would have to refuse",
    ),
    Refusal(
        lambda _, problem, __: _has_averaging_row(problem),
        "scaled_dot_product_attention gives zeros for a query that sees no key, where the operator averages",
    ),
)


class TorchSdpa:
    """PyTorch as a backend, on a device of its own choice or `device`; float16 is computed as PyTorch pleases."""

    name = "torch"

    def __init__(self, device: str | None = None) -> None:
        self.device = device

    def arithmetic(self, problem: AnyProblem) -> Compute:
        """The dtype's own: PyTorch computes float16 as it pleases."""
        return "native"

    def launch(self) -> Launch:
        """A PyTorch worker."""
        return Launch("torch_sdpa", {"device": self.device})

    def check(self, hello: Hello) -> None:
        """Raise BackendUnavailable when the PyTorch found is older than `OLDEST`."""
        version = hello.versions["torch"]
        if refusals.older(version, OLDEST):
            raise BackendUnavailable(
                f"PyTorch {version} is too old: {OLDEST} or newer is needed (pip install 'torch>={OLDEST}')"
            )

    def unsupported(self, case: Case, problem: AnyProblem, hello: Hello) -> str | None:
        """What the function has no argument for."""
        return refusals.first(REFUSALS, case, problem, hello, "torch")

    def requests(self, case: Case, problem: AnyProblem, hello: Hello) -> Sequence[Request]:
        """One call."""
        outputs = [asdict(output) for output in case.outputs]
        return (Request("", {"problem": asdict(problem), "outputs": outputs}),)

    def fallback(self, evidence: Evidence) -> str | None:
        """The worker puts every tensor on its device itself."""
        return None
