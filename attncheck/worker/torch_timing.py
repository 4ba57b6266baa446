"""Times a PyTorch call: by CUDA's events where the device has them, else by the wall."""

from __future__ import annotations

import time
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import numpy as np
import torch

EVENTS, WALL = "cuda events", "wall"
LEAST_WARM = 2
AHEAD = 20_000_000
"""Cycles, some 10 ms."""

Operands = Tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Resident(NamedTuple):
    """Query, keys and values on the device, several times over, and the call's other arguments."""

    sets: List[Operands]
    options: Dict[str, Any]


def timed(
    given: Resident,
    call: Callable[[Operands, Dict[str, Any]], torch.Tensor],
    runs: int,
    wake: float,
    device: torch.device,
) -> Dict[str, Any]:
    """See main.py: the call is one part."""
    took = _by_events if device.type == "cuda" else _by_wall
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # a kernel that PyTorch passes over says why, once a run
        began, warmed, spent = time.perf_counter(), 0, 0.0
        while warmed < LEAST_WARM or spent < wake:
            call(given.sets[warmed % len(given.sets)], given.options)
            if device.type == "cuda":
                torch.cuda.synchronize()
            warmed += 1
            spent = time.perf_counter() - began
        turns = [given.sets[(warmed + run) % len(given.sets)] for run in range(runs)]
        seconds = took(lambda one: call(one, given.options), turns)
    parts = [{"name": "scaled_dot_product_attention", "apart": False, "alone": False}]
    clock = EVENTS if device.type == "cuda" else WALL
    return {"clock": clock, "seconds": seconds, "parts": parts, "part_seconds": seconds[:, None]}


def _by_events(call: Callable[[Operands], torch.Tensor], turns: List[Operands]) -> np.ndarray:
    """The events of all runs are queued before the first is read, so that the host is not waited for."""
    pairs = []
    torch.cuda._sleep(AHEAD)  # noqa: SLF001  the device waits while the host queues all runs: no gap between them
    for one in turns:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        call(one)
        last.record()
        pairs.append((first, last))
    torch.cuda.synchronize()
    return np.array([first.elapsed_time(last) * 1e-3 for first, last in pairs])


def _by_wall(call: Callable[[Operands], torch.Tensor], turns: List[Operands]) -> np.ndarray:
    seconds = []
    for one in turns:
        began = time.perf_counter()
        call(one)
        seconds.append(time.perf_counter() - began)
    return np.array(seconds)
