"""Naive attention: the scores of a block of query rows, their softmax, the weighted sum; and score outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from attncheck.kernels.draft import INVOCATIONS, Draft, View, itemsize
from attncheck.kernels.operands import Operands
from attncheck.kernels.plan import Buffer
from attncheck.kernels.visible import held_rows, visible_rows
from attncheck.problem import Problem, Scores

OUTPUT_DIMS = 8
"""DIMS of naive_output.wgsl."""

SCORES_BYTES = 32 << 20
"""Most bytes of scores that are materialised at a time."""

MINUS_INFINITY = {"f32": 0xFF800000, "f16": 0xFC00}
"""Its bits."""


def attend(draft: Draft[Problem], given: Operands, output: View) -> None:
    """Block after block in one scratch buffer."""
    problem = draft.problem
    scores, span, blocks = _scratch(draft, int(visible_rows(problem)[..., 3].max(initial=0)))
    summing = {"span": span, "heads": problem.heads, "rows": problem.rows, "head_group": problem.group}
    summing |= {"v_head_dim": problem.v_head_dim} | given.value.strides("value") | output.place("output")
    for first_row, rows in blocks:
        _score(draft, given, given.visible, scores, span, (first_row, rows), softcap=problem.softcap, masked=True)
        _soften(draft, given, scores, span, (first_row, rows))
        bindings = (given.visible, scores, given.value.buffer, output.buffer)
        workgroups = rows * -(-problem.v_head_dim // OUTPUT_DIMS)
        place = {"first_row": first_row, "block": rows}
        draft.dispatch("naive_output", {"elem": draft.elem}, summing | place, bindings, workgroups)


def give_scores(draft: Draft[Problem], given: Operands, asked: Scores) -> None:
    """The score output, by dispatches of its own, whichever kernel computes the rest."""
    problem = draft.problem
    size = itemsize(draft.elem)
    elements = problem.batch * problem.heads * problem.rows * asked.slots
    draft.buffers[asked.name] = Buffer(asked.name, elements * size, output=asked.name)
    after_masks = asked.stage in ("biased", "weights")
    visible = given.visible if after_masks else draft.constant("held", held_rows(problem))
    scores, span, blocks = _scratch(draft, max(problem.kv_len))
    shared = {"span": span, "heads": problem.heads, "rows": problem.rows, "slots": asked.slots}
    shared |= {"per_word": 4 // size}
    weights = asked.stage == "weights"
    meaning = {
        "hidden_bits": MINUS_INFINITY[draft.elem] if asked.stage == "biased" else 0,
        "unit": 1.0 if weights else math.log(2.0),
    }
    softcap = 0.0 if asked.stage == "raw" else problem.softcap
    for first_row, rows in blocks:
        _score(draft, given, visible, scores, span, (first_row, rows), softcap=softcap, masked=after_masks)
        if weights:
            _soften(draft, given, scores, span, (first_row, rows))
        first_word = first_row * asked.slots * size // 4
        words = -(-(first_row + rows) * asked.slots * size // 4) - first_word
        place = {"first_row": first_row, "block": rows, "first_word": first_word, "total": words}
        bindings = (visible, scores, asked.name)
        draft.dispatch("score_output", {}, shared | meaning | place, bindings, -(-words // INVOCATIONS))


def _scratch(draft: Draft[Problem], slots: int) -> tuple[str, int, Iterator[tuple[int, int]]]:
    """A buffer of scores [block, span], its span, and the blocks of flattened query rows: the first, how many."""
    problem = draft.problem
    span = max(1, slots)
    flat_rows = problem.batch * problem.heads * problem.rows
    block = max(1, min(flat_rows, min(SCORES_BYTES, draft.limits.binding_bytes) // (4 * span)))
    name = draft.room("scores", 4 * block * span)
    blocks = ((first, min(block, flat_rows - first)) for first in range(0, flat_rows, block))
    return name, span, blocks


def _score(
    draft: Draft[Problem],
    given: Operands,
    visible: str,
    scores: str,
    span: int,
    block: tuple[int, int],
    *,
    softcap: float,
    masked: bool,
) -> None:
    problem = draft.problem
    first_row, rows = block
    params = {"span": span, "heads": problem.heads, "rows": problem.rows, "head_group": problem.group}
    params |= {"head_dim": problem.head_dim, "first_row": first_row, "total": rows * span}
    params |= given.query.place("query") | given.key.strides("key")
    bias = given.bias.params if masked else given.bias.params | {"masked": 0}
    scaling = {"scale": problem.scale, "softcap": softcap}
    bindings = (visible, given.query.buffer, given.key.buffer, scores, given.bias.buffer)
    workgroups = -(-rows * span // INVOCATIONS)
    draft.dispatch("naive_scores", {"elem": draft.elem}, params | bias | scaling, bindings, workgroups)


def _soften(draft: Draft[Problem], given: Operands, scores: str, span: int, block: tuple[int, int]) -> None:
    problem = draft.problem
    first_row, rows = block
    params = {"span": span, "heads": problem.heads, "rows": problem.rows, "first_row": first_row, "block": rows}
    meaning = given.sinks.params | {"mean": int(problem.averages_empty_rows)}
    bindings = (given.visible, scores, given.sinks.buffer)
    draft.dispatch("naive_softmax", {}, params | meaning, bindings, rows)
