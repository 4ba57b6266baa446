"""The plan of attention: queries and the present buffers, then one of the kernels over them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from attncheck.kernels import bias, naive, online, projection
from attncheck.kernels.draft import ELEMENTS, INVOCATIONS, Draft, View, itemsize
from attncheck.kernels.operands import Operands
from attncheck.kernels.plan import Buffer
from attncheck.kernels.roster import ROSTER
from attncheck.kernels.scattered import gathered, given_out
from attncheck.kernels.store import store
from attncheck.kernels.visible import visible_rows
from attncheck.problem import Problem, Tensor

MAX_HEAD_DIM = 256
MAX_KEYS = 1 << 18
"""Keys whose loops in the naive shaders stay below LOOP_ROUNDS."""

MAX_FACTOR = 2.0**100
"""Of scores: beyond, they and what stands for a hidden key would not be told apart, or float32 would not hold them."""


def draw(draft: Draft[Problem], kernel: str) -> None:
    """Every output of the problem, with `kernel`, a name in ROSTER that covers it."""
    problem = draft.problem
    query = _query(draft, as_given=ROSTER[kernel].as_given)
    key, value = _presents(draft)
    sinks = bias.sinks(draft)
    scattered = problem.output.scattered
    output = _output(draft)
    for first, rows in bias.blocks(problem):
        block = replace(draft, problem=rows)
        visible = block.constant(f"visible from {first}" if first else "visible", visible_rows(rows))
        operands = Operands(visible, query.from_row(first), key, value, bias.masks(block, first), sinks)
        ROSTER[kernel].attend(block, operands, output.from_row(first))
        if rows.scores is not None:
            naive.give_scores(block, replace(operands, query=_in_float32(block, operands.query)), rows.scores)
    if scattered is not None:
        given_out(draft, output, problem.output, scattered)


def refusal(problem: Problem) -> str | None:
    """Why these kernels cannot compute the problem on any adapter, or None."""
    if problem.quantised is not None:
        return "a KV cache of integers: the kernels read past buffers in the dtype of the case"
    if problem.rotary is not None and problem.rotary.base and problem.dtype != "float32":
        return f"rotary of computed angles in {problem.dtype}: the kernels would round their sines to it"
    if problem.beams is not None:
        return "beams: the kernels read the past of an entry's own, and keep one copy of it for reading and present"
    for name, dim in (("head_dim", problem.head_dim), ("v_head_dim", problem.v_head_dim)):
        if dim > MAX_HEAD_DIM:
            return f"{name} {dim}: the kernels go up to {MAX_HEAD_DIM}"
    if problem.projection is not None and problem.projection.width > projection.MAX_WIDTH:
        return f"rows of {problem.projection.width} elements to project: the kernels go up to {projection.MAX_WIDTH}"
    if max(problem.kv_len) > MAX_KEYS:
        return f"kv_len {max(problem.kv_len)}: the kernels go up to {MAX_KEYS} keys"
    return _too_steep(problem)


def _too_steep(problem: Problem) -> str | None:
    """A factor of scores beyond MAX_FACTOR, or None."""
    factors = {"scale": abs(problem.scale), "softcap": problem.softcap}
    if problem.softcap:
        factors["scale / softcap"] = abs(problem.scale) / problem.softcap
    for name, factor in factors.items():
        if factor > MAX_FACTOR:
            return f"{name} {factor:g}: the kernels go up to {MAX_FACTOR:g}"
    return None


def divided(problem: Problem) -> str | None:
    """Why its keys and values cannot be bound in parts, or None."""
    if problem.scores is not None:
        return "scores are given out"
    if problem.evicts is not None:
        return "the present keeps a window of the slots alone"
    for tensor in (problem.past_key, problem.past_value, problem.present_key, problem.present_value):
        if tensor is not None and tensor.scattered is not None:
            return "the cache lies in pages"
    for tensor in (problem.past_key, problem.past_value, problem.present_key, problem.present_value):
        if tensor is not None and tensor.layout not in {"bnsh", "pbnsh"}:
            return f"a layout of the cache is {tensor.layout}"
    for tensor in (problem.present_key, problem.present_value):
        if tensor is not None and not _is_own(problem, tensor):
            return "past and present keys and values share their arrays"
    return None


def bindings(problem: Problem) -> dict[str, int]:
    """Bytes of the bindings that grow with the problem: of keys and values one head's, where they can be divided."""
    element = itemsize(ELEMENTS[problem.dtype])
    query_rows = problem.batch * problem.heads * problem.rows
    members = problem.batch * problem.kv_heads
    slots = problem.capacity * (members if divided(problem) else 1)
    what = "the present " if divided(problem) else "a head of the present "
    as_given = problem.norm is None and problem.projection is None and problem.key.scattered is None
    entries, fresh = (1, "an entry's new ") if as_given else (problem.batch, "the new ")
    score_slots = problem.scores.slots if problem.scores else 0
    return {
        "the query in float32": 4 * query_rows * problem.head_dim,
        "the output": element * query_rows * problem.v_head_dim,
        f"{what}key": element * slots * problem.head_dim,
        f"{what}value": element * slots * problem.v_head_dim,
        f"{fresh}keys": element * entries * _new(problem, problem.key, problem.head_dim),
        f"{fresh}values": element * entries * _new(problem, problem.value, problem.v_head_dim),
        "the state between dispatches": 4 * (query_rows + online.ROWS * members) * (2 + problem.v_head_dim),
        "one row of scores": 4 * problem.capacity,
        "a mask": max((bias.given_bytes(mask, ELEMENTS[problem.dtype]) for mask in problem.masks), default=0),
        "the combination of all masks": bias.nbytes(problem),
        "the projection's weights": element * projection.elements(problem),
        "the pages of keys": element * _pages(problem.past_key),
        "the score output": element * query_rows * score_slots,
    }


def buffers(problem: Problem) -> dict[str, int]:
    """Bytes of the buffers of which parts may be bound."""
    element = itemsize(ELEMENTS[problem.dtype]) * problem.batch * problem.kv_heads
    packed = 2 if problem.past_key is not None and problem.past_key.layout == "pbnsh" else 1
    return {
        "the present key": element * problem.capacity * problem.head_dim,
        "the present value": element * problem.capacity * problem.v_head_dim,
        "the past": element * packed * problem.past_capacity * max(problem.head_dim, problem.v_head_dim),
    }


def _new(problem: Problem, given: Tensor, dim: int) -> int:
    """Elements of the new keys or values of one batch entry, with what is packed beside them."""
    return problem.new_rows * (given.packed or problem.kv_heads) * dim


def _pages(past: Tensor | None) -> int:
    """Elements of a cache in pages, 0 of any other."""
    return 0 if past is None or past.scattered is None else math.prod(past.scattered.shape)


def _output(draft: Draft[Problem]) -> View:
    """Where the output goes: to the graph's own, or to rows of their own that are scattered afterwards."""
    problem = draft.problem
    shape = (problem.heads, problem.rows, problem.v_head_dim)
    if problem.output.scattered is not None:
        return draft.scratch("output rows", draft.elem, *shape)
    return draft.tensor(problem.output, *shape, output=True)


def _past(draft: Draft[Problem], role: str, past: Tensor, dim: int) -> View:
    problem = draft.problem
    if past.scattered is not None:
        return gathered(draft, f"past {role}", past, past.scattered, problem.kv_heads, dim)
    return draft.tensor(past, problem.kv_heads, problem.past_capacity, dim)


def _query(draft: Draft[Problem], *, as_given: bool) -> View:
    """The queries as a kernel reads them, turned where the problem says so."""
    problem = draft.problem
    given = projection.rows(draft, "query", problem.query, problem.heads, problem.rows, problem.head_dim)
    if problem.norm is not None:
        given = _normalise(draft, "query", given, problem.q_len, problem.norm.query, problem.norm.query_epsilon)
    if problem.rotary is not None:
        return _staged(draft, given, "f32")
    if not as_given:
        return _in_float32(draft, given)
    fits = draft.buffers[given.buffer].nbytes <= draft.limits.binding_bytes
    return given if fits else _staged(draft, given, given.elem)


def _in_float32(draft: Draft[Problem], query: View) -> View:
    """The queries in float32, alone in their buffer."""
    return query if query.elem == "f32" and query.held == query.heads else _staged(draft, query, "f32")


def _staged(draft: Draft[Problem], query: View, elem: str) -> View:
    """The queries in a buffer of their own, turned where the problem says so."""
    problem = draft.problem
    staged = draft.scratch(f"query in {elem}", elem, problem.heads, problem.rows, problem.head_dim)
    extents = draft.constant("query extents", np.array([(0, q_len) for q_len in problem.q_len], np.int32))
    store(draft, extents, query, staged, problem.rotary)
    return staged


def _presents(draft: Draft[Problem]) -> tuple[View, View]:
    """All slots of keys and values: past rows of both in one pass, then new ones, keys normalised and turned."""
    problem = draft.problem
    key = _slots(draft, "key", problem.present_key, problem.head_dim)
    value = _slots(draft, "value", problem.present_value, problem.v_head_dim)
    if problem.past_key is not None and problem.past_value is not None and any(problem.past_len):
        rows = _past(draft, "key", problem.past_key, problem.head_dim)
        beside = _past(draft, "value", problem.past_value, problem.v_head_dim)
        firsts = zip(problem.past_first, problem.past_len, strict=True)
        extents = draft.constant("past extents", np.array([(first, end - first) for first, end in firsts], np.int32))
        store(draft, extents, rows, key, beside=(beside, value))
    rows = projection.rows(draft, "key", problem.key, problem.kv_heads, problem.new_rows, problem.head_dim)
    beside = projection.rows(draft, "value", problem.value, problem.kv_heads, problem.new_rows, problem.v_head_dim)
    if problem.norm is not None:
        rows = _normalise(draft, "key", rows, problem.new_len, problem.norm.key, problem.norm.key_epsilon)
    appended = np.array(list(zip(problem.past_len, problem.new_len, strict=True)), np.int32)
    extents = draft.constant("new extents", appended)
    store(draft, extents, rows, key, problem.rotary, beside=(beside, value))
    _give_present(draft, key, problem.present_key, problem.past_key)
    _give_present(draft, value, problem.present_value, problem.past_value)
    return key, value


def _slots(draft: Draft[Problem], role: str, present: Tensor | None, dim: int) -> View:
    """Where keys or values lie: in the graph's own output, or in a buffer that only kernels see."""
    problem = draft.problem
    if present is not None and _is_own(problem, present):
        return draft.tensor(present, problem.kv_heads, problem.capacity, dim, output=True)
    return draft.scratch(f"present {role}", draft.elem, problem.kv_heads, problem.capacity, dim)


def _is_own(problem: Problem, present: Tensor) -> bool:
    """Whether kernels read and write keys and values in the present output itself."""
    return present.layout == "bnsh" and problem.evicts is None


def _give_present(draft: Draft[Problem], slots: View, present: Tensor | None, past: Tensor | None) -> None:
    if present is not None and present.scattered is not None:
        given_out(draft, slots, present, present.scattered, past)
    elif present is not None and not _is_own(draft.problem, present):
        _give_out(draft, slots, present, slots.dim)


def _normalise(
    draft: Draft[Problem], role: str, rows: View, lengths: tuple[int, ...], gain: str, epsilon: float
) -> View:
    """New queries or keys after their RMS normalisation, in the dtype of the problem."""
    normed = draft.scratch(f"normed {role}", draft.elem, rows.heads, rows.rows, rows.dim)
    draft.buffers[gain] = Buffer(gain, rows.dim * itemsize(draft.elem), input=gain)
    extents = draft.constant(f"{role} rows", np.array([(0, length) for length in lengths], np.int32))
    total = draft.problem.batch * rows.heads * rows.rows
    params = {"total": total, "heads": rows.heads, "rows": rows.rows, "dim": rows.dim} | rows.place("source")
    bindings = (extents, gain, rows.buffer, normed.buffer)
    draft.dispatch("norm", {"elem": draft.elem}, params | {"epsilon": epsilon}, bindings, -(-total // INVOCATIONS))
    return normed


def _give_out(draft: Draft[Problem], slots: View, present: Tensor, dim: int) -> None:
    """Give out the slots that the present buffers hold."""
    problem = draft.problem
    given = draft.tensor(present, problem.kv_heads, problem.present_capacity, dim, output=True)
    firsts = zip(problem.present_first, problem.kv_len, strict=True)
    extents = draft.constant("kept extents", np.array([(first, end - first) for first, end in firsts], np.int32))
    total = problem.batch * given.heads * given.rows * dim
    params = {"total": total, "heads": given.heads, "rows": given.rows, "dim": dim}
    params |= slots.strides("slot") | given.place("present")
    bindings = (extents, slots.buffer, given.buffer)
    draft.dispatch("evict", {"elem": draft.elem}, params, bindings, -(-total // INVOCATIONS))
