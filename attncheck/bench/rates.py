"""What an adapter can do at its best, measured by shaders that do nothing else: the rates that a floor is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.backends.base import Hello
from attncheck.bench.events import Rates
from attncheck.bench.station import Station
from attncheck.engine.worker import WorkerFailed
from attncheck.kernels import matrix, uniforms
from attncheck.kernels.plan import Buffer, Dispatch, Plan
from attncheck.kernels.sources import prelude

SHADERS = Path(__file__).parent / "shaders"
CHAINS, LANES, INVOCATIONS = 8, 4, 256
"""Chains of fma.wgsl, lanes of a vec4, and the workgroup size of both shaders."""

ELEMENT = 16
"""Bytes that copy.wgsl moves at a time; a workgroup moves COPIED of them."""

COPIED = 1024
BLOCK, TILES, SHARED, SUBGROUPS, PRODUCTS = 16, 16, 64, 4, 16
"""Of matrix.wgsl: rows of a block, blocks that are given, places that workgroups share, subgroups, products a round."""


@dataclass(frozen=True)
class Size:
    """How much is done in a run: enough to fill an adapter, little enough for one that is software.

    groups, rounds  workgroups of fma.wgsl, and rounds of its loop
    copied          workgroups of copy.wgsl, each of 16 KiB: on hardware more than a cache holds
    """

    groups: int
    rounds: int
    copied: int
    runs: int


HARDWARE = Size(groups=4096, rounds=4096, copied=16384, runs=20)
SOFTWARE = Size(groups=16, rounds=256, copied=128, runs=5)


@dataclass(frozen=True)
class Task:
    """A plan, what it is given, and how much of something a run of it does."""

    payload: Mapping[str, Any]
    inputs: Mapping[str, NDArray[np.generic]]
    amount: int


def measured(station: Station) -> Rates | None:
    """The adapter's rates; None for a backend that runs no plans, and where they could not be measured."""
    if not runs_plans(station.hello):
        return None
    size = SOFTWARE if station.hello.device["software"] else HARDWARE
    try:
        fma, copy = (_rate(station, task, size.runs) for task in (arithmetic(size), copying(size)))
    except WorkerFailed:
        return None  # the cases, which say more, will tell why
    return Rates(fma, copy, _matrix_rate(station, size))


def _matrix_rate(station: Station, size: Size) -> float | None:
    """None also where a compiler does not take the shader: matrices in WGSL are an experiment of Dawn's."""
    if not station.hello.device.get("matrix", {}).get("usable"):
        return None
    try:
        return _rate(station, multiplying(size), size.runs)
    except WorkerFailed:
        return None


def runs_plans(hello: Hello) -> bool:
    """Whether a backend is one of those that run our own kernels."""
    return "limits" in hello.device


def arithmetic(size: Size) -> Task:
    """The plan of fma.wgsl: floating-point operations."""
    invocations = size.groups * INVOCATIONS
    sums = Buffer("sums", invocations * ELEMENT)
    params = {"rounds": size.rounds, "factor": 0.9990234375, "term": 0.0009765625, "unused": 0}
    plan = _plan("fma", params, (sums,), size.groups)
    return Task(plan, {}, invocations * size.rounds * CHAINS * LANES * 2)


def copying(size: Size) -> Task:
    """The plan of copy.wgsl: bytes read and bytes written."""
    count = size.copied * COPIED
    params = {"count": count, "unused_a": 0, "unused_b": 0, "unused_c": 0}
    buffers = (Buffer("source", count * ELEMENT, input="source"), Buffer("copied", count * ELEMENT))
    source = np.random.default_rng(0).integers(0, 2**32, count * ELEMENT // 4, np.uint32)
    return Task(_plan("copy", params, buffers, size.copied), {"source": source}, 2 * count * ELEMENT)


def multiplying(size: Size) -> Task:
    """The plan of matrix.wgsl: floating-point operations."""
    given = Buffer("given", TILES * BLOCK * BLOCK * 2, input="given")
    sums = Buffer("sums", SHARED * PRODUCTS * BLOCK * BLOCK * 4)
    params = {"rounds": size.rounds, "unused_a": 0, "unused_b": 0, "unused_c": 0}
    groups = size.groups // 2
    numbers = np.random.default_rng(0).uniform(-1, 1, TILES * BLOCK * BLOCK).astype(np.float16)
    plan = _plan("matrix", params, (given, sums), groups, prelude({}, {}, matrix.DIRECTIVES))
    return Task(plan, {"given": numbers}, groups * SUBGROUPS * size.rounds * PRODUCTS * BLOCK**3 * 2)


def _rate(station: Station, task: Task, runs: int) -> float:
    """By the fastest tenth: a rate that others are held against is what the adapter can do."""
    handle = station.prepare(task.payload)
    told = station.time(handle, task.inputs, runs=runs, sets=1)
    station.release(handle)
    return task.amount / float(np.percentile(told["seconds"], 10.0))


def _plan(
    name: str, params: Mapping[str, int | float], buffers: tuple[Buffer, ...], groups: int, directives: str = ""
) -> dict[str, Any]:
    file = SHADERS / f"{name}.wgsl"
    text = file.read_text(encoding="utf-8")
    packed = uniforms.pack(text, str(file), params)
    dispatch = Dispatch(name, directives, packed, tuple(buffer.name for buffer in buffers), (groups, 1, 1))
    return {"plan": asdict(Plan(name, buffers, (dispatch,), {name: (text, str(file))})), "outputs": []}
