"""What a case takes before it is built: on the host, and on the device of whoever computes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attncheck.graph.case import Case
from attncheck.scenario.memory import Shape, parts, readable
from attncheck.scenario.model import Scenario
from attncheck.tensors.dtypes import dtype


def refusal(scenario: Scenario, limit: int) -> str | None:
    """Why a case is too large for this machine, with the arithmetic; None where it fits.

    As for every case, but that no scores are held: what is judged of a large case is sampled.
    """
    shape = Shape(
        dtype=scenario.dtype,
        batch=scenario.batch,
        rows=max(scenario.q_len),
        slots=scenario.capacity or max(scenario.kv_len),
        heads=scenario.heads,
        kv_heads=scenario.kv_heads,
        head_dim=max(scenario.head_dim, scenario.v_head_dim),
    )
    held = sorted((it for it in parts(shape) if it.what != "scores"), key=lambda part: part.size, reverse=True)
    total = sum(part.size for part in held)
    if total <= limit:
        return None
    return f"it would take {readable(total)}, more than the limit of {readable(limit)}: {held[0]}"


def device_bytes(case: Case, payload: Mapping[str, Any]) -> int:
    """Bytes of one set of what a request holds on its device: a plan's buffers, or else inputs and outputs."""
    plan = payload.get("plan")
    if plan is not None:
        return sum(int(buffer["nbytes"]) for buffer in plan["buffers"])
    outputs = sum(math.prod(it.shape) * dtype(it.dtype).storage.itemsize for it in case.outputs)
    return outputs + sum(array.nbytes for array in case.inputs.values())


def sets(one: int, beyond: int, most: int) -> int:
    """How many sets of so many bytes each lie beyond the cache in all; at least one, and no more than `most` bytes."""
    wanted = -(-beyond // max(1, one))
    return max(1, min(wanted, most // max(1, one)))
