"""How numbers are written in reports: short enough for a column, long enough to be compared."""

from __future__ import annotations

from attncheck.compare.digits import margin, number

__all__ = ["element", "margin", "number", "plural", "seconds", "size"]


def element(value: float) -> str:
    """Write one element of a tensor so that two different float32 numbers read differently."""
    return f"{value:.9g}"


def seconds(value: float) -> str:
    """Write a duration: ``0.4s``, ``9.4s``, ``2m 05s``."""
    if value < 59.95:
        return f"{value:.1f}s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes}m {rest:02d}s"


def plural(count: int, noun: str) -> str:
    """Write a count with its noun: ``1 case``, ``2 cases``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def size(nbytes: float) -> str:
    """Write a number of bytes in binary units: ``16 KiB``, ``1.5 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.4g} TiB"
