"""What the writers of all operators share: generated rows by their positions, laid out as ONNX wants them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.case import Output
from attncheck.scenario.axes import SHIFT
from attncheck.scenario.model import Scenario
from attncheck.tensors import data, dtypes

Array = NDArray[np.generic]

SEED_BITS = 32
"""A scenario's seed has these: the ones above tell the tokens that a step drops from those of the session."""


@dataclass(frozen=True)
class Parts:
    """A written operator: the serialised model, its inputs by name, and the outputs it must give."""

    model: bytes
    inputs: Mapping[str, Array]
    outputs: tuple[Output, ...]


Inputs = list[tuple[str, Array | None]]
"""Every input of a node by its name, in its order; None: left out."""


def given(inputs: Inputs) -> dict[str, Array]:
    """The inputs that the graph has: those with an array."""
    return {name: array for name, array in inputs if array is not None}


def asked(outputs: Sequence[Output | None]) -> tuple[Output, ...]:
    """The outputs that the graph gives."""
    return tuple(output for output in outputs if output is not None)


def new_rows(scenario: Scenario, tensor: str, heads: int, repeat: int = 1) -> NDArray[np.float64]:
    """New rows of q, k or v, [batch, heads * repeat, rows, dim]; each generated head stands `repeat` times."""
    count = new_count(scenario) if tensor in ("k", "v") else max(scenario.q_len)
    return _heads(scenario, tensor, heads, repeat, np.array(scenario.first)[:, None] + np.arange(count))


def input_rows(scenario: Scenario) -> NDArray[np.float64]:
    """New rows of what is projected to q, k and v, [batch, 1, rows, input_dim]."""
    places = np.array(scenario.first, np.int64)[:, None] + np.arange(max(scenario.q_len))
    return _generated(scenario, "q", 1, places, scenario.input_dim)


def new_count(scenario: Scenario) -> int:
    """Rows of the new keys and values: as many as queries, but in cross attention."""
    return max(scenario.kv_len) if scenario.cross else max(scenario.q_len)


def positions(scenario: Scenario) -> NDArray[np.int64]:
    """Where every new token stands, int64 [batch, rows]: behind its entry's past, or where the scenario says."""
    counted: NDArray[np.int64] = np.array(scenario.past_len, np.int64)[:, None] + np.arange(max(scenario.q_len))
    last = int(counted.max())
    further = {"shifted": SHIFT, "negative": -last - 1, "beyond": scenario.rotary_cache - last}
    if scenario.positions == "zero":
        return np.zeros_like(counted)
    return counted + further.get(scenario.positions, 0)


def past_rows(
    scenario: Scenario, tensor: str, heads: int, first: NDArray[np.int64], rows: int, repeat: int = 1
) -> NDArray[np.float64]:
    """Rows of a past buffer, [batch, heads * repeat, rows, dim]; row 0 of entry b is first[b] from its new tokens."""
    start = np.array(scenario.first) + first
    return _heads(scenario, tensor, heads, repeat, start[:, None] + np.arange(rows))


def _heads(
    scenario: Scenario, tensor: str, heads: int, repeat: int, positions: NDArray[np.int64]
) -> NDArray[np.float64]:
    dim = scenario.v_head_dim if tensor == "v" else scenario.head_dim
    places = positions.astype(np.int64)
    numbers = scenario.given(tensor)
    if numbers is None:
        rows = _generated(scenario, tensor, heads, places, dim)
    else:
        past = (before - first for before, first in zip(scenario.past_len, scenario.first, strict=True))
        rows = data.listed(numbers, 0 if tensor == "q" else -max(past), heads, places, dim)
    return rows if repeat == 1 else np.repeat(rows, repeat, axis=1)


def _generated(
    scenario: Scenario, tensor: str, heads: int, positions: NDArray[np.int64], dim: int
) -> NDArray[np.float64]:
    """Rows of the scenario's data. A token that its step drops is another than the one that takes its place.

    Were they the same, a cache that is not rewound would look right.
    """

    def seeded(seed: int) -> NDArray[np.float64]:
        return data.generate(scenario.data, seed, tensor, scenario.batch, heads, positions, dim)

    within = scenario.within
    if within is None:
        return seeded(scenario.seed)
    dropped = positions >= (np.array(within.first) + within.accept)[:, None]
    other = seeded(scenario.seed + (within.number << SEED_BITS)) if dropped.any() else 0.0
    return np.where(dropped[:, None, :, None], other, seeded(scenario.seed))


def packed(rows: NDArray[np.float64], dtype: str) -> Array:
    """[batch, heads, rows, dim] as [batch, rows, heads * dim] in the ONNX `dtype`."""
    batch, heads, count, dim = rows.shape
    return dtypes.narrow(rows.transpose(0, 2, 1, 3).reshape(batch, count, heads * dim), dtype)


def buffer(rows: NDArray[np.float64], dtype: str) -> Array:
    """An array of any shape as it is, in the ONNX `dtype`."""
    return dtypes.narrow(rows, dtype)
