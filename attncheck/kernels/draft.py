"""A plan in the making: tensors become buffers with strides, and steps become dispatches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from attncheck.kernels import uniforms
from attncheck.kernels.plan import Buffer, Dispatch, Plan, Range
from attncheck.kernels.sources import prelude, read_shader
from attncheck.problem import AnyProblem, Layout, Tensor

ELEMENTS = {"float32": "f32", "float16": "f16"}
"""ONNX dtype -> WGSL scalar."""

INVOCATIONS = 64
"""Workgroup size of the shaders that take an element an invocation."""


@dataclass(frozen=True)
class Limits:
    """What an adapter allows, by default no more than WebGPU promises everywhere.

    binding_bytes    bytes of tensor in one binding
    buffer_bytes     bytes of tensor in one buffer, None for as many as in a binding
    workgroups       workgroups in one dimension of a grid
    f16              whether shaders may compute in f16
    workgroup_bytes  memory that the invocations of a workgroup share
    invocations      invocations of a workgroup
    software         whether it runs on the processor
    matrix           whether it multiplies matrices of f16 by subgroups of 32, and passed the worker's test of it
    """

    binding_bytes: int
    workgroups: int
    f16: bool
    workgroup_bytes: int = 16384
    invocations: int = 256
    software: bool = False
    matrix: bool = False
    buffer_bytes: int | None = None


@dataclass(frozen=True)
class View:
    """A tensor [batch, heads, rows, dim] in a buffer of the plan.

    elem   WGSL scalar of its elements
    held   heads that the buffer has in all; first: the element at which this tensor's own begin
    """

    buffer: str
    elem: str
    layout: Layout
    heads: int
    rows: int
    dim: int
    held: int
    first: int = 0

    def place(self, role: str) -> dict[str, int]:
        """The uniforms that address it wherever in its buffer it begins, in elements."""
        return {f"{role}_first": self.first, **self.strides(role)}

    def from_row(self, row: int) -> View:
        """The same from a row on; `rows` stays that of the buffer, from which strides come."""
        return replace(self, first=self.first + row * self.strides("")["_row"])

    def strides(self, role: str) -> dict[str, int]:
        """The uniforms that address it from its first element on, in elements."""
        whole, block = self.held * self.rows * self.dim, self.rows * self.dim
        batch, head, row = {
            "bnsh": (whole, block, self.dim),
            "bsnh": (whole, self.dim, self.held * self.dim),
            "bsnph": (whole, self.held // self.heads * self.dim, self.held * self.dim),
            "pbnsh": (self.heads * block, block, self.dim),
        }[self.layout]
        return {f"{role}_batch": batch, f"{role}_head": head, f"{role}_row": row}


Posed = TypeVar("Posed", bound=AnyProblem)


@dataclass
class Draft(Generic[Posed]):
    """A plan in the making."""

    problem: Posed
    limits: Limits
    shaders: Path
    buffers: dict[str, Buffer] = field(default_factory=dict)
    dispatches: list[Dispatch] = field(default_factory=list)
    sources: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def elem(self) -> str:
        """WGSL scalar of the problem's dtype."""
        return ELEMENTS[self.problem.dtype]

    def tensor(self, tensor: Tensor, heads: int, rows: int, dim: int, *, output: bool = False) -> View:
        """A graph input or output of the problem's dtype."""
        held = tensor.packed or heads
        nbytes = self.problem.batch * held * rows * dim * itemsize(self.elem)
        source, target = (None, tensor.name) if output else (tensor.name, None)
        self.buffers[tensor.name] = Buffer(tensor.name, nbytes, input=source, output=target)
        first = {
            "bnsh": tensor.first * rows * dim,
            "bsnh": tensor.first * dim,
            "bsnph": tensor.first // heads * dim,
            "pbnsh": tensor.first * self.problem.batch * rows * dim,
        }[tensor.layout]
        return View(tensor.name, self.elem, tensor.layout, heads, rows, dim, held, first)

    def scratch(self, role: str, elem: str, heads: int, rows: int, dim: int, batch: int | None = None) -> View:
        """A tensor that only kernels see, of the problem's batch or another."""
        members = self.problem.batch if batch is None else batch
        name = self.room(role, members * heads * rows * dim * itemsize(elem))
        return View(name, elem, "bnsh", heads, rows, dim, heads)

    def room(self, role: str, nbytes: int) -> str:
        """A buffer that only kernels see; who asks for it again shares it, with room for the larger of both."""
        name = own(role)
        before = self.buffers.get(name)
        self.buffers[name] = Buffer(name, max(nbytes, before.nbytes if before else 0))
        return name

    def constant(self, role: str, values: NDArray[np.int32] | NDArray[np.float32]) -> str:
        """A small buffer of integers, or of f32, filled by the plan."""
        name = own(role)
        content = np.ascontiguousarray(values, dtype="<f4" if values.dtype == np.float32 else "<i4").tobytes()
        self.buffers[name] = Buffer(name, len(content), content=content)
        return name

    def dispatch(
        self,
        shader: str,
        aliases: Mapping[str, str],
        params: Mapping[str, int | float],
        bindings: tuple[str, ...],
        workgroups: int,
        constants: Mapping[str, int] | None = None,
        directives: Sequence[str] = (),
        ranges: Sequence[Range | None] = (),
    ) -> None:
        """Append one dispatch of `workgroups` workgroups.

        constants   those that the shader is specialised by
        directives  lines that WGSL wants before all else: extensions to enable
        ranges      for each binding what is bound of its buffer, None for all; shorter where all of the rest is
        """
        if workgroups == 0:
            return
        if shader not in self.sources:
            self.sources[shader] = read_shader(self.shaders, shader)
        packed = uniforms.pack(*self.sources[shader], params)
        grid = fold(workgroups, self.limits.workgroups)
        text = prelude(aliases, constants or {}, directives)
        self.dispatches.append(Dispatch(shader, text, packed, bindings, grid, tuple(ranges)))

    def finish(self, kernel: str) -> Plan:
        """The plan as plain data."""
        return Plan(kernel, tuple(self.buffers.values()), tuple(self.dispatches), self.sources)


def fold(workgroups: int, most: int) -> tuple[int, int, int]:
    """A grid of at least `workgroups` workgroups with no dimension above `most`; shaders count them linearly."""
    x = min(workgroups, most)
    y = min(-(-workgroups // x), most)
    z = -(-workgroups // (x * y))
    return x, y, z


def own(role: str) -> str:
    """A buffer's name that no graph input or output bears."""
    return f"[{role}]"


def itemsize(elem: str) -> int:
    """Bytes of a WGSL scalar."""
    return 2 if elem == "f16" else 4
