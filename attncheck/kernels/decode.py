"""Decode attention: few query rows, a workgroup a slice of the keys, and a merge of what the slices gave."""

from __future__ import annotations

from dataclasses import dataclass

from attncheck.kernels.draft import Draft, Limits, View, itemsize
from attncheck.kernels.operands import Operands
from attncheck.kernels.slices import merge, sliced, span_of, split
from attncheck.problem import Problem

MOST_ROWS = 16
"""Query rows of one batch entry up to which it serves: more are a prefill."""

BLOCK = 512
"""What slices are multiples of: on a GPU shorter ones spend much of their time on beginning and ending."""

DIMS = (64, 128, 256)
"""What head dims are rounded up to, so that few pipelines serve all."""

TEAM, INVOCATIONS = 32, 128
"""Invocations of a team that exchange products, unless a key has more words, and of a workgroup on a GPU."""

SLICE_ROUNDS = 48_000
"""Most rounds of the loops of one invocation: llvmpipe silently ends them after 65,535."""

ROWS, ABREAST, SUMS = 4, 4, 4
"""Of decode.wgsl: packed rows of a workgroup; keys that an invocation reads, and sums that it gives out, at once."""


@dataclass(frozen=True)
class Form:
    """What decode.wgsl is specialised by."""

    width: int
    dim: int
    teams: int
    team: int

    @property
    def tile(self) -> int:
        """Keys of a team between two barriers."""
        return ABREAST * self.team // self.parts

    @property
    def parts(self) -> int:
        """Words of a key."""
        return self.dim // self.width

    @property
    def rounds(self) -> float:
        """Rounds of the loops of an invocation for a key, at most."""
        return (1 + -(-self.tile * ROWS // self.team) * self.parts) / (self.teams * self.tile)

    @property
    def constants(self) -> dict[str, int]:
        """What stands before the shader's text."""
        pool = max(self.teams * self.tile * (self.parts + 1), SUMS * self.teams * self.team)
        sizes = {"TEAMS": self.teams, "TEAM": self.team, "POOL": pool}
        return {"WIDTH": self.width, "DIM": self.dim} | sizes


def lacks(problem: Problem, limits: Limits) -> str | None:
    """It serves few query rows, on software few packed ones, whose keys and values can be read 16 bytes at a time."""
    if problem.rows > MOST_ROWS:
        return f"more than {MOST_ROWS} query rows"
    width = _width(problem)
    for name, dim in (("head_dim", problem.head_dim), ("v_head_dim", problem.v_head_dim)):
        if dim % width:
            return f"a {name} in {problem.dtype} that is no multiple of {width}"
    most = int(SLICE_ROUNDS / form_of(problem, software=True).rounds)
    if limits.software and slice_of(problem) > most:
        packed = problem.group * problem.rows
        return f"{packed} packed rows, whose slices of keys are above {most} on a software adapter"
    return None


def attend(draft: Draft[Problem], given: Operands, output: View) -> None:
    """The slices that any row goes over, then their merge."""
    problem = draft.problem
    form = form_of(problem, software=draft.limits.software)
    slices = sliced(draft, slice_of(problem), _rows(problem))
    words = given.key.strides("key") | given.value.strides("value")
    params = {name: stride // form.width for name, stride in words.items()} | {"head_dim": problem.head_dim}
    aliases = {"query_elem": given.query.elem}
    split(draft, given, slices, "decode", ROWS, form.width, params, aliases, form.constants)
    merge(draft, given, slices, output)


def form_of(problem: Problem, *, software: bool) -> Form:
    """Teams of the size of most subgroups, or of a key; one on a processor, which runs invocations one by one."""
    width = _width(problem)
    dim = next(each for each in DIMS if max(problem.head_dim, problem.v_head_dim) <= each)
    team = max(TEAM, dim // width)
    return Form(width, dim, 1 if software else INVOCATIONS // team, team)


def slice_of(problem: Problem) -> int:
    """Keys of a slice: by the shape of a key and its rows only, so that no length moves the borders."""
    return span_of(problem, _rows(problem), BLOCK)


def _rows(problem: Problem) -> int:
    """Packed rows of a KV head, with those that fill up its last workgroup."""
    return -(-problem.group * problem.rows // ROWS) * ROWS


def _width(problem: Problem) -> int:
    """Elements in 16 bytes."""
    return 16 // itemsize("f16" if problem.dtype == "float16" else "f32")
