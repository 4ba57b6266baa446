"""Weights and bias of the input projection: columns of queries, of keys, of values; a KV head once a query head."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.write.parts import Array
from attncheck.scenario.model import Scenario
from attncheck.tensors import dtypes, modifiers


def weights(scenario: Scenario) -> Array:
    """[input_dim, columns]."""
    roles = (
        np.repeat(modifiers.weights(scenario.seed, role, scenario.input_dim, heads, dim), repeat, axis=1)
        for role, heads, repeat, dim in _roles(scenario)
    )
    return _merged(scenario, [array.reshape(scenario.input_dim, -1) for array in roles])


def bias(scenario: Scenario) -> Array | None:
    """[columns], None where the scenario has none."""
    if not scenario.qkv_bias:
        return None
    roles = (
        np.repeat(modifiers.projection_bias(scenario.seed, role, heads, dim), repeat, axis=0)
        for role, heads, repeat, dim in _roles(scenario)
    )
    return _merged(scenario, [array.reshape(-1) for array in roles])


def _roles(scenario: Scenario) -> tuple[tuple[str, int, int, int], ...]:
    """Each role with its heads, how often each of them stands, and its dim."""
    group = scenario.heads // scenario.kv_heads
    return (
        ("q", scenario.heads, 1, scenario.head_dim),
        ("k", scenario.kv_heads, group, scenario.head_dim),
        ("v", scenario.kv_heads, group, scenario.v_head_dim),
    )


def _merged(scenario: Scenario, columns: Sequence[NDArray[np.float64]]) -> Array:
    return dtypes.narrow(np.concatenate(columns, axis=-1), scenario.dtype)
