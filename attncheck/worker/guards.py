"""Bytes around tensors: guard zones that a stray write breaks, and the poison that a read before a write shows.

Both are NaN in f16 and in f32, and differ from each other.
"""

from __future__ import annotations

from typing import Optional

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


class Surrounded:
    """An array in a buffer of its own, with a guard zone on either side, for code that is handed its memory.

    view  the array to hand out: writable, as any array is, and C-contiguous
    """

    def __init__(self, array: np.ndarray) -> None:
        self._before = np.ascontiguousarray(array).tobytes()
        zone = guard(0)
        self._buffer = np.concatenate([zone, np.frombuffer(self._before, np.uint8), guard(len(self._before))])
        content = self._buffer[zone.nbytes : zone.nbytes + len(self._before)]
        self._content = content
        self._zone = zone.nbytes
        self.view = content.view(array.dtype).reshape(array.shape)

    def stray(self) -> Optional[str]:
        """Where the first byte outside of the array was changed, in words, or None."""
        front = np.flatnonzero(self._buffer[: self._zone] != guard(0))
        if front.size:
            return "%d bytes in front of its first byte" % (self._zone - int(front[-1]))
        behind = first_broken(self._content.nbytes, self._buffer[self._zone + self._content.nbytes :])
        return None if behind < 0 else "the first stray byte is %d bytes behind its %d bytes" % (
            behind,
            self._content.nbytes,
        )

    def changed(self) -> Optional[str]:
        """Where the array itself was changed first, in words, or None."""
        places = np.flatnonzero(self._content != np.frombuffer(self._before, np.uint8))
        if not places.size:
            return None
        element = int(places[0]) // self.view.itemsize
        place = ", ".join(str(int(index)) for index in np.unravel_index(element, self.view.shape))
        return "first at [%s]" % place
