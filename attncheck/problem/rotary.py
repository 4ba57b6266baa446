"""The canonical problem of rotary embedding alone: rows that turn by their positions, and attend to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attncheck.problem.tensors import Role, Rotary, Tensor


@dataclass(frozen=True)
class RotaryProblem:
    """The leading dims of each row turn by its position; the others are copied.

    rows      rows of each batch entry, all of which mean something
    invalid   why the operator's text forbids this graph: a backend must refuse it, and no answer is stated
    """

    kind: ClassVar[str] = "rotary"
    op: str
    dtype: str
    batch: int
    rows: int
    heads: int
    head_dim: int
    rotary: Rotary
    input: Tensor
    turned: Tensor
    invalid: str = ""

    @property
    def inputs(self) -> tuple[Role, ...]:
        """The input that holds rows."""
        return (Role("input", self.input, (self.batch, self.heads, self.rows, self.head_dim), self.dtype),)

    @property
    def outputs(self) -> tuple[Role, ...]:
        """The one output of the graph."""
        return (Role("turned", self.turned, (self.batch, self.heads, self.rows, self.head_dim), self.dtype),)

    @property
    def group(self) -> int:
        """No heads share anything."""
        return 1
