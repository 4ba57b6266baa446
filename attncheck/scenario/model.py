"""The Scenario: one fully expanded, validated thing to test, with the place it was written at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Op = Literal["gqa", "mha"]
DType = Literal["float32", "float16"]
RotaryStyle = Literal["half", "interleaved"]
DataKind = Literal["normal", "uniform", "one-hot", "constant", "large-logits", "rising-scores", "huge-logit", "ties"]
Kernel = Literal["auto", "naive", "online"]


@dataclass(frozen=True)
class Source:
    """Where a scenario was written: file as given by the user, 1-based line."""

    file: str
    line: int


@dataclass(frozen=True)
class Tolerance:
    """What replaces the derived tolerance: an absolute bound on every compared element, in the output's units."""

    max_abs: float


@dataclass(frozen=True)
class Scenario:
    """One case to test. Axes are named as everywhere in attncheck; every default has been filled in.

    q_len, past_len   one entry a batch member, length `batch`
    capacity          length of the KV buffers, past and present alike; None: exact (past is max(past_len) long,
                      present is max(kv_len) long)
    scale             None: the operator's default, 1/sqrt(head_dim)
    softcap           0.0: none
    window            keys a query sees, itself included; None: all
    rotary_dim        leading dims of each head that turn; rotary_cache: rows of the cos/sin caches
    tolerance         backend name, or "*" for every backend -> what replaces the derived tolerance there
    written           the axes that somebody wrote, each with its one spelling, in order: what `--case` takes
    """

    id: str
    source: Source
    op: Op
    dtype: DType
    batch: int
    q_len: tuple[int, ...]
    past_len: tuple[int, ...]
    heads: int
    kv_heads: int
    head_dim: int
    capacity: int | None = None
    scale: float | None = None
    softcap: float = 0.0
    window: int | None = None
    causal: bool = True
    rotary: RotaryStyle | None = None
    rotary_dim: int = 0
    rotary_cache: int = 0
    data: DataKind = "normal"
    seed: int = 0
    kernel: Kernel | None = None
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    about: str = ""
    written: tuple[tuple[str, str], ...] = ()

    @property
    def kv_len(self) -> tuple[int, ...]:
        """Keys a batch member holds after this call."""
        return tuple(past + new for past, new in zip(self.past_len, self.q_len, strict=True))
