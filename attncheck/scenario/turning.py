"""What can be said of rotary embedding: inside an operator that attends, or alone."""

from __future__ import annotations

from collections.abc import Iterator

from attncheck.scenario.axes import ROTARIES, ROTARY_DIMS
from attncheck.scenario.complete import SIZES, Complete, Impossible, Rules
from attncheck.scenario.diagnostics import Mistake, listed

FREE = ("zero", "scattered", "negative", "beyond")
"""Positions that do not follow the tokens, so that the caches may have any number of rows."""


def _alone(case: Complete) -> bool:
    return case.op in ROTARIES


def _pairs(case: Complete) -> Iterator[Impossible]:
    if case.values["rotary"] == "none":
        yield from _nothing_turns(case)
        return
    turning, width = case.integer("rotary_dim"), case.integer("head_dim")
    if turning % 2:
        default = "" if "rotary_dim" in case.written else " (by default head_dim)"
        yield Impossible(
            Mistake.ROTARY,
            ("rotary_dim", "head_dim"),
            f"rotary_dim must be even, not {turning}{default}: elements turn in pairs",
            f"rotary_dim: {max(2, turning - 1)}",
        )
    if turning > width:
        yield Impossible(
            Mistake.ROTARY,
            ("rotary_dim", "head_dim"),
            f"a rotary_dim of {turning} exceeds a head_dim of {width}",
            "at most head_dim",
        )


def _computed(case: Complete) -> Iterator[Impossible]:
    """What com.microsoft Attention turns: halves, by angles of its own."""
    if case.op != "ms-attention" or case.values["rotary"] == "none":
        return
    if case.values["rotary"] == "interleaved":
        message = "`rotary: interleaved` does not exist on ms-attention (com.microsoft Attention)"
        yield Impossible(Mistake.FOREIGN, ("rotary", "op"), message, "use `rotary: half`")
    if "rotary_cache" in case.written:
        message = "`rotary_cache` does not exist on ms-attention (com.microsoft Attention): it computes its angles"
        yield Impossible(Mistake.FOREIGN, ("rotary_cache", "op"), message, "remove it")
    if case.values["rotary_dim"] not in ROTARY_DIMS:
        default = "" if "rotary_dim" in case.written else " (by default head_dim)"
        allowed = listed(tuple(map(str, ROTARY_DIMS)))
        message = f"com.microsoft Attention turns {allowed} dims, not {case.values['rotary_dim']}"
        yield Impossible(Mistake.ROTARY, ("rotary_dim", "head_dim", "rotary"), message + default, "rotary_dim: 32")


def _nothing_turns(case: Complete) -> Iterator[Impossible]:
    if _alone(case):
        message = f"`rotary: none` leaves {case.op} nothing to do"
        yield Impossible(Mistake.ROTARY, ("rotary", "op"), message, "use `rotary: half` or `interleaved`")
        return
    for axis in ("rotary_dim", "rotary_cache", "positions"):
        if axis in case.written and "rotary" not in case.written:
            message = f"`{axis}` without `rotary` has no effect"
            yield Impossible(Mistake.ROTARY, (axis,), message, "add `rotary: half` or `interleaved`")


def _cache(case: Complete) -> Iterator[Impossible]:
    if case.values["rotary"] == "none" or not case.lists_fit:
        return
    rows, positions = case.values["rotary_cache"], str(case.values["positions"])
    if case.op == "rotary" and positions == "implicit" and "rotary_cache" in case.written:
        message = "without position_ids the caches of ai.onnx RotaryEmbedding hold a row for every token"
        hint = "remove it, or use `positions: explicit`"
        yield Impossible(Mistake.ROTARY, ("rotary_cache", "positions"), message, hint)
    elif _alone(case) and rows == "absent":
        message = f"`rotary_cache: absent` cannot be written: the caches of {case.op} are no optional inputs"
        yield Impossible(Mistake.ROTARY, ("rotary_cache", "op"), message, "give a number of rows")
    elif positions not in FREE and isinstance(rows, int) and rows < case.positions and not case.refused:
        message = f"a rotary_cache of {rows} rows is too short: positions reach {case.positions - 1}"
        yield Impossible(Mistake.ROTARY, ("rotary_cache",), message, f"rotary_cache: {case.positions} or more")


def _rows(case: Complete) -> Iterator[Impossible]:
    """Every row of an operator that only turns means something."""
    packed = case.values["packed_batch"] is True
    if not _alone(case) or not case.lists_fit:
        return
    if case.differs("q_len") and not packed:
        message = f"q_len may not differ over the batch: {case.op} turns every row"
        hint = "use one q_len for all, or `op: ms-rotary` with `packed_batch: true`"
        yield Impossible(Mistake.RAGGED, ("q_len", "op"), message, hint)


def _positions(case: Complete) -> Iterator[Impossible]:
    op, positions = case.op, str(case.values["positions"])
    if positions == "scattered" and not _alone(case) and case.values["rotary"] != "none":
        message = f"`positions: {positions}` does not exist on {op}"
        hint = "use `op: rotary` or `ms-rotary`; in a matrix, exclude the combination"
        yield Impossible(Mistake.FOREIGN, ("positions", "op"), message, hint)
    if not case.lists_fit:
        return
    packed = case.values["packed_batch"] is True
    if positions == "one-row" and case.values["rotary"] != "none" and (case.batch == 1 or packed):
        message = "`positions: one-row` is what one batch entry needs: nothing is missing"
        yield Impossible(Mistake.ROTARY, ("positions", "batch"), message, "use `batch: 2` or more, or `explicit`")
    if op == "ms-rotary" and positions == "implicit" and (packed or case.differs("past_len")):
        message = "`positions: implicit` is one position for all entries, from which ms-rotary counts"
        hint = "use one past_len, or `positions: explicit`"
        yield Impossible(Mistake.ROTARY, ("positions", "past_len"), message, hint)


RULES: Rules = (
    (("op", "rotary", "rotary_dim", "head_dim"), _pairs),
    (("op", "rotary", "rotary_dim", "rotary_cache", "head_dim"), _computed),
    (("op", "rotary", "rotary_cache", "positions", *SIZES), _cache),
    (("op", "packed_batch", *SIZES), _rows),
    (("op", "rotary", "positions", "packed_batch", *SIZES), _positions),
)
