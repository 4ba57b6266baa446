"""Measure what it costs that every backend runs in a process of its own, and print it: `make bench`.

A report, not a test. Start: a worker against the same runtime imported and opened by a plain interpreter. Request:
prepare, run and release of a small case through the worker against the same calls within one process. Both are medians,
A and B in turn.
"""

from __future__ import annotations

import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attncheck.backends.base import Launch
from attncheck.backends.ort_cpu import OrtCpu
from attncheck.backends.wgsl import Wgsl
from attncheck.engine.worker import Worker
from attncheck.graph import write
from attncheck.scenario import from_command_line
from benchmarks.budgets import Figure, measure

WORKER = Path(__file__).resolve().parents[1] / "attncheck" / "worker"
SMALL = "op=gqa q_len=4 past_len=20 heads=4 kv_heads=2 head_dim=16"
STARTS = 7
REQUESTS = 100
CASES = 200

START_BUDGET_MS = 50.0
REQUEST_BUDGET_MS = 2.0
SUITE_BUDGET_SECONDS = 10.0


def milliseconds(work: Callable[[], Any]) -> float:
    """How long `work` takes."""
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


def start_overhead(launch: Launch) -> tuple[float, float]:
    """(milliseconds until a worker answers, until a plain interpreter has opened the same runtime)."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())  # as a worker has one
    opened = f"import {launch.runtime} as runtime; runtime.start({dict(launch.options)!r})"
    plain = [sys.executable, "-X", "utf8", "-c", f"import sys; sys.path.insert(0, {str(WORKER)!r}); {opened}"]
    pairs = [
        (milliseconds(lambda: Worker.started(launch).close()), milliseconds(lambda: subprocess.run(plain, check=True)))
        for _ in range(STARTS)
    ]
    return statistics.median(worker for worker, _ in pairs), statistics.median(bare for _, bare in pairs)


def request_overhead(worker: Worker) -> tuple[float, float]:
    """(milliseconds of a small case on ort-cpu through the worker, of the same calls within this process)."""
    sys.path.insert(0, str(WORKER))
    ort = importlib.import_module("ort")
    case = write.build(from_command_line(SMALL))
    here = ort.start(dict(OrtCpu().launch().options))

    def isolated() -> None:
        handle = worker.prepare({"model": case.model}, 60.0)
        worker.run(handle, dict(case.inputs), 60.0)
        worker.release(handle, 60.0)

    def direct() -> None:
        prepared = here.prepare({"model": case.model})
        here.run(prepared, dict(case.inputs))
        here.release(prepared)

    pairs = [(milliseconds(isolated), milliseconds(direct)) for _ in range(REQUESTS)]
    return statistics.median(far for far, _ in pairs), statistics.median(near for _, near in pairs)


def many_cases() -> float:
    """Seconds for `CASES` small cases on wgsl and ort-cpu, a run of the command from a warm shader cache."""
    cases = [word for seed in range(CASES) for word in ("--case", f"{SMALL} seed={seed}")]
    measure(("run", *cases, "--quiet"))
    return measure(("run", *cases, "--quiet")).seconds


def main() -> None:
    """Report."""
    for backend in (OrtCpu(), Wgsl()):
        worker_ms, plain_ms = start_overhead(backend.launch())
        print(Figure(f"{backend.name}: worker ready", worker_ms, "ms"))
        print(Figure(f"{backend.name}: runtime alone", plain_ms, "ms"))
        print(Figure(f"{backend.name}: cost of the worker's start", worker_ms - plain_ms, "ms", START_BUDGET_MS))
    worker = Worker.started(OrtCpu().launch())
    far, near = request_overhead(worker)
    worker.close()
    print(Figure("ort-cpu: a small case through a worker", far, "ms"))
    print(Figure("ort-cpu: the same in one process", near, "ms"))
    print(Figure("cost of isolation a small case", far - near, "ms", REQUEST_BUDGET_MS))
    print(Figure(f"{CASES} small cases, warm shader cache", many_cases(), "s", SUITE_BUDGET_SECONDS))


if __name__ == "__main__":
    main()
