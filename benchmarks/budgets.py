"""Measure attncheck against its budgets and print what was found: `make bench`.

A report, not a test: times depend on the machine. It exits with 1 only when a run did not end as it should, since then
its figures mean nothing. Times are wall clock, start of the interpreter included; memory is the largest sum of the
resident sets of attncheck and its workers, sampled, where /proc tells them (shared pages count more than once).
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOOKS = Path(__file__).resolve().parent / "hooks"
ATTNCHECK = (sys.executable, "-m", "attncheck")

SUITE = ("run", str(ROOT / "scenarios"), "--quiet")
HELP_RUNS = 11
SAMPLE_SECONDS = 0.02

SUITE_BUDGET_SECONDS = 60.0
MEMORY_BUDGET_MB = 1000.0
HELP_BUDGET_SECONDS = 0.2


class RunFailed(Exception):
    """A measured command did not end as it should."""


@dataclass(frozen=True)
class Run:
    """One finished command: wall time, peak memory of its process tree (None where /proc is missing), its last line."""

    seconds: float
    peak_mb: float | None
    last_line: str


@dataclass(frozen=True)
class Figure:
    """One line of the report: what was measured, as what, against which budget (None: for information)."""

    name: str
    measured: float
    unit: str
    budget: float | None = None

    def __str__(self) -> str:
        said = f"{self.name:<46} {self.measured:>8.4g} {self.unit:<10}"
        if self.budget is None:
            return said.rstrip()
        return f"{said} budget {self.budget:g}: {'kept' if self.measured <= self.budget else 'EXCEEDED'}"


def tree_memory_mb(root: int) -> float | None:
    """The sum of the resident sets of process `root` and its descendants now, in MB; None where /proc is missing."""
    if not Path("/proc/self/stat").exists():
        return None
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The command's name, in parentheses, may hold anything: count fields from its end.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process ended meanwhile
        parents[int(entry.name)] = int(fields[1])
        pages[int(entry.name)] = int(fields[21])

    def belongs(process: int) -> bool:
        while process not in (root, 0):
            process = parents.get(process, 0)
        return process == root

    return sum(pages[process] for process in pages if belongs(process)) * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(arguments: tuple[str, ...], environment: Mapping[str, str] | None = None) -> Run:
    """Run attncheck and watch it. Raises RunFailed when it does not exit with 0."""
    with tempfile.TemporaryFile("w+") as output:
        peak: float | None = None
        start = time.perf_counter()
        process = subprocess.Popen(
            [*ATTNCHECK, *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | dict(environment or {}),
        )
        while process.poll() is None:
            now = tree_memory_mb(process.pid)
            peak = now if peak is None or now is None else max(peak, now)
            time.sleep(SAMPLE_SECONDS)
        seconds = time.perf_counter() - start
        output.seek(0)
        text = output.read()
    if process.returncode != 0:
        raise RunFailed(f"attncheck {' '.join(arguments)} exited with {process.returncode}:\n{text}")
    return Run(seconds, peak, text.rstrip().rpartition("\n")[2])


def help_seconds() -> float:
    """The median time of `attncheck --help`."""
    times = []
    for _ in range(HELP_RUNS):
        start = time.perf_counter()
        subprocess.run([*ATTNCHECK, "--help"], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def pipelines(cache: Mapping[str, str], folder: Path) -> tuple[int, int]:
    """(pipelines compiled, distinct specialisations) of one run of the suite, each worker process for itself."""
    log = folder / "pipelines"
    log.touch()
    measure(SUITE, {**cache, "PYTHONPATH": str(HOOKS), "PIPELINE_LOG": str(log)})
    compiled = log.read_text(encoding="ascii").splitlines()
    return len(compiled), len(set(compiled))


def machine() -> str:
    """The processor and what runs on it, as far as the system tells."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass  # not Linux
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def report() -> None:
    """Measure and print everything."""
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        cache = {"MESA_SHADER_CACHE_DIR": f"{name}/cache", "XDG_CACHE_HOME": f"{name}/cache"}
        cold = measure(SUITE, cache)
        print(cold.last_line)
        print(Figure("shipped suite, cold shader cache", cold.seconds, "s", SUITE_BUDGET_SECONDS))
        print(Figure("shipped suite, warm shader cache", measure(SUITE, cache).seconds, "s"))
        if cold.peak_mb is not None:
            print(Figure("peak memory of the process tree, cold", cold.peak_mb, "MB", MEMORY_BUDGET_MB))
        print(Figure(f"attncheck --help, median of {HELP_RUNS}", help_seconds(), "s", HELP_BUDGET_SECONDS))
        compiled, distinct = pipelines(cache, Path(name))
        print(Figure("pipelines compiled", compiled, "", distinct))


def main() -> int:
    """Report; 1 when a run failed."""
    try:
        report()
    except RunFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
