"""The buffer that past and present of com.microsoft MultiHeadAttention and Attention share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attncheck.graph.read.node import Node


@dataclass(frozen=True)
class Buffers:
    """Rows of the past that are read, slots of past and present buffers, and why they cannot be, or nothing."""

    past: int
    past_slots: int
    present_slots: int
    invalid: str = ""


def read(node: Node, index: int, past_slots: int, new_rows: int) -> Buffers:
    """By ``past_sequence_length`` at input `index`: "buffer sharing is used with" it, new rows follow the past.

    Without it every slot of the past is read, and the present is longer by the new rows.
    """
    said = node.array(index)
    if said is None:
        return Buffers(past_slots, past_slots, past_slots + new_rows)
    past = int(np.asarray(said).reshape(-1)[0])
    if past >= 0 and past + new_rows <= past_slots:
        return Buffers(past, past_slots, past_slots)
    rows = f"past_sequence_length {past} and {new_rows} new row(s)"
    return Buffers(past, past_slots, past_slots, f"{rows} do not fit into the shared buffer of {past_slots} slots")
