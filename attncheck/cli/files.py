"""Files that a command writes: whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from attncheck.cli.messages import unwritten


def replace(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Fill a file beside `path` and rename it, so that nobody ever sees half of it. Raises Stop."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("xb") as file:
            fill(file)
        beside.replace(path)
    except OSError as error:
        raise unwritten(path, OSError(error.errno, error.strerror)) from None
    finally:
        beside.unlink(missing_ok=True)
