"""Past rows and masks of operators that know lengths by a mask alone: MultiHeadAttention, com.microsoft Attention.

A ragged past is padded on the left to one length; the masked slots are read by the operator, so they hold finite
numbers. With a capacity past and present are one buffer, of which ``past_sequence_length`` slots are past; what lies
behind them is not read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.write import over_scores, parts
from attncheck.graph.write.parts import Array
from attncheck.scenario.model import KeyLengths, Scenario
from attncheck.tensors import modifiers, poison


def past(scenario: Scenario) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Keys and values of the past, [batch, heads, slots, dim]; None without any slot, unless they are asked for so."""
    length = max(scenario.past_len)
    slots = length if scenario.capacity is None else scenario.capacity
    if slots == 0 and scenario.past == "auto":
        return None
    group = scenario.heads // scenario.kv_heads
    first = np.full(scenario.batch, -length)
    key, value = (parts.past_rows(scenario, tensor, scenario.kv_heads, first, slots, group) for tensor in ("k", "v"))
    value[:, :, :length] = poison.overwrite_hidden(value[:, :, :length], ~left_padding(scenario))
    read = np.broadcast_to(np.arange(slots) < length, (scenario.batch, slots))
    return poison.blank_unread(key, read), poison.blank_unread(value, read)


def left_padding(scenario: Scenario) -> NDArray[np.bool_]:
    """[batch, max(past_len)]: the slots of the past buffer in front of an entry's own past."""
    length = max(scenario.past_len)
    return np.asarray(np.arange(length) < length - np.array(scenario.past_len)[:, None])


def shares_buffer(scenario: Scenario) -> bool:
    """Whether past and present are one buffer."""
    return scenario.capacity is not None or scenario.past == "full"


def past_length(scenario: Scenario) -> Array | None:
    """How much of a buffer that past and present share is past; None where they are buffers of their own."""
    return np.array([max(scenario.past_len)], np.int32) if shares_buffer(scenario) else None


def present_slots(scenario: Scenario) -> int:
    """Slots of the present buffers."""
    if scenario.past == "full":
        return max(scenario.past_len)
    return scenario.capacity or max(scenario.past_len) + parts.new_count(scenario)


def beams(scenario: Scenario) -> Array | None:
    """Which beam each past slot came from, int32 [sequences, beams, slots]; None for one beam. -1 behind the past."""
    if scenario.beams == 1:
        return None
    slots = scenario.capacity or max(scenario.past_len)
    table = modifiers.beams(scenario.seed, scenario.batch, slots, scenario.beams)
    table[:, max(scenario.past_len) :] = -1
    return table.reshape(-1, scenario.beams, slots).astype(np.int32)


def key_lengths(scenario: Scenario, *, behind_padding: KeyLengths) -> Array | None:
    """The mask that says how many keys each entry has, int32; None where nothing need be said.

    behind_padding   the form in which a past that differs over the batch is said, unless the scenario names one
    """
    form = scenario.key_lengths
    if form == "auto" and len(set(scenario.past_len)) > 1:
        form = behind_padding
    elif form == "auto" and len(set(scenario.kv_len)) > 1:
        form = "counts"
    keys = max(scenario.past_len) + parts.new_count(scenario)
    starts = max(scenario.past_len) - np.array(scenario.past_len)
    ends = starts + np.array(scenario.kv_len)
    slots = np.arange(keys)
    entries = np.arange(scenario.batch + 1)
    said: dict[str, NDArray[np.generic]] = {
        "counts": ends,
        "offsets": np.concatenate([ends, entries * max(scenario.q_len), entries * keys]),
        "ends-and-starts": np.concatenate([ends, starts]),
        "keys": (slots >= starts[:, None]) & (slots < ends[:, None]),
    }
    return None if form == "auto" else said[form].astype(np.int32)


def mask(scenario: Scenario) -> Array | None:
    """The mask that the scenario asks for, [batch, slots] or [batch, queries, slots]: 1 where a key counts."""
    if scenario.mask is None:
        return None
    return over_scores.kept(scenario, max(scenario.past_len) + parts.new_count(scenario)).astype(np.int32)
