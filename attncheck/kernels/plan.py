"""A Plan: everything a GPU worker must do for one case, as plain data. The worker knows buffers, not attention."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Buffer:
    """A storage buffer of a plan.

    nbytes   the tensor's own bytes; the worker binds it with a guard zone behind, inside the bound range
    input    graph input whose first `nbytes` bytes fill it, or None
    output   graph output that is read back from it, or None
    content  constant bytes that fill it, or None; a buffer with neither input nor content starts poisoned
    """

    name: str
    nbytes: int
    input: str | None = None
    output: str | None = None
    content: bytes | None = None


@dataclass(frozen=True)
class Range:
    """A part of a buffer's tensor, in bytes; the worker binds as much more behind it as a guard zone takes."""

    offset: int
    nbytes: int


@dataclass(frozen=True)
class Dispatch:
    """One compute pass: a shader with its prelude, uniform bytes at binding 0, buffers at bindings 1, 2, ...

    ranges   for each binding what is bound of its buffer, None for all of it; shorter where all of the rest is
    """

    shader: str
    prelude: str
    uniforms: bytes
    bindings: tuple[str, ...]
    grid: tuple[int, int, int]
    ranges: tuple[Range | None, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Buffers and dispatches in order; `sources` maps a shader's name to its WGSL text and the file it came from."""

    kernel: str
    buffers: tuple[Buffer, ...]
    dispatches: tuple[Dispatch, ...]
    sources: dict[str, tuple[str, str]]
