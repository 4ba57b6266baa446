"""Arrays over the scores [batch, heads, queries, keys] in the shape that a scenario names, and the sink beside them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.write.parts import Array
from attncheck.scenario.axes import KEY_MASKS, ROOM, SQUARE
from attncheck.scenario.model import Scenario
from attncheck.tensors import dtypes, modifiers


def bias(scenario: Scenario, keys: int) -> Array | None:
    """The additive bias over `keys` slots, in the scenario's dtype; -inf where it hides."""
    if scenario.bias is None:
        return None
    sizes = _sizes(scenario, scenario.bias, keys)
    first = max(scenario.first)
    values = modifiers.bias(scenario.seed, *sizes[:3], first + _keys(scenario, sizes[3]), first)
    if scenario.bias_values is not None:
        batch, heads, queries, slots = sizes
        # By query first, as q is by token: fewer queries keep the numbers of those that are left.
        values = np.resize(scenario.bias_values, (queries, batch, heads, slots)).transpose(1, 2, 0, 3)
    if scenario.mask is None:
        values = np.where(_hidden(scenario, scenario.bias, sizes), -np.inf, values)
    return dtypes.narrow(values.reshape(_shape(scenario.bias, sizes)), scenario.dtype)


def kept(scenario: Scenario, keys: int) -> NDArray[np.bool_]:
    """The mask over `keys` slots: true where a key takes part. Only of a scenario with a mask."""
    assert scenario.mask is not None
    if scenario.mask == SQUARE:
        return _square(~_hidden(scenario, "Bx1xSxT", _sizes(scenario, "Bx1xSxT", keys)))
    sizes = _sizes(scenario, scenario.mask, keys)
    return ~_hidden(scenario, scenario.mask, sizes).reshape(_shape(scenario.mask, sizes))


def _square(kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[batch, 1, rows, keys] as the last rows of a square over all keys, and some more tokens.

    Rows of the past say the opposite of the first query's, and what nobody reads behind the keys that they count.
    """
    batch, _, rows, keys = kept.shape
    square = np.ones((batch, 1, keys + ROOM, keys + ROOM), bool)
    square[:, :, : keys - rows, :keys] = ~kept[:, :, :1]
    square[:, :, keys - rows : keys, :keys] = kept
    return square


def sink(scenario: Scenario) -> Array | None:
    """The score of each head that has no value: [heads]."""
    if not scenario.sink:
        return None
    values = modifiers.sink(scenario.seed, scenario.heads)
    if scenario.sink_values is not None:
        values = np.resize(scenario.sink_values, scenario.heads)
    return dtypes.narrow(values, scenario.dtype)


def _sizes(scenario: Scenario, shape: str, keys: int) -> tuple[int, int, int, int]:
    """The four sizes of a named shape, 1 where it broadcasts."""
    full = {"B": scenario.batch, "N": scenario.heads, "S": max(scenario.q_len), "T": keys}
    batch, heads, queries, slots = (size if letter in shape else 1 for letter, size in full.items())
    return batch, heads, queries, slots


def _shape(shape: str, sizes: tuple[int, int, int, int]) -> tuple[int, ...]:
    if shape in KEY_MASKS:
        batch, _, queries, slots = sizes
        return (batch, slots) if shape == "BxT" else (batch, queries, slots)
    return sizes[-len(shape.split("x")) :]


def _keys(scenario: Scenario, slots: int) -> NDArray[np.int64]:
    """The position of the key at each slot, by the longest past: the nearest keys keep their bias."""
    past = max(scenario.kv_len) - max(scenario.q_len) if _holds_new_keys(scenario) else max(scenario.past_len)
    return np.arange(slots, dtype=np.int64) - past


def _holds_new_keys(scenario: Scenario) -> bool:
    """Whether the keys given are a cache that has those of the new tokens at its end."""
    return scenario.cross and scenario.capacity is not None


def _own(scenario: Scenario, shape: str, rows: int, slots: int) -> NDArray[np.bool_]:
    """The slots of the queries' own keys, bool [batch or 1, 1, queries, slots]; of any entry's where one is for all."""
    past = np.array(scenario.past_len)
    if _holds_new_keys(scenario):
        past = np.array(scenario.kv_len) - np.array(scenario.q_len)
    own: NDArray[np.bool_] = np.arange(slots) == past[:, None, None, None] + np.arange(rows)[:, None]
    return own if "B" in shape else np.any(own, axis=0, keepdims=True)


def _hidden(scenario: Scenario, shape: str, sizes: tuple[int, int, int, int]) -> NDArray[np.bool_]:
    """What the scenario's holes hide: bool of these sizes.

    Holes among the keys spare a query's own key, or the first key where one array is for all queries: a row without any
    key is asked for by its own word.
    """
    hidden = np.zeros(sizes, bool)
    rows = sizes[2]
    match scenario.holes:
        case "keys":
            keys = _keys(scenario, sizes[3])
            spared = _own(scenario, shape, rows, sizes[3]) if "S" in shape else keys == keys[0]
            first = max(scenario.first)
            hidden = modifiers.holes(scenario.seed, *sizes[:3], first + keys, first) & ~spared
        case "first-row":
            hidden[:, :, 0] = True
        case "middle-row":
            hidden[:, :, rows // 2] = True
        case "last-row":
            hidden[:, :, -1] = True
        case "entry":
            hidden[0] = True
    return hidden
