"""Times a session of ONNX Runtime by its own profiler: kernels of a GPU, or nodes of the CPU, run by run.

Inputs lie on the device where the API lets them: a model of Identities, which the engine gives as payload["loader"],
leaves them there as its outputs, several times over, and runs take the sets in turn. Where a provider does not allow
that, they are given from the host, and that is told; kernel times do not hold the way there.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import onnxruntime as ort
from failure import Failure

PROFILER, WALL = "profiler", "wall"
LEAST_WARM = 2
IN_A_ROW = 4
NO_KERNELS = "its profiler tells of no kernels: whole runs, with all that they copy"
MOVING = ("copy", "memcpy")
"""Kernels whose names hold one of these only move rows."""

Session = Callable[[bytes, bool], ort.InferenceSession]
"""Opens a session on a model, with the profiler or without."""

Event = Tuple[str, float]


class Resident(NamedTuple):
    """Inputs where they stay.

    device  where that is, and where outputs are to be left; note: what there is to say of it
    loader  what owns their memory
    """

    sets: List[Dict[str, Any]]
    device: str
    note: str
    loader: Any


def resident(
    open_session: Session, payload: Dict[str, Any], inputs: Dict[str, np.ndarray], sets: int, device: str
) -> Resident:
    """The inputs on `device`, `sets` times, or else on the host."""
    if device != "cpu" and payload.get("loader"):
        try:
            loader = open_session(payload["loader"], False)
            found = [_loaded(loader, inputs, device) for _ in range(sets)]
            return Resident([dict(_on_host(inputs), **one) for one in found], device, "", loader)
        except Exception as refusal:  # noqa: BLE001  whatever it says, the host serves
            told = "inputs come from the host: %s" % " ".join(str(refusal).split())
            return Resident([_on_host(inputs)], "cpu", told, None)
    return Resident([_on_host(inputs)], "cpu", "", None)


def timed(
    open_session: Session, payload: Dict[str, Any], given: Resident, shared: Dict[str, str], runs: int, wake: float
) -> Dict[str, Any]:
    """See main.py. payload: {"model", "waiter": a model whose one output comes to the host}.

    A run on a device may return before the device is done, whatever `synchronize_outputs` promises: some of them in a
    row are ended by the waiter, and share what that takes.
    """
    session = open_session(payload["model"], True)
    bindings = [_binding(session, one, shared, given.device) for one in given.sets]
    wait = _waiting(open_session(payload["waiter"], False)) if given.device != "cpu" else None
    row = 1 if wait is None else IN_A_ROW
    began, warmed, spent = time.perf_counter(), 0, 0.0
    while warmed < LEAST_WARM or spent < wake:
        _run(session, [bindings[(warmed + each) % len(bindings)] for each in range(row)], wait)
        warmed += row
        spent = time.perf_counter() - began
    walls = [
        _run(session, [bindings[(warmed + at * row + each) % len(bindings)] for each in range(row)], wait)
        for at in range(runs)
    ]
    kernels = profile(session.end_profiling(), warmed + runs * row)
    if not kernels:
        note = "; ".join(filter(None, [given.note, NO_KERNELS]))
        return _told(WALL, [[("run", seconds)] for seconds in walls], note)
    return _told(PROFILER, kernels[warmed : warmed + runs], given.note)


def profile(path: str, runs: int) -> List[List[Event]]:
    """What each run's kernels took by a profile: those of the GPU where it tells of them, else nodes of the CPU.

    Empty where it tells of neither. Raises Failure where what it tells is not that of so many equal runs.
    """
    with open(path, encoding="utf-8") as file:
        events = json.load(file)
    os.unlink(path)
    found = [(it["name"].split("&")[-1], it["dur"] * 1e-6) for it in events if it.get("cat") == "Api"]
    if not found:
        nodes = [it for it in events if it.get("cat") == "Node" and "provider" in it.get("args", {})]
        if any(it["args"]["provider"] != "CPUExecutionProvider" for it in nodes):
            return []  # how long it takes to start a kernel, not how long the kernel takes
        found = [(it["args"]["op_name"], it["dur"] * 1e-6) for it in nodes]
    if len(found) % runs:
        raise Failure("error", "ONNX Runtime's profiler tells of %d kernels in %d equal runs" % (len(found), runs))
    each = len(found) // runs
    return [found[at * each : (at + 1) * each] for at in range(runs)] if each else []


def _told(clock: str, kernels: List[List[Event]], note: str) -> Dict[str, Any]:
    names = list(dict.fromkeys(name for run in kernels for name, _ in run))
    seconds = np.zeros((len(kernels), len(names)))
    for row, run in enumerate(kernels):
        for name, took in run:
            seconds[row, names.index(name)] += took
    apart = [any(word in name.lower() for word in MOVING) for name in names]
    parts = [{"name": name, "apart": moves, "alone": False} for name, moves in zip(names, apart)]
    run = seconds[:, np.logical_not(apart)].sum(axis=1)
    return {"clock": clock, "seconds": run, "parts": parts, "part_seconds": seconds, "note": note}


def _run(session: Any, bindings: List[Any], wait: Optional[Callable[[], None]]) -> float:
    """Seconds of one run, of as many as there are bindings."""
    began = time.perf_counter()
    for binding in bindings:
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
    if wait is not None:
        wait()
    return (time.perf_counter() - began) / len(bindings)


def _waiting(waiter: Any) -> Callable[[], None]:
    """What returns when the device has done all that it was asked for: one number's way there and back."""
    number = {waiter.get_inputs()[0].name: np.zeros(1, np.float32)}

    def wait() -> None:
        waiter.run(None, number)

    wait()
    return wait


def _binding(session: Any, given: Dict[str, Any], shared: Dict[str, str], device: str) -> Any:
    binding = session.io_binding()
    for each in session.get_inputs():
        if each.name in given:  # the model itself may hold some of the arrays
            binding.bind_ortvalue_input(each.name, given[each.name])
    for each in session.get_outputs():
        if each.name in shared:
            binding.bind_ortvalue_output(each.name, given[shared[each.name]])
        else:
            binding.bind_output(each.name, device)
    return binding


def _on_host(inputs: Dict[str, np.ndarray]) -> Dict[str, Any]:
    return {name: ort.OrtValue.ortvalue_from_numpy(np.array(array)) for name, array in inputs.items()}


def _loaded(loader: Any, inputs: Dict[str, np.ndarray], device: str) -> Dict[str, Any]:
    """The loader's inputs as they come out on the device. Raises RuntimeError where that is the host all the same."""
    binding = loader.io_binding()
    names = [each.name for each in loader.get_inputs()]
    for name in names:
        binding.bind_cpu_input(name, inputs[name])
    for each in loader.get_outputs():  # in the order of the inputs
        binding.bind_output(each.name, device)
    loader.run_with_iobinding(binding)
    binding.synchronize_outputs()
    found = binding.get_outputs()
    if any(value.device_name().lower() == "cpu" for value in found):
        raise RuntimeError("asked to leave them on %s, the provider leaves them on the host" % device)
    return dict(zip(names, found))
