"""What can be said of linear attention."""

from __future__ import annotations

from collections.abc import Iterator

from attncheck.scenario.axes import LINEARS
from attncheck.scenario.complete import SIZES, Complete, Impossible, Rules
from attncheck.scenario.diagnostics import Mistake


def _rows(case: Complete) -> Iterator[Impossible]:
    if case.op in LINEARS and case.differs("q_len"):
        message = f"q_len may not differ over the batch: {case.op} takes every row into its state"
        yield Impossible(Mistake.RAGGED, ("q_len", "op"), message, "use one q_len for all")


def _gates(case: Complete) -> Iterator[Impossible]:
    rule = str(case.values["update_rule"])
    if case.op not in LINEARS:
        return
    for axis, has, rules in (
        ("decay", rule.startswith("gated"), "gated` or `gated-delta"),
        ("beta", rule.endswith("delta"), "delta` or `gated-delta"),
    ):
        if axis in case.written and not has:
            message = f"`update_rule: {rule}` has no {axis}"
            hint = f"remove it, or use `update_rule: {rules}`"
            yield Impossible(Mistake.BUFFERS, (axis, "update_rule"), message, hint)


RULES: Rules = (
    (("op", *SIZES), _rows),
    (("op", "update_rule", "decay", "beta"), _gates),
)
