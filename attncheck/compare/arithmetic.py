"""What a backend may promise to compute in; the tolerance follows."""

from __future__ import annotations

from typing import Literal

Compute = Literal["f32", "mixed", "native"]
"""Float32 whatever the dtype; the same, but weights are rounded to the dtype before they meet the values, as matrix
units want them; or the dtype's own."""
