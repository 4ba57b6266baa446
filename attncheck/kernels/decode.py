"""Decode attention: few query rows, a workgroup a slice of the keys, and a merge of what the slices gave."""

from __future__ import annotations

from dataclasses import dataclass

from attncheck.kernels.draft import Draft, Limits, View, itemsize
from attncheck.kernels.operands import Operands
from attncheck.kernels.slices import Slices, merge, row_bytes, sliced
from attncheck.problem import Problem

MOST_ROWS = 16
"""Query rows of one batch entry up to which it serves: more are a prefill."""

BLOCK = 256
"""Keys between two steps of the running maximum; slices are multiples of it."""

DIMS = (64, 128, 256)
"""What head dims are rounded up to, so that few pipelines serve all."""

SCRATCH = 0.02
"""Most bytes of partial results for a byte of keys and values in a full slice; a short last slice adds to it."""

SLICE_ROUNDS = 48_000
"""Most rounds of the loops of one invocation: llvmpipe silently ends them after 65,535."""


@dataclass(frozen=True)
class Form:
    """What decode.wgsl is specialised by."""

    width: int
    dim: int
    teams: int
    team: int

    @property
    def rows(self) -> int:
        """Query rows of a workgroup."""
        return 4 * self.teams

    @property
    def memory(self) -> int:
        """Bytes of workgroup memory."""
        parts = self.dim // self.width
        return 16 * self.teams * (4 * self.team // parts * (parts + 1) + BLOCK)

    @property
    def rounds(self) -> float:
        """Rounds of the loops of an invocation for a key, at most."""
        parts = self.dim // self.width
        tile = 4 * self.team // parts
        return (parts + 2) / tile + (tile + BLOCK // self.team + 1) / BLOCK


def lacks(problem: Problem, _: Limits) -> str | None:
    """It serves few query rows, whose keys and values can be read 16 bytes at a time."""
    if problem.rows > MOST_ROWS:
        return f"more than {MOST_ROWS} query rows"
    width = _width(problem)
    for name, dim in (("head_dim", problem.head_dim), ("v_head_dim", problem.v_head_dim)):
        if dim % width:
            return f"a {name} in {problem.dtype} that is no multiple of {width}"
    return None


def attend(draft: Draft[Problem], given: Operands, output: View) -> None:
    """The slices that any row goes over, then their merge."""
    problem = draft.problem
    form = form_of(problem, draft.limits)
    row_tiles = -(-problem.group * problem.rows // form.rows)
    slices = sliced(draft, slice_of(problem), row_tiles * form.rows)
    _split(draft, given, form, slices)
    merge(draft, given, slices, output)


def form_of(problem: Problem, limits: Limits) -> Form:
    """Two teams where there are rows for them and memory; smaller ones on a processor, which runs them one by one."""
    width = _width(problem)
    dim = next(each for each in DIMS if max(problem.head_dim, problem.v_head_dim) <= each)
    if limits.software:
        return Form(width, dim, 1, 32 if dim // width <= 16 else 64)
    wide = Form(width, dim, 2, 128)
    if problem.group * problem.rows > 4 and wide.memory <= limits.workgroup_bytes:
        return wide
    return Form(width, dim, 1, 128)


def slice_of(problem: Problem) -> int:
    """Keys of a slice: by the shape of a key and its rows only, so that no length moves the borders."""
    partial_bytes = -(-problem.group * problem.rows // 4) * 4 * row_bytes(problem)
    key_bytes = (problem.head_dim + problem.v_head_dim) * 16 // _width(problem)
    blocks = max(1, -(-int(partial_bytes / (SCRATCH * key_bytes)) // BLOCK))
    dim = next(each for each in DIMS if max(problem.head_dim, problem.v_head_dim) <= each)
    most = int(SLICE_ROUNDS / Form(_width(problem), dim, 1, 64).rounds) // BLOCK
    return BLOCK * min(blocks, most)


def _split(draft: Draft[Problem], given: Operands, form: Form, slices: Slices) -> None:
    problem = draft.problem
    row_tiles = slices.rows // form.rows
    params: dict[str, int | float] = {**slices.params(problem), "row_tiles": row_tiles, "head_dim": problem.head_dim}
    params |= {"mean": int(problem.averages_empty_rows), "scale": problem.scale, "softcap": problem.softcap}
    params |= given.query.strides("query") | given.bias.params
    words = given.key.strides("key") | given.value.strides("value")
    params |= {name: stride // form.width for name, stride in words.items()}
    constants = {"WIDTH": form.width, "DIM": form.dim, "TEAMS": form.teams, "TEAM": form.team, "BLOCK": BLOCK}
    operands = (given.visible, given.query.buffer, given.key.buffer, given.value.buffer)
    bindings = (*operands, given.bias.buffer, slices.partials)
    for part, ranges, skips in given.parts(problem, draft.limits):
        total = (part.end - part.first) * row_tiles * slices.count
        place = {"total": total, "first_member": part.first}
        place |= {name: skip // form.width for name, skip in skips.items()}
        draft.dispatch("decode", {}, params | place, bindings, total, constants, ranges=ranges)


def _width(problem: Problem) -> int:
    """Elements in 16 bytes."""
    return 16 // itemsize("f16" if problem.dtype == "float16" else "f32")
