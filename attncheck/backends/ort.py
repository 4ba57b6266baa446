"""ONNX Runtime on any of its execution providers, by name; the CPU's and WebGPU's have files of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attncheck.backends import refusals
from attncheck.backends.base import BackendUnavailable, Evidence, Hello, Launch, Request
from attncheck.backends.refusals import Declared, Refusal
from attncheck.compare.arithmetic import Compute
from attncheck.graph.case import Case
from attncheck.problem import AnyProblem, Problem

OLDEST = "1.20"
"""The oldest ONNX Runtime whose GroupQueryAttention has every attribute that the shipped scenarios use (softcap)."""

GQA = "com.microsoft.GroupQueryAttention"
SPARSE = "com.microsoft.SparseAttention"
PAGED = "com.microsoft.PagedAttention"

GQA_REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        lambda _, asked, __: asked.op == GQA and asked.head_dim % 8 != 0,
        "GroupQueryAttention takes only a head_dim that is a multiple of 8",
    ),
    Refusal(
        lambda _, asked, __: (
            asked.rotary is not None
            and not asked.rotary.base
            and (asked.head_dim % 16 != 0 or asked.rotary.dim % 16 != 0)
        ),
        "rotary GroupQueryAttention takes only a head_dim and a rotary_dim that are multiples of 16",
    ),
    Refusal(
        lambda case, asked, _: (
            asked.op == GQA
            and asked.batch > 1
            and asked.rows > 1
            and max(asked.past_len) > 0
            and "query_seqlens" not in case.inputs
        ),
        "GroupQueryAttention takes q_len > 1 with a past only for batch 1, or with query_seqlens",
    ),
)
"""What the operator's own checks, which its kernels on all providers share, refuse from 1.20 to 1.32 at least."""

LEAST_PAGE = 16

PAGED_REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        lambda _, asked, __: asked.op == PAGED and asked.head_dim % 8 != 0,
        "PagedAttention takes only a head_dim that is a multiple of 8",
    ),
    Refusal(
        lambda _, asked, __: asked.op == PAGED and _page(asked) not in {LEAST_PAGE << power for power in range(16)},
        f"PagedAttention takes only pages of a power of two of tokens, {LEAST_PAGE} or more",
    ),
)
"""What the checks of PagedAttention refuse, which has a kernel on CUDA alone."""

NO_PAGES = Refusal(lambda _, asked, __: asked.op == PAGED, "PagedAttention has a kernel on CUDA alone")
"""For every other provider."""


def _page(problem: Problem) -> int:
    """Tokens of a page, 0 without pages."""
    at = None if problem.past_key is None else problem.past_key.scattered
    return 0 if at is None else at.page


class Ort:
    """One execution provider.

    provider  its name as ONNX Runtime has it, "CUDAExecutionProvider"
    plugin    the Python module of a plugin package that brings it, None for one that is built in
    options   its own options, by name, as strings
    """

    refusals: tuple[Declared, ...] = (*GQA_REFUSALS, *PAGED_REFUSALS)

    def __init__(
        self, name: str, provider: str, plugin: str | None = None, options: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.provider = provider
        self.plugin = plugin
        self.options = dict(options or {})

    def arithmetic(self, problem: AnyProblem) -> Compute:
        """The dtype's own: a provider promises nothing else."""
        return "native"

    def launch(self) -> Launch:
        """An ONNX Runtime worker on the provider."""
        options: dict[str, Any] = {"provider": self.provider, "plugin": self.plugin, "provider_options": self.options}
        return Launch("ort", options)

    def check(self, hello: Hello) -> None:
        """Raise BackendUnavailable when the ONNX Runtime found is older than `OLDEST`."""
        version = hello.versions["onnxruntime"]
        if refusals.older(version, OLDEST):
            raise BackendUnavailable(
                f"ONNX Runtime {version} is too old for {self.name}: {OLDEST} or newer is needed "
                f"(pip install 'onnxruntime>={OLDEST}')"
            )

    def unsupported(self, case: Case, problem: AnyProblem, hello: Hello) -> str | None:
        """The first declared refusal that fits this version of ONNX Runtime, or None."""
        return refusals.first(self.refusals, case, problem, hello, "onnxruntime")

    def requests(self, case: Case, problem: AnyProblem, hello: Hello) -> Sequence[Request]:
        """One run of the model, in which past and present are one buffer where the operator asks for it."""
        shared = {}
        if problem.op in (SPARSE, PAGED) and isinstance(problem, Problem):
            pairs = ((problem.present_key, problem.past_key), (problem.present_value, problem.past_value))
            shared = {present.name: past.name for present, past in pairs if present is not None and past is not None}
        return (Request("", {"model": case.model, "shared": shared}),)

    def fallback(self, evidence: Evidence) -> str | None:
        """Kernel events of any other provider than the one asked for."""
        if evidence.provider == self.provider:
            return None
        return f"asked for {self.provider}, but ONNX Runtime's profiler says that {evidence.provider or 'nothing'} ran"
