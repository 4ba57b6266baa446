"""How numbers are written in reports: short enough for a column, long enough to be compared."""

from __future__ import annotations

import math


def number(value: float) -> str:
    """Write a non-negative magnitude in at most seven characters: ``0``, ``4.2e-8``, ``0.0123``, ``281``, ``inf``."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value == 0:
        return "0"
    rounded = float(f"{value:.2e}")  # so that 0.99999 and 1.0 get the same number of decimals
    magnitude = math.floor(math.log10(abs(rounded)))
    if -2 <= magnitude <= 3:
        return f"{value:.{max(0, 2 - magnitude)}f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def margin(value: float) -> str:
    """Write error over tolerance: three decimals below 1, where it passes, and `number`'s way above."""
    if 0 < value < 0.0005:
        return "<0.001"
    return f"{value:.3f}" if 0 < value < 0.9995 else number(value)


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
