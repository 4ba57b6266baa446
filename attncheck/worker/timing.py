"""Times the dispatches of a plan on a WebGPU device: buffers that stay there, runs without checks, the GPU's own clock.

Sets    The buffers of a plan are made once, or several times, and the runs take them in turn, so that a run does not
        find in the GPU's cache what the run before has left there.
Apart   Dispatches that a payload lists as such only move rows into place. Every set sees them once, before anything is
        timed; then they are timed by themselves, behind the others.
Run     All other dispatches in one compute pass, as an application encodes them, gaps between them included.
Parts   What each of these takes, in further runs, where they are several: to begin and end a pass takes a GPU some
        microseconds, so that parts in passes of their own take more together than the run.
Clock   "gpu timestamps" where the device has them. Else "wall": from a submission to the end of its work, in which the
        whole run is one part.
"""

from __future__ import annotations

import math
import time
from typing import Any, Dict, List, NamedTuple, Optional

import adapters
import numpy as np
import wgpu

TIMESTAMPS = "gpu timestamps"
WALL = "wall"

QUERIES = 4096
"""What a query set of WebGPU holds."""

SINGLE = 64
"""Up to so many dispatches each is a part; of more, those that follow each other are one."""

LEAD, LEAD_SECONDS = 3, 0.01
"""Runs in front of those that count, in the same submission, where a run takes less than so long: before them the
device has waited for the host."""

SUBMISSION_SECONDS = 0.25
"""About what a submission takes that wakes the device: some systems reset one that answers nobody for two seconds."""

_TICKS = np.dtype("<u8")


class Part(NamedTuple):
    """Dispatches that are timed together, by their places in the plan."""

    name: str
    apart: bool
    dispatches: List[int]


class Resident:
    """A prepared plan with its buffers on the device, `sets` times."""

    def __init__(self, device: Any, parts: List[Part], sets: List[List[Any]], buffers: List[Any]) -> None:
        self.device = device
        self.parts = parts
        self.sets = sets
        self.buffers = buffers
        self.turn = 0
        self.nothing = device.create_buffer(size=4, usage=wgpu.BufferUsage.COPY_SRC)

    def wait(self) -> None:
        """Until all that was submitted is done: reading a buffer back does that in every version of wgpu."""
        self.device.queue.read_buffer(self.nothing)

    def destroy(self) -> None:
        """Give the memory back."""
        for buffer in [*self.buffers, self.nothing]:
            buffer.destroy()


def parts_of(dispatches: List[Dict[str, Any]], apart: List[bool]) -> List[Part]:
    """What is timed together: each dispatch, or where they are many, those that follow each other on the same side."""
    found: List[Part] = []
    for index, (dispatch, moves) in enumerate(zip(dispatches, apart)):
        shader = dispatch["shader"]
        if len(dispatches) <= SINGLE or not found or found[-1].apart != moves:
            found.append(Part(shader, moves, [index]))
            continue
        last = found[-1]
        names = last.name.split(" + ")
        name = last.name if shader in names else "%s + %s" % (last.name, shader)
        found[-1] = Part(name, moves, [*last.dispatches, index])
    return found


def timed(
    resident: Resident, dispatches: List[Dict[str, Any]], pipelines: List[Any], runs: int, wake: float
) -> Dict[str, Any]:
    """See main.py: `runs` runs, and as many of the parts."""
    timer = _Timer(resident, dispatches, pipelines)
    timer.wake(wake)
    work = [part for part in resident.parts if not part.apart]
    moves = [part for part in resident.parts if part.apart]
    whole = _whole(work)
    if "timestamp-query" in resident.device.features:
        clock, take = TIMESTAMPS, timer.by_timestamps
    else:
        clock, take = WALL, timer.by_wall
        work, moves = whole, _whole(moves)
    run = take(whole, runs)
    alone = len(work) > 1
    told = [{"name": part.name, "apart": part.apart, "alone": part.apart or alone} for part in [*work, *moves]]
    taken = [take(work, runs) if alone else run, take(moves, runs)]
    return {"clock": clock, "seconds": run.reshape(-1), "parts": told, "part_seconds": np.concatenate(taken, axis=1)}


def _whole(side: List[Part]) -> List[Part]:
    """All parts of a side as one; none where there are none."""
    if not side:
        return []
    names = dict.fromkeys(name for part in side for name in part.name.split(" + "))
    return [Part(" + ".join(names), side[0].apart, [at for part in side for at in part.dispatches])]


def fill(resident: Resident, dispatches: List[Dict[str, Any]], pipelines: List[Any]) -> None:
    """Run every dispatch once on every set, so that each holds what the dispatches apart leave there."""
    _Timer(resident, dispatches, pipelines).fill()


class _Timer:
    """Encodes and submits runs of a resident plan."""

    def __init__(self, resident: Resident, dispatches: List[Dict[str, Any]], pipelines: List[Any]) -> None:
        self.resident = resident
        self.device = resident.device
        self.dispatches = dispatches
        self.pipelines = pipelines
        self.lead = 0

    def fill(self) -> None:
        """Every dispatch once on every set, in order."""
        for bound in self.resident.sets:
            encoder = self.device.create_command_encoder()
            self._encode(encoder, bound, list(range(len(self.dispatches))), None)
            self.device.queue.submit([encoder.finish()])
        self.resident.wait()

    def wake(self, seconds: float) -> None:
        """Run what is not apart once at least, and for so long.

        As many runs go out together as a submission has time for: a GPU that waits for the host does not wake.
        """
        work = [at for part in self.resident.parts if not part.apart for at in part.dispatches]
        began, done, count = time.perf_counter(), 0, 1
        while work:
            encoder = self.device.create_command_encoder()
            for _ in range(count):
                self._encode(encoder, self._next(), work, None)
            self.device.queue.submit([encoder.finish()])
            self.resident.wait()
            done += count
            spent = time.perf_counter() - began
            if spent >= seconds:
                self.lead = LEAD if seconds and spent / done < LEAD_SECONDS else 0
                return
            count = max(1, math.ceil(min(seconds - spent, SUBMISSION_SECONDS) * done / spent))

    def by_timestamps(self, side: List[Part], runs: int) -> np.ndarray:
        """Seconds [runs, parts] of passes by the GPU's clock, as many runs in a submission as a query set has room."""
        if not side:
            return np.zeros((runs, 0))
        room = max(1, QUERIES // (2 * len(side)))
        return np.concatenate([self._submitted(side, min(room, runs - at)) for at in range(0, runs, room)])

    def by_wall(self, side: List[Part], runs: int) -> np.ndarray:
        """Seconds [runs, parts] of submissions, each to the end of its work."""
        seconds = np.zeros((runs, len(side)))
        for run in range(runs):
            for column, part in enumerate(side):
                encoder = self.device.create_command_encoder()
                self._encode(encoder, self._next(), part.dispatches, None)
                commands = encoder.finish()
                began = time.perf_counter()
                self.device.queue.submit([commands])
                self.resident.wait()
                seconds[run, column] = time.perf_counter() - began
        return seconds

    def _submitted(self, side: List[Part], runs: int) -> np.ndarray:
        count = 2 * len(side) * runs
        queries = self.device.create_query_set(type="timestamp", count=count)
        usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        resolved = self.device.create_buffer(size=count * _TICKS.itemsize, usage=usage)
        encoder = self.device.create_command_encoder()
        for _ in range(self.lead):
            self._encode(encoder, self._next(), [at for part in side for at in part.dispatches], None)
        place = 0
        for _ in range(runs):
            bound = self._next()
            for part in side:
                writes = {
                    "query_set": queries,
                    "beginning_of_pass_write_index": place,
                    "end_of_pass_write_index": place + 1,
                }
                self._encode(encoder, bound, part.dispatches, writes)
                place += 2
        encoder.resolve_query_set(queries, 0, count, resolved, 0)
        self.device.queue.submit([encoder.finish()])
        ticks = np.frombuffer(self.device.queue.read_buffer(resolved), _TICKS).reshape(runs, len(side), 2)
        resolved.destroy()
        queries.destroy()
        return (ticks[..., 1] - ticks[..., 0]).astype(np.float64) * _period(self.device)

    def _encode(self, encoder: Any, bound: List[Any], dispatches: List[int], writes: Optional[Dict[str, Any]]) -> None:
        compute = encoder.begin_compute_pass(timestamp_writes=writes)
        for at in dispatches:
            compute.set_pipeline(self.pipelines[at])
            compute.set_bind_group(0, bound[at])
            compute.dispatch_workgroups(*self.dispatches[at]["grid"])
        compute.end()

    def _next(self) -> List[Any]:
        """The bind groups of the set whose turn it is."""
        self.resident.turn = (self.resident.turn + 1) % len(self.resident.sets)
        return self.resident.sets[self.resident.turn]


def _period(device: Any) -> float:
    """Seconds of a tick: nanoseconds in Dawn, as WebGPU has it, and what the adapter says in wgpu."""
    if adapters.DAWN:
        return 1e-9
    from wgpu.backends.wgpu_native import lib

    return float(lib.wgpuQueueGetTimestampPeriod(device.queue._internal)) * 1e-9  # noqa: SLF001  the API has no name
