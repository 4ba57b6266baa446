"""From a Problem to a Plan: which buffers, which dispatches. Pure but for reading the shaders' text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attncheck.kernels.draft import ELEMENTS, Draft, Limits, View, itemsize, own
from attncheck.kernels.plan import Buffer, Plan
from attncheck.problem import Problem, Tensor

INVOCATIONS = 64
"""Workgroup size of the shaders that take an element an invocation."""

OUTPUT_DIMS = 8
"""DIMS of naive_output.wgsl."""

ONLINE_INVOCATIONS, ONLINE_ROWS, ONLINE_KEYS = 64, 8, 32
"""LANES, ROWS and KEYS of online.wgsl."""

LOOP_ROUNDS = 60_000
"""Most rounds of all loops of one invocation together: llvmpipe silently ends them after 65,535."""

MAX_HEAD_DIM = 256
MAX_KEYS = 1 << 18
"""Keys whose loops in the naive shaders stay below LOOP_ROUNDS."""

SCORES_BYTES = 32 << 20
"""Most bytes of scores that the naive kernel materialises at a time."""


def plan(problem: Problem, kernel: str, limits: Limits, shaders: Path) -> Plan:
    """The plan that computes every output of `problem` with `kernel`, "naive" or "online", from a folder of shaders.

    The problem is one that `refusal` lets pass. Raises ShaderError when a shader is missing or breaks its contract.
    """
    draft = Draft(problem, limits, shaders)
    visible = draft.constant("visible", visible_rows(problem))
    query = _query(draft)
    key = _present(draft, "key", problem.key, problem.past_key, problem.present_key, problem.head_dim)
    value = _present(draft, "value", problem.value, problem.past_value, problem.present_value, problem.v_head_dim)
    output = draft.tensor(problem.output, problem.heads, problem.rows, problem.v_head_dim, output=True)
    attention = {"naive": _naive, "online": _online}[kernel]
    attention(draft, visible, query, key, value, output)
    return draft.finish(kernel)


def visible_rows(problem: Problem) -> NDArray[np.int32]:
    """int32 [batch, rows, 3]: every query row sees the slots [lo, hi); `even` not 0: it weighs them all the same.

    Rows beyond q_len see nothing; a row without a key sees all keys evenly where the problem gives it their mean.
    """
    rows = np.zeros((problem.batch, problem.rows, 3), np.int32)
    rows[..., :2] = np.maximum(problem.visible, 0)
    empty = rows[..., 0] >= rows[..., 1]
    rows[empty] = 0
    if problem.empty_row == "mean":
        every_key = [(0, kv_len, 1) for kv_len in problem.kv_len]
        rows = np.where(empty[..., None], np.array(every_key, np.int32)[:, None], rows)
    beyond = np.arange(problem.rows) >= np.array(problem.q_len)[:, None]
    rows[beyond] = 0
    return rows


def refusal(problem: Problem, limits: Limits) -> str | None:
    """Why these kernels cannot compute the problem on such an adapter, or None."""
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
    if problem.rotary is None and draft.elem == "f32":
        return given
    staged = draft.scratch("staged query", "f32", problem.heads, problem.rows, problem.head_dim)
    extents = draft.constant("query extents", np.array([(0, q_len) for q_len in problem.q_len], np.int32))
    _store(draft, extents, given, staged, "f32", turn=problem.rotary is not None)
    return staged


def _present(draft: Draft, role: str, new: Tensor, past: Tensor | None, present: Tensor | None, dim: int) -> View:
    """The present keys or values: past rows, then new ones; new keys are turned where the problem says so."""
    problem = draft.problem
    if present is not None:
        slots = draft.tensor(present, problem.kv_heads, problem.capacity, dim, output=True)
    else:
        slots = draft.scratch(f"present {role}", draft.elem, problem.kv_heads, problem.capacity, dim)
    if past is not None and any(problem.past_len):
        rows = draft.tensor(past, problem.kv_heads, problem.past_capacity, dim)
        extents = draft.constant("past extents", np.array([(0, past_len) for past_len in problem.past_len], np.int32))
        _store(draft, extents, rows, slots, draft.elem, turn=False)
    rows = draft.tensor(new, problem.kv_heads, problem.new_rows, dim)
    appended = np.array(list(zip(problem.past_len, problem.new_len, strict=True)), np.int32)
    extents = draft.constant("new extents", appended)
    _store(draft, extents, rows, slots, draft.elem, turn=role == "key" and problem.rotary is not None)
    return slots


def _store(draft: Draft, extents: str, source: View, slots: View, stored: str, *, turn: bool) -> None:
    """Store the valid rows of `source` in consecutive slots, as `stored`, turned by rotary or as they are."""
    total = draft.problem.batch * source.heads * source.rows * source.dim
    copying = {"total": total, "heads": source.heads, "rows": source.rows, "dim": source.dim}
    copying |= source.strides("source") | slots.strides("slot")
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


def _naive(draft: Draft, visible: str, query: View, key: View, value: View, output: View) -> None:
    """Scores of a block of query rows, their softmax, the weighted sum; block after block in one scratch buffer."""
    problem = draft.problem
    elem = {"elem": draft.elem}
    span = max(1, int(visible_rows(problem)[..., 1].max(initial=0)))
    flat_rows = problem.batch * problem.heads * problem.rows
    block = max(1, min(flat_rows, min(SCORES_BYTES, draft.limits.binding_bytes) // (4 * span)))
    scores = own("scores")
    draft.buffers[scores] = Buffer(scores, 4 * block * span)

    grouping = {"span": span, "heads": problem.heads, "rows": problem.rows}
    dotting = grouping | {"head_group": problem.group, "head_dim": problem.head_dim}
    dotting |= query.strides("query") | key.strides("key")
    scaling = {"scale": problem.scale, "softcap": problem.softcap}
    summing = grouping | {"head_group": problem.group, "v_head_dim": problem.v_head_dim}
    summing |= value.strides("value") | output.strides("output")

    for first_row in range(0, flat_rows, block):
        rows = min(block, flat_rows - first_row)
        place = {"first_row": first_row, "total": rows * span}
        bindings = (visible, query.buffer, key.buffer, scores)
        draft.dispatch("naive_scores", elem, dotting | scaling | place, bindings, -(-rows * span // INVOCATIONS))
        place = {"first_row": first_row, "block": rows}
        draft.dispatch("naive_softmax", {}, grouping | place, (visible, scores), rows)
        bindings = (visible, scores, value.buffer, output.buffer)
        workgroups = rows * -(-problem.v_head_dim // OUTPUT_DIMS)
        draft.dispatch("naive_output", elem, summing | place, bindings, workgroups)


def _online(draft: Draft, visible: str, query: View, key: View, value: View, output: View) -> None:
    """Every tile of query rows goes once over the keys that it sees, in as many dispatches as the loops allow."""
    problem = draft.problem
    tiles = problem.batch * problem.kv_heads * -(-problem.group * problem.rows // ONLINE_ROWS)
    params: dict[str, int | float] = {
        "tiles": tiles,
        "kv_heads": problem.kv_heads,
        "head_group": problem.group,
        "rows": problem.rows,
        "head_dim": problem.head_dim,
        "v_head_dim": problem.v_head_dim,
        "scale": problem.scale,
        "softcap": problem.softcap,
    }
    params |= query.strides("query") | key.strides("key") | value.strides("value") | output.strides("output")
    sections = _key_sections(problem)
    state = own("online state")
    draft.buffers[state] = Buffer(state, 4 * tiles * ONLINE_ROWS * (2 + problem.v_head_dim))
    bindings = (visible, query.buffer, key.buffer, value.buffer, state, output.buffer)
    for first, end in sections:
        resume, finish = int(first > sections[0][0]), int(end == sections[-1][1])
        place = {"first_slot": first, "end_slot": end, "resume": resume, "finish": finish}
        draft.dispatch("online", {"elem": draft.elem}, params | place, bindings, tiles)


def _key_sections(problem: Problem) -> list[tuple[int, int]]:
    """The visible slots, cut into sections [first, end) that one dispatch of online.wgsl covers within LOOP_ROUNDS."""
    scoring = ONLINE_ROWS * ONLINE_KEYS // ONLINE_INVOCATIONS * (1 + problem.head_dim)
    advancing = 2 * ONLINE_KEYS
    adding = -(-ONLINE_ROWS * problem.v_head_dim // ONLINE_INVOCATIONS) * (1 + ONLINE_KEYS)
    section = LOOP_ROUNDS // (1 + scoring + advancing + adding) * ONLINE_KEYS
    rows = visible_rows(problem)
    sees = rows[..., 0] < rows[..., 1]
    lowest = int(rows[..., 0].min(where=sees, initial=problem.capacity))
    highest = int(rows[..., 1].max(initial=0))
    return [(first, min(first + section, highest)) for first in range(lowest, highest, section)] or [(0, 0)]


def _largest_bindings(problem: Problem) -> dict[str, int]:
    """Bytes of the buffers that grow with the problem and cannot be split."""
    element = itemsize(ELEMENTS[problem.dtype])
    query_rows = problem.batch * problem.heads * problem.rows
    members = problem.batch * problem.kv_heads
    slots = members * problem.capacity
    return {
        "the query in float32": 4 * query_rows * problem.head_dim,
        "the output": element * query_rows * problem.v_head_dim,
        "the present key": element * slots * problem.head_dim,
        "the present value": element * slots * problem.v_head_dim,
        "the state between dispatches": 4 * (query_rows + ONLINE_ROWS * members) * (2 + problem.v_head_dim),
        "one row of scores": 4 * problem.capacity,
    }
