"""Ratios: within a case, and between a run and a former one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from attncheck.bench.events import Timing

NAIVE = "naive"
WEBGPU = "ort-webgpu"


class Row(Protocol):
    """A contender on a case, as it was just timed or as a report of it says."""

    @property
    def backend(self) -> str:
        """Its backend's name."""

    @property
    def label(self) -> str:
        """As tables show it."""

    @property
    def use(self) -> str:
        """The backend that this one configures or pins."""

    @property
    def timed(self) -> bool:
        """Whether there are durations."""


AnyRow = TypeVar("AnyRow", bound=Row)


def against(timing: Timing, anchor: Timing | None) -> float | None:
    """How many times as fast as `anchor` it is; None where either was not timed."""
    if anchor is None or not (timing.timed and anchor.timed):
        return None
    return anchor.summary.median / timing.summary.median


def naive_of(row: Row, rows: Sequence[AnyRow]) -> AnyRow | None:
    """The naive kernel on the same backend, or else the first there is; None for backends without own kernels."""
    naive = [it for it in rows if it.label.endswith(f" {NAIVE}")]
    return next((it for it in naive if it.backend == row.backend), naive[0] if naive else None)


def webgpu_of(rows: Sequence[AnyRow]) -> AnyRow | None:
    """ONNX Runtime's WebGPU provider, whatever its version and its name here; the first that was timed."""
    return next((it for it in rows if it.use == WEBGPU and it.timed), None)


def anchors(row: Row, rows: Sequence[AnyRow]) -> dict[str, AnyRow | None]:
    """What `row` of a case is held against, by name."""
    return {NAIVE: naive_of(row, rows), WEBGPU: webgpu_of(rows)}
