"""Bytes around tensors: guard zones that a stray write breaks, and the poison that a read before a write shows.

Both are NaN in f16 and in f32, and differ from each other.
"""

from __future__ import annotations

import numpy as np

POISON = 0xFF
"""Every byte of a writable buffer before the run: f16 0xffff, f32 0xffffffff."""

GUARD_BYTES = 4096
"""Bytes bound behind each tensor: some rows of the widest head."""

ALIGNMENT = 16
_ZONE = np.full((GUARD_BYTES + ALIGNMENT) // 2, 0xFFC3, "<u2").view(np.uint8)


def bound_bytes(nbytes: int) -> int:
    """Size of the buffer for a tensor of `nbytes` bytes: the tensor, its guard zone, filled up to the alignment."""
    return -(-(nbytes + GUARD_BYTES) // ALIGNMENT) * ALIGNMENT


def guard(nbytes: int) -> np.ndarray:
    """The guard zone of a tensor of `nbytes` bytes, uint8."""
    return _ZONE[: bound_bytes(nbytes) - nbytes]


def guarded(content: np.ndarray) -> np.ndarray:
    """`content`, uint8, with its guard zone behind."""
    return np.concatenate([content, guard(content.nbytes)])


def poisoned(nbytes: int) -> np.ndarray:
    """A poisoned tensor of `nbytes` bytes with its guard zone behind, uint8."""
    return guarded(np.full(nbytes, POISON, np.uint8))


def first_broken(nbytes: int, zone: np.ndarray) -> int:
    """Offset of the first byte behind the tensor that a kernel changed, or -1."""
    changed = np.flatnonzero(zone != guard(nbytes))
    return int(changed[0]) if changed.size else -1
