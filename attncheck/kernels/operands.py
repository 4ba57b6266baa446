"""What every kernel of attention works on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attncheck.kernels.bias import Bias, Sinks
from attncheck.kernels.draft import Limits, View
from attncheck.kernels.parts import Part, parts
from attncheck.kernels.plan import Range
from attncheck.problem import Problem

Ranges = tuple[Range | None, ...]


@dataclass(frozen=True)
class Operands:
    """Buffers that are there when a kernel begins.

    visible     int32 [batch, rows, 4], see `visible_rows`
    query       [batch, heads, rows, head_dim] from its `first` on, turned and normalised: in float32, but for a kernel
                that reads it as given, in whatever buffer and dtype it lies
    key, value  [batch, kv_heads, capacity, head_dim or v_head_dim] in the dtype of the problem: all slots
    """

    visible: str
    query: View
    key: View
    value: View
    bias: Bias
    sinks: Sinks

    def parts(self, problem: Problem, limits: Limits) -> Iterator[tuple[Part, Ranges, dict[str, int]]]:
        """The parts of members whose keys and values fit in a binding: each with what it binds, and its skips.

        The ranges are those of a dispatch that binds `visible`, the query, the key and the value first.
        """
        for part in parts((self.key, self.value), problem.batch * problem.kv_heads, limits.binding_bytes):
            yield part, (None, None, *part.ranges), {"key_skip": part.skips[0], "value_skip": part.skips[1]}
