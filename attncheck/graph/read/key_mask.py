"""Masks of keys in com.microsoft operators: key_padding_mask of MultiHeadAttention, mask_index of Attention.

Published forms, by the operator texts in ONNX Runtime 1.32: [batch] holds the length of each entry's keys without right
padding, and so do the first entries of [3 * batch + 2]; the texts do not explain the others, which `AttentionMaskType`
of ONNX Runtime's source calls query_start, query_end, key_start, key_end: where each entry's rows begin, and the end;
[2 * batch], of Attention alone, holds "the exclusive end positions followed by the inclusive start positions";
[batch, kv_len] and [batch, rows, kv_len] hold 1 for keys that count, and so does [batch, 1, max_len, max_len], of
Attention alone: the texts do not say which rows and columns of it count, and the kernels of ONNX Runtime that take it,
those of CUDA, read row past + i for query i, and the first kv_len columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import Mask

HIDES = -1000.0
"""Added to a score, this or less leaves the key no weight in float32: `mask_filter_value` then hides."""


@dataclass(frozen=True)
class KeyMask:
    """What a mask leaves: slots [first, end) of each batch entry, and a Mask where no interval says it."""

    first: NDArray[np.int64]
    end: NDArray[np.int64]
    masks: tuple[Mask, ...] = ()


def read(node: Node, index: int, batch: int, rows: int, kv_len: int, *, what: str, ends: bool = False) -> KeyMask:
    """The mask at input `index`, called `what`; with `ends` in the forms of Attention. Raises Unreadable."""
    name, mask = node.name(index), node.array(index)
    first, end = np.zeros(batch, np.int64), np.full(batch, kv_len)
    if name is None or mask is None:
        return KeyMask(first, end)
    filled = node.attribute("mask_filter_value", -10000.0)
    if filled > HIDES:
        raise Unreadable(
            f"{node.op} with a {what} and mask_filter_value {filled:g} is not read by attncheck: it weakens keys and "
            f"hides none; {HIDES:g} or less hides"
        )
    said = np.asarray(mask, np.int64)
    if said.shape == (3 * batch + 2,):
        _hold_offsets(node, what, said, batch, rows, kv_len)
    if said.shape in ((batch,), (3 * batch + 2,)):
        return KeyMask(first, said[:batch])
    if ends and said.shape == (2 * batch,):
        return KeyMask(said[batch:], said[:batch])
    if said.shape == (batch, rows, kv_len) or (ends and said.shape == (batch, 1, rows, kv_len) and rows == kv_len):
        return KeyMask(first, end, (Mask(name, "integer", (batch, 1, rows, kv_len), kv_len),))
    if ends and said.ndim == 4 and said.shape[:2] == (batch, 1) and said.shape[2] == said.shape[3] >= kv_len:
        seen = np.ascontiguousarray(said[:, :, kv_len - rows : kv_len, :kv_len] != 0)
        return KeyMask(first, end, (Mask(f"rows of {name}", "boolean", seen.shape, kv_len, seen),))
    if said.shape != (batch, kv_len):
        more = f", [{2 * batch}], [{batch}, 1, M, M] of at least {kv_len} tokens" if ends else ""
        raise Unreadable(
            f"{node.op} with a {what} of shape {list(said.shape)} is not read by attncheck: "
            f"[{batch}]{more}, [{3 * batch + 2}], [{batch}, {kv_len}] and [{batch}, {rows}, {kv_len}] are"
        )
    kept = said != 0
    if _has_holes(kept):
        return KeyMask(first, end, (Mask(name, "integer", (batch, 1, 1, kv_len), kv_len),))
    first = kept.argmax(axis=1).astype(np.int64)
    return KeyMask(first, first + kept.sum(axis=1).astype(np.int64))


def _hold_offsets(node: Node, what: str, said: NDArray[np.int64], batch: int, rows: int, kv_len: int) -> None:
    """Raise Unreadable where the offsets behind the lengths are others than those of padded rows."""
    queries, keys = said[batch : 2 * batch + 1], said[2 * batch + 1 :]
    for found, step, word in ((queries, rows, "queries"), (keys, kv_len, "keys")):
        wanted = np.arange(batch + 1) * step
        if not np.array_equal(found, wanted):
            raise Unreadable(
                f"{node.op} with a {what} of {len(said)} numbers is read by attncheck only where its {word} begin at "
                f"{wanted.tolist()}, as in padded rows; here at {found.tolist()}: the text does not say which rows "
                "others name"
            )


def _has_holes(kept: NDArray[np.bool_]) -> bool:
    """Whether some row of [batch, kv_len] keeps more than one run of keys."""
    starts = np.diff(kept.astype(np.int8), axis=1, prepend=0) == 1
    return bool((starts.sum(axis=1) > 1).any())
