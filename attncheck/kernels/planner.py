"""From a Problem to a Plan: which buffers, which dispatches. Pure but for reading the shaders' text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attncheck.kernels import uniforms
from attncheck.kernels.plan import Buffer, Dispatch, Plan
from attncheck.problem import Layout, Problem, Tensor

INVOCATIONS = 64
"""Workgroup size of every shader."""

SHADERS = ("append", "rotary", "naive_scores", "naive_softmax", "naive_output", "online")
"""Every shader that a plan may name."""

MAX_HEAD_DIM = 256
ONLINE_ROWS = 8
"""Packed query rows of a tile in online.wgsl."""

SCORES_BYTES = 32 << 20
"""Most bytes of scores that the naive kernel materialises at a time."""

ELEMENTS = {"float32": "f32", "float16": "f16"}
"""ONNX dtype -> WGSL scalar."""


@dataclass(frozen=True)
class Limits:
    """What an adapter allows: bytes of tensor in one binding, workgroups in one dimension, whether it has f16."""

    binding_bytes: int
    workgroups: int
    f16: bool


@dataclass(frozen=True)
class _View:
    """A tensor [batch, heads, rows, dim] in a buffer of the plan."""

    buffer: str
    layout: Layout
    heads: int
    rows: int
    dim: int

    def strides(self, role: str) -> dict[str, int]:
        """The uniforms that address it, in elements."""
        if self.layout == "bnsh":
            head, row = self.rows * self.dim, self.dim
        else:
            head, row = self.dim, self.heads * self.dim
        return {f"{role}_batch": self.heads * self.rows * self.dim, f"{role}_head": head, f"{role}_row": row}


@dataclass
class _Draft:
    """A plan in the making."""

    problem: Problem
    limits: Limits
    shaders: Path
    buffers: dict[str, Buffer] = field(default_factory=dict)
    dispatches: list[Dispatch] = field(default_factory=list)
    sources: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def elem(self) -> str:
        return ELEMENTS[self.problem.dtype]

    def tensor(self, tensor: Tensor, heads: int, rows: int, dim: int, *, output: bool = False) -> _View:
        """A graph input or output of the problem's dtype."""
        nbytes = self.problem.batch * heads * rows * dim * _itemsize(self.elem)
        source, target = (None, tensor.name) if output else (tensor.name, None)
        self.buffers[tensor.name] = Buffer(tensor.name, nbytes, input=source, output=target)
        return _View(tensor.name, tensor.layout, heads, rows, dim)

    def scratch(self, role: str, elem: str, heads: int, rows: int, dim: int) -> _View:
        """A tensor that only kernels see."""
        name = _own(role)
        self.buffers[name] = Buffer(name, self.problem.batch * heads * rows * dim * _itemsize(elem))
        return _View(name, "bnsh", heads, rows, dim)

    def constant(self, role: str, values: NDArray[np.int32]) -> str:
        """A small buffer of integers, filled by the plan."""
        name = _own(role)
        content = np.ascontiguousarray(values, dtype="<i4").tobytes()
        self.buffers[name] = Buffer(name, len(content), content=content)
        return name

    def dispatch(
        self,
        shader: str,
        aliases: Mapping[str, str],
        params: Mapping[str, int | float],
        bindings: tuple[str, ...],
        workgroups: int,
    ) -> None:
        """Append one dispatch of `workgroups` workgroups."""
        if workgroups == 0:
            return
        if shader not in self.sources:
            self.sources[shader] = read_shader(self.shaders, shader)
        packed = uniforms.pack(*self.sources[shader], params)
        grid = fold(workgroups, self.limits.workgroups)
        self.dispatches.append(Dispatch(shader, prelude(aliases), packed, bindings, grid))


def plan(problem: Problem, kernel: str, limits: Limits, shaders: Path) -> Plan:
    """The plan that computes every output of `problem` with `kernel`, "naive" or "online", from a folder of shaders.

    The problem is one that `refusal` lets pass. Raises ShaderError when a shader is missing or breaks its contract.
    """
    draft = _Draft(problem, limits, shaders)
    visible = draft.constant("visible", visible_rows(problem))
    query = _query(draft)
    key = _present(draft, "key", problem.key, problem.past_key, problem.present_key, problem.head_dim)
    value = _present(draft, "value", problem.value, problem.past_value, problem.present_value, problem.v_head_dim)
    output = draft.tensor(problem.output, problem.heads, problem.rows, problem.v_head_dim, output=True)
    attention = {"naive": _naive, "online": _online}[kernel]
    attention(draft, visible, query, key, value, output)
    return Plan(kernel, tuple(draft.buffers.values()), tuple(draft.dispatches), draft.sources)


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


def prelude(aliases: Mapping[str, str]) -> str:
    """The lines that go before a shader's text."""
    lines = ["enable f16;"] if "f16" in aliases.values() else []
    return "".join(line + "\n" for line in [*lines, *(f"alias {name} = {kind};" for name, kind in aliases.items())])


def fold(workgroups: int, most: int) -> tuple[int, int, int]:
    """A grid of at least `workgroups` workgroups with no dimension above `most`; shaders count them linearly."""
    x = min(workgroups, most)
    y = min(-(-workgroups // x), most)
    z = -(-workgroups // (x * y))
    return x, y, z


def read_shader(folder: Path, shader: str) -> tuple[str, str]:
    """A shader's text and its file."""
    file = folder / f"{shader}.wgsl"
    try:
        return file.read_text(encoding="utf-8"), str(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise uniforms.ShaderError(
            f"{file}: cannot read the shader: {reason}; a folder of shaders needs all of append, rotary, naive_scores, "
            "naive_softmax, naive_output and online.wgsl (copy the shipped ones, then edit)"
        ) from error


def refusal(problem: Problem, limits: Limits) -> str | None:
    """Why these kernels cannot compute the problem on such an adapter, or None."""
    if problem.dtype not in ELEMENTS:
        return f"dtype {problem.dtype}: the kernels compute {' and '.join(ELEMENTS)}"
    if problem.dtype == "float16" and not limits.f16:
        return "dtype float16: the adapter has no f16 (WebGPU feature shader-f16)"
    for name, dim in (("head_dim", problem.head_dim), ("v_head_dim", problem.v_head_dim)):
        if dim > MAX_HEAD_DIM:
            return f"{name} {dim}: the kernels go up to {MAX_HEAD_DIM}"
    for tensor, nbytes in _largest_bindings(problem).items():
        if nbytes > limits.binding_bytes:
            return f"{tensor} takes {nbytes} bytes, and the adapter binds at most {limits.binding_bytes} at a time"
    return None


def _query(draft: _Draft) -> _View:
    """The queries in f32, turned where the problem says so."""
    problem = draft.problem
    given = draft.tensor(problem.query, problem.heads, problem.rows, problem.head_dim)
    if problem.rotary is None and draft.elem == "f32":
        return given
    staged = draft.scratch("staged query", "f32", problem.heads, problem.rows, problem.head_dim)
    extents = draft.constant("query extents", np.array([(0, q_len) for q_len in problem.q_len], np.int32))
    _store(draft, extents, given, staged, "f32", turn=problem.rotary is not None)
    return staged


def _present(draft: _Draft, role: str, new: Tensor, past: Tensor | None, present: Tensor | None, dim: int) -> _View:
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


def _store(draft: _Draft, extents: str, source: _View, slots: _View, stored: str, *, turn: bool) -> None:
    """Store the valid rows of `source` in consecutive slots, as `stored`, turned by rotary or as they are."""
    total = draft.problem.batch * source.heads * source.rows * source.dim
    params = {"total": total, "heads": source.heads, "rows": source.rows, "dim": source.dim}
    params |= source.strides("source") | slots.strides("slot")
    aliases = {"elem": draft.elem, "stored": stored}
    groups = -(-total // INVOCATIONS)
    rotary = draft.problem.rotary
    if not turn or rotary is None:
        draft.dispatch("append", aliases, params, (extents, source.buffer, slots.buffer), groups)
        return
    params |= {"rotary_dim": rotary.dim, "interleaved": int(rotary.style == "interleaved")}
    params |= {"positions_batch": rotary.positions.shape[1]}
    positions = draft.constant("positions", rotary.positions)
    for cache in (rotary.cos, rotary.sin):
        rows = int(rotary.positions.max(initial=0)) + 1
        draft.buffers[cache] = Buffer(cache, rows * (rotary.dim // 2) * _itemsize(draft.elem), input=cache)
    bindings = (extents, positions, rotary.cos, rotary.sin, source.buffer, slots.buffer)
    draft.dispatch("rotary", aliases, params, bindings, groups)


def _naive(draft: _Draft, visible: str, query: _View, key: _View, value: _View, output: _View) -> None:
    """Scores of a block of query rows, their softmax, the weighted sum; block after block in one scratch buffer."""
    problem = draft.problem
    span = max(1, int(visible_rows(problem)[..., 1].max(initial=0)))
    flat_rows = problem.batch * problem.heads * problem.rows
    block = max(1, min(flat_rows, min(SCORES_BYTES, draft.limits.binding_bytes) // (4 * span)))
    scores = _own("scores")
    draft.buffers[scores] = Buffer(scores, 4 * block * span)
    elem = {"elem": draft.elem}
    for first_row in range(0, flat_rows, block):
        rows = min(block, flat_rows - first_row)
        common = {"first_row": first_row, "span": span, "heads": problem.heads, "rows": problem.rows}
        grouped = common | {"head_group": problem.group}
        scored = grouped | {"total": rows * span, "head_dim": problem.head_dim}
        scored |= query.strides("query") | key.strides("key")
        scaled = scored | {"scale": problem.scale, "softcap": problem.softcap}
        bindings = (visible, query.buffer, key.buffer, scores)
        draft.dispatch("naive_scores", elem, scaled, bindings, -(-rows * span // INVOCATIONS))
        draft.dispatch("naive_softmax", {}, common | {"block": rows}, (visible, scores), rows)
        total = rows * problem.v_head_dim
        summed = grouped | {"total": total, "v_head_dim": problem.v_head_dim}
        summed |= value.strides("value") | output.strides("output")
        bindings = (visible, scores, value.buffer, output.buffer)
        draft.dispatch("naive_output", elem, summed, bindings, -(-total // INVOCATIONS))


def _online(draft: _Draft, visible: str, query: _View, key: _View, value: _View, output: _View) -> None:
    """One dispatch: every tile of query rows goes once over the keys that it sees."""
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
    bindings = (visible, query.buffer, key.buffer, value.buffer, output.buffer)
    draft.dispatch("online", {"elem": draft.elem}, params, bindings, tiles)


def _largest_bindings(problem: Problem) -> dict[str, int]:
    """Bytes of the buffers that grow with the problem and cannot be split."""
    itemsize = _itemsize(ELEMENTS[problem.dtype])
    query_rows = problem.batch * problem.heads * problem.rows
    slots = problem.batch * problem.kv_heads * problem.capacity
    return {
        "the query in float32": 4 * query_rows * problem.head_dim,
        "the output": itemsize * query_rows * problem.v_head_dim,
        "the present key": itemsize * slots * problem.head_dim,
        "the present value": itemsize * slots * problem.v_head_dim,
        "one row of scores": 4 * problem.capacity,
    }


def _own(role: str) -> str:
    """A buffer's name that no graph input or output bears."""
    return f"[{role}]"


def _itemsize(elem: str) -> int:
    return 2 if elem == "f16" else 4

