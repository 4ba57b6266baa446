"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` under another name in the same folder and rename it: a reader never meets half a file.

    Raises OSError; what was at `path` before then stands as it was.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)  # a pipe, or /dev/stderr: there is nothing to rename
        return
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
    except OSError as failed:
        failed.filename = str(path)
        raise
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException as failed:
        Path(name).unlink(missing_ok=True)
        if isinstance(failed, OSError):
            failed.filename = str(path)  # what was asked for: the other name is nobody's matter
        raise


def _umask() -> int:
    """The mask of new files, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
