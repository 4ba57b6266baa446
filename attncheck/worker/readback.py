"""Bytes of GPU buffers back on the host, through one staging buffer that grows up to a limit and is then used again."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import wgpu

MOST = 256 << 20
"""Most bytes of the staging buffer: what is larger comes in pieces, also where an adapter has no such large buffers."""

Ranges = Dict[str, Tuple[int, int]]
"""Buffer name -> the bytes [start, end) of it that are wanted; both multiples of 4."""

Piece = Tuple[str, int, int]


class Readback:
    """Reads buffers of one device."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.staging: Any = None

    def read(self, encoder: Any, buffers: Dict[str, Any], ranges: Ranges) -> Dict[str, np.ndarray]:
        """What each range holds once the work that `encoder` holds is done: it is submitted with the first copies."""
        images = {name: np.empty(end - start, np.uint8) for name, (start, end) in ranges.items()}
        for pieces in together(ranges, MOST):
            data = self._read(encoder or self.device.create_command_encoder(), buffers, pieces)
            encoder, place = None, 0
            for name, start, end in pieces:
                offset = start - ranges[name][0]
                images[name][offset : offset + end - start] = data[place : place + end - start]
                place += end - start
        if encoder is not None:
            self.device.queue.submit([encoder.finish()])
        return images

    def _read(self, encoder: Any, buffers: Dict[str, Any], pieces: List[Piece]) -> np.ndarray:
        total = sum(end - start for _, start, end in pieces)
        if self.staging is None or self.staging.size < total:
            if self.staging is not None:
                self.staging.destroy()
            usage = wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.MAP_READ
            self.staging = self.device.create_buffer(size=total, usage=usage)
        place = 0
        for name, start, end in pieces:
            encoder.copy_buffer_to_buffer(buffers[name], start, self.staging, place, end - start)
            place += end - start
        self.device.queue.submit([encoder.finish()])
        self.staging.map_sync(wgpu.MapMode.READ, 0, total)
        try:
            return np.frombuffer(self.staging.read_mapped(0, total), np.uint8)
        finally:
            self.staging.unmap()


def together(ranges: Ranges, most: int) -> Iterator[List[Piece]]:
    """The ranges in pieces, as many at a time as `most` bytes hold."""
    pieces: List[Piece] = []
    room = most
    for name, (start, end) in ranges.items():
        at = start
        while at < end:
            upto = min(end, at + room)
            pieces.append((name, at, upto))
            room -= upto - at
            at = upto
            if room == 0:
                yield pieces
                pieces, room = [], most
    if pieces:
        yield pieces
