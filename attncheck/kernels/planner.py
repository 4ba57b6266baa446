"""From a Problem to a Plan: which buffers, which dispatches. Pure but for reading the shaders' text."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from attncheck.kernels import bias, naive, online
from attncheck.kernels.draft import ELEMENTS, INVOCATIONS, Draft, Limits, View, itemsize
from attncheck.kernels.plan import Buffer, Plan
from attncheck.kernels.visible import visible_rows
from attncheck.problem import Problem, Tensor

MAX_HEAD_DIM = 256
MAX_KEYS = 1 << 18
"""Keys whose loops in the naive shaders stay below LOOP_ROUNDS."""


def plan(problem: Problem, kernel: str, limits: Limits, shaders: Path) -> Plan:
    """The plan that computes every output of `problem` with `kernel`, "naive" or "online", from a folder of shaders.

    The problem is one that `refusal` lets pass. Raises ShaderError when a shader is missing or breaks its contract.
    """
    draft = Draft(problem, limits, shaders)
    visible = draft.constant("visible", visible_rows(problem))
    query = _query(draft)
    key = _present(draft, "key", problem.key, problem.past_key, problem.present_key, problem.head_dim)
    value = _present(draft, "value", problem.value, problem.past_value, problem.present_value, problem.v_head_dim)
    operands = naive.Operands(visible, query, key, value, bias.masks(draft), bias.sinks(draft))
    output = draft.tensor(problem.output, problem.heads, problem.rows, problem.v_head_dim, output=True)
    {"naive": naive.attend, "online": online.attend}[kernel](draft, operands, output)
    if problem.scores is not None:
        naive.give_scores(draft, operands, problem.scores)
    return draft.finish(kernel)


def refusal(problem: Problem, limits: Limits) -> str | None:
    """Why these kernels cannot compute the problem on such an adapter, or None."""
    if problem.invalid:
        return f"the operator forbids this graph: {problem.invalid}"
    if problem.dtype not in ELEMENTS:
        return f"dtype {problem.dtype}: the kernels compute {' and '.join(ELEMENTS)}"
    if problem.dtype == "float16" and not limits.f16:
        return "dtype float16: the adapter has no f16 (WebGPU feature shader-f16)"
    for name, dim in (("head_dim", problem.head_dim), ("v_head_dim", problem.v_head_dim)):
        if dim > MAX_HEAD_DIM:
            return f"{name} {dim}: the kernels go up to {MAX_HEAD_DIM}"
    if max(problem.kv_len) > MAX_KEYS:
        return f"kv_len {max(problem.kv_len)}: the kernels go up to {MAX_KEYS} keys"
    for tensor, nbytes in _largest_bindings(problem).items():
        if nbytes > limits.binding_bytes:
            return f"{tensor} takes {nbytes} bytes, and the adapter binds at most {limits.binding_bytes} at a time"
    return None


def _query(draft: Draft) -> View:
    """The queries in f32, turned where the problem says so."""
    problem = draft.problem
    given = draft.tensor(problem.query, problem.heads, problem.rows, problem.head_dim)
    if problem.norm is not None:
        given = _normalise(draft, "query", given, problem.q_len, problem.norm.query, problem.norm.query_epsilon)
    if problem.rotary is None and draft.elem == "f32" and given.held == given.heads:
        return given
    staged = draft.scratch("staged query", "f32", problem.heads, problem.rows, problem.head_dim)
    extents = draft.constant("query extents", np.array([(0, q_len) for q_len in problem.q_len], np.int32))
    _store(draft, extents, given, staged, "f32", turn=problem.rotary is not None)
    return staged


def _present(draft: Draft, role: str, new: Tensor, past: Tensor | None, present: Tensor | None, dim: int) -> View:
    """All slots of keys or values: past rows, then new ones; new keys are normalised and turned where that is asked."""
    problem = draft.problem
    if present is not None and problem.evicts is None:
        slots = draft.tensor(present, problem.kv_heads, problem.capacity, dim, output=True)
    else:
        slots = draft.scratch(f"present {role}", draft.elem, problem.kv_heads, problem.capacity, dim)
    if past is not None and any(problem.past_len):
        rows = draft.tensor(past, problem.kv_heads, problem.past_capacity, dim)
        firsts = zip(problem.past_first, problem.past_len, strict=True)
        extents = draft.constant("past extents", np.array([(first, end - first) for first, end in firsts], np.int32))
        _store(draft, extents, rows, slots, draft.elem, turn=False)
    rows = draft.tensor(new, problem.kv_heads, problem.new_rows, dim)
    if role == "key" and problem.norm is not None:
        rows = _normalise(draft, role, rows, problem.new_len, problem.norm.key, problem.norm.key_epsilon)
    appended = np.array(list(zip(problem.past_len, problem.new_len, strict=True)), np.int32)
    extents = draft.constant("new extents", appended)
    _store(draft, extents, rows, slots, draft.elem, turn=role == "key" and problem.rotary is not None)
    if present is not None and problem.evicts is not None:
        _evict(draft, slots, present, dim)
    return slots


def _normalise(draft: Draft, role: str, rows: View, lengths: tuple[int, ...], gain: str, epsilon: float) -> View:
    """New queries or keys after their RMS normalisation, in the dtype of the problem."""
    normed = draft.scratch(f"normed {role}", draft.elem, rows.heads, rows.rows, rows.dim)
    draft.buffers[gain] = Buffer(gain, rows.dim * itemsize(draft.elem), input=gain)
    extents = draft.constant(f"{role} rows", np.array([(0, length) for length in lengths], np.int32))
    total = draft.problem.batch * rows.heads * rows.rows
    params = {"total": total, "heads": rows.heads, "rows": rows.rows, "dim": rows.dim, "source_first": rows.first}
    params |= rows.strides("source")
    bindings = (extents, gain, rows.buffer, normed.buffer)
    draft.dispatch("norm", {"elem": draft.elem}, params | {"epsilon": epsilon}, bindings, -(-total // INVOCATIONS))
    return normed


def _evict(draft: Draft, slots: View, present: Tensor, dim: int) -> None:
    """Give out the slots that the present buffers hold."""
    problem = draft.problem
    given = draft.tensor(present, problem.kv_heads, problem.present_capacity, dim, output=True)
    firsts = zip(problem.present_first, problem.kv_len, strict=True)
    extents = draft.constant("kept extents", np.array([(first, end - first) for first, end in firsts], np.int32))
    total = problem.batch * given.heads * given.rows * dim
    params = {"total": total, "heads": given.heads, "rows": given.rows, "dim": dim}
    params |= slots.strides("slot") | given.strides("present")
    bindings = (extents, slots.buffer, given.buffer)
    draft.dispatch("evict", {"elem": draft.elem}, params, bindings, -(-total // INVOCATIONS))


def _store(draft: Draft, extents: str, source: View, slots: View, stored: str, *, turn: bool) -> None:
    """Store the valid rows of `source` in consecutive slots, as `stored`, turned by rotary or as they are."""
    total = draft.problem.batch * source.heads * source.rows * source.dim
    copying = {"total": total, "heads": source.heads, "rows": source.rows, "dim": source.dim}
    copying |= source.strides("source") | slots.strides("slot")
    copying |= {"source_first": source.first}
    aliases = {"elem": draft.elem, "stored": stored}
    groups = -(-total // INVOCATIONS)
    rotary = draft.problem.rotary
    if not turn or rotary is None:
        draft.dispatch("append", aliases, copying, (extents, source.buffer, slots.buffer), groups)
        return
    turning = {
        "rotary_dim": rotary.dim,
        "interleaved": int(rotary.style == "interleaved"),
        "positions_batch": rotary.positions.shape[1],
    }
    positions = draft.constant("positions", rotary.positions)
    for cache in (rotary.cos, rotary.sin):
        rows_read = int(rotary.positions.max(initial=0)) + 1
        draft.buffers[cache] = Buffer(cache, rows_read * (rotary.dim // 2) * itemsize(draft.elem), input=cache)
    bindings = (extents, positions, rotary.cos, rotary.sin, source.buffer, slots.buffer)
    draft.dispatch("rotary", aliases, copying | turning, bindings, groups)


def _largest_bindings(problem: Problem) -> dict[str, int]:
    """Bytes of the buffers that grow with the problem and cannot be split."""
    element = itemsize(ELEMENTS[problem.dtype])
    query_rows = problem.batch * problem.heads * problem.rows
    members = problem.batch * problem.kv_heads
    slots = members * problem.capacity
    score_slots = problem.scores.slots if problem.scores else 0
    return {
        "the query in float32": 4 * query_rows * problem.head_dim,
        "the output": element * query_rows * problem.v_head_dim,
        "the present key": element * slots * problem.head_dim,
        "the present value": element * slots * problem.v_head_dim,
        "the state between dispatches": 4 * (query_rows + online.ROWS * members) * (2 + problem.v_head_dim),
        "one row of scores": 4 * problem.capacity,
        "the combination of all masks": 4 * math.prod(bias.shape(problem)) if problem.masks else 0,
        "the score output": element * query_rows * score_slots,
    }
