"""What one process measures of a draw: its interpreter was spawned, so that no thread and no device is shared."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from attncheck.backends.base import Backend, BackendUnavailable
from attncheck.backends.registry import Settings, UnknownBackend, create
from attncheck.engine.expectations import Expectations
from attncheck.scenario import expectations
from attncheck.scenario.model import Scenario
from benchmarks.tolerance import records
from benchmarks.tolerance.drawing import draw
from benchmarks.tolerance.measure import Bench, bench

EXPECTATIONS = Path(__file__).with_name("expectations.yaml")
"""What released software is known to get wrong on drawn cases: such results are counted apart."""


def measure_share(
    out: Path,
    seed: int,
    always: tuple[str, ...],
    share: Sequence[int],
    deadline: float,
    backends: tuple[str, ...],
    adapters: tuple[str, ...],
) -> None:
    """Write the records of the cases `share` into a new file of `out`, until `deadline`; 1 where no worker starts."""
    known = Expectations(expectations.load([EXPECTATIONS]))
    try:
        with bench(_backends(backends, adapters), known) as workers:
            of_draw = {"seed": seed, "always": list(always)}
            writer = records.Writer(out, of_draw | {"backends": list(workers.hellos), "versions": workers.hellos})
            for index in share:
                if time.time() > deadline:
                    break
                writer.write(_measured(workers, index, draw(seed, index, always)))
            writer.close()
    except (BackendUnavailable, UnknownBackend) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


def _measured(workers: Bench, index: int, scenario: Scenario) -> records.Record:
    """A record of the case, also where attncheck itself fails at it: one case must not cost all that come after it."""
    try:
        return workers.measure(index, scenario)
    except Exception:  # noqa: BLE001  the summary lists it as a fault of attncheck
        return records.fault(index, scenario, traceback.format_exc())


def _backends(names: Sequence[str], adapters: tuple[str, ...]) -> list[Backend]:
    return [backend for name in names for backend in create(name, Settings(adapters=adapters))]
