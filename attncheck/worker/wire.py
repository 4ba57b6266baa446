"""Frames between the engine and a worker: plain data and arrays over a byte stream, without pickle.

A frame is an 8-byte little-endian length, that many bytes of UTF-8 JSON, then the raw bytes of every array that the
JSON names, one after the other. Arrays and byte strings may stand anywhere in the data: in the JSON each is replaced by
``{"$array": [dtype, shape]}`` or ``{"$bytes": length}``, in the order in which their bytes follow.

Both ends use this file; it imports the standard library and NumPy only, in syntax that an older Python reads too.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO, List, Optional

import numpy as np

_LENGTH = struct.Struct("<Q")


class Closed(Exception):
    """The other end closed the stream in the middle of a frame, or before one."""


def send(stream: BinaryIO, data: Any) -> None:
    """Write one frame and flush. `data`: dicts with string keys, lists, JSON scalars, bytes, arrays."""
    blobs: List[bytes] = []
    header = json.dumps(_pack(data, blobs), allow_nan=True).encode()
    stream.write(_LENGTH.pack(len(header)))
    stream.write(header)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one frame. Arrays come back writable and C-contiguous. Raises Closed at the end of the stream."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return _unpack(json.loads(_exactly(stream, length).decode()), stream)


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if data is None or len(data) != count:
        raise Closed
    return data


def _pack(data: Any, blobs: List[bytes]) -> Any:
    if isinstance(data, np.ndarray):
        blobs.append(np.ascontiguousarray(data).tobytes())
        return {"$array": [data.dtype.str, list(data.shape)]}
    if isinstance(data, bytes):
        blobs.append(data)
        return {"$bytes": len(data)}
    if isinstance(data, dict):
        return {key: _pack(value, blobs) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_pack(value, blobs) for value in data]
    return data


def _unpack(data: Any, stream: BinaryIO) -> Any:
    if isinstance(data, list):
        return [_unpack(value, stream) for value in data]
    if not isinstance(data, dict):
        return data
    if "$array" in data:
        dtype, shape = np.dtype(data["$array"][0]), tuple(data["$array"][1])
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return np.frombuffer(bytearray(_exactly(stream, count)), dtype=dtype).reshape(shape)
    if "$bytes" in data:
        return _exactly(stream, data["$bytes"])
    return {key: _unpack(value, stream) for key, value in data.items()}


_END = b"\x1eend of request "


def end_of_stderr(request: int) -> bytes:
    """The line that stands on stderr behind what this request has written there."""
    return b"\n%s%d\n" % (_END, request)


def ended_on_stderr(line: bytes) -> Optional[int]:
    """The request that a line of stderr is the end of; None for a line that the runtime has written."""
    number = line[len(_END) :].strip()
    return int(number) if line.startswith(_END) and number.isdigit() else None
