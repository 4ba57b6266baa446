"""What can be said of PagedAttention."""

from __future__ import annotations

from collections.abc import Iterator

from attncheck.scenario.complete import Complete, Impossible, Rules
from attncheck.scenario.diagnostics import Mistake


def _types(case: Complete) -> Iterator[Impossible]:
    if case.op == "paged" and case.values["dtype"] == "float32":
        message = "`dtype: float32` does not exist on paged (PagedAttention)"
        hint = "use `float16` or `bfloat16`, or leave it out; in a matrix, exclude the combination"
        yield Impossible(Mistake.FOREIGN, ("dtype", "op"), message, hint)


def _norm(case: Complete) -> Iterator[Impossible]:
    if case.op == "paged" and case.values["qk_norm"] == "epsilons":
        message = "PagedAttention has one epsilon for queries and keys"
        yield Impossible(Mistake.FOREIGN, ("qk_norm", "op"), message, "use `qk_norm: epsilon`, or `op: gqa`")


RULES: Rules = (
    (("op", "dtype"), _types),
    (("op", "qk_norm"), _norm),
)
