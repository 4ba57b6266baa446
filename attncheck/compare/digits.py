"""How an error, a tolerance and a margin are written: short enough for a column, long enough to be compared."""

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
