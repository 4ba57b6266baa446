"""The beams of com.microsoft MultiHeadAttention and DecoderMaskedMultiHeadAttention: whose past an entry reads.

``cache_indirection`` [sequences, beams, slots] "specifies which beam the k-th token came from for the j-th beam for
batch i": batch entry i * beams + j reads slot k of the past of entry i * beams + [i, j, k]. New keys and values are its
own, and so is its present, of which nothing is moved. Slots behind the past are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.read.node import Node, Unreadable
from attncheck.graph.read.shared_buffer import Buffers


@dataclass(frozen=True)
class Beams:
    """The batch entry whose slot each slot is read from, int32 [batch, capacity], or None where each reads its own."""

    entries: NDArray[np.int32] | None = None
    invalid: str = ""


def read(node: Node, index: int, batch: int, buffers: Buffers, width: int | None = None) -> Beams:
    """``cache_indirection`` at input `index`; `width` is what beside it says how many beams there are.

    Raises Unreadable where the two contradict each other, or the batch.
    """
    said = node.array(index)
    if said is None and width in (None, 1):
        return Beams()
    if said is None:
        raise Unreadable(
            f"{node.op} with a beam_width of {width} and no cache_indirection is not read by attncheck: nothing says "
            "which beam a past token came from"
        )
    table = np.asarray(said, np.int64)
    fits = table.ndim == 3 and table.shape[0] * table.shape[1] == batch and table.shape[2] >= buffers.past
    if not fits or width not in (None, table.shape[1]):
        beside = "" if width is None else f" and a beam_width of {width}"
        raise Unreadable(
            f"{node.op} with a cache_indirection of shape {list(table.shape)}{beside} is not read by attncheck: it is "
            f"[sequences, beams, slots], {batch} entries in all, with {buffers.past} slots of past or more"
        )
    beams = table.shape[1]
    table = table.reshape(batch, -1)[:, : buffers.past]
    if table.size and (table.min() < 0 or table.max() >= beams):
        outside = table.max() if table.max() >= beams else table.min()
        return Beams(None, f"cache_indirection names beam {outside}, and there are {beams}")
    own = np.arange(batch)[:, None]
    entries = np.broadcast_to(own, (batch, buffers.present_slots)).astype(np.int32)
    entries[:, : buffers.past] = own // beams * beams + table
    return Beams(entries if (entries != own).any() else None)
