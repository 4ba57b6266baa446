"""Ratios within a case, of what computes on one adapter: across two they would say nothing of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from attncheck.bench.adapter import Adapter
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

    @property
    def adapter(self) -> Adapter:
        """On what it computes."""


AnyRow = TypeVar("AnyRow", bound=Row)


def against(timing: Timing, anchor: Timing | None) -> float | None:
    """How many times as fast as `anchor` it is; None where either was not timed."""
    if anchor is None or not (timing.timed and anchor.timed):
        return None
    return anchor.summary.median / timing.summary.median


def naive_of(row: Row, rows: Sequence[AnyRow]) -> AnyRow | None:
    """The naive kernel on the same backend, or else the first on the same adapter; None where there is none."""
    naive = [it for it in rows if _is_naive(it) and row.adapter.same(it.adapter)]
    return next((it for it in naive if it.backend == row.backend), naive[0] if naive else None)


def webgpu_of(row: Row, rows: Sequence[AnyRow]) -> AnyRow | None:
    """ONNX Runtime's WebGPU provider on the same adapter, whatever its version and name; the first that was timed."""
    return next((it for it in rows if _is_webgpu(it) and row.adapter.same(it.adapter)), None)


def anchors(row: Row, rows: Sequence[AnyRow]) -> dict[str, AnyRow | None]:
    """What `row` of a case is held against, by name."""
    return {NAIVE: naive_of(row, rows), WEBGPU: webgpu_of(row, rows)}


def elsewhere(row: Row, rows: Sequence[Row]) -> set[str]:
    """The anchors, by name, that are there on other adapters alone."""
    there = {NAIVE: any(map(_is_naive, rows)), WEBGPU: any(map(_is_webgpu, rows))}
    return {name for name, anchor in anchors(row, rows).items() if anchor is None and there[name]}


def _is_naive(row: Row) -> bool:
    return row.label.endswith(f" {NAIVE}")


def _is_webgpu(row: Row) -> bool:
    return row.use == WEBGPU and row.timed
