"""Measure the tolerance and say what was found: `python -m benchmarks.tolerance measure`, then `summary`."""

from __future__ import annotations

import multiprocessing
import sys
import time
from pathlib import Path

import click

from benchmarks.tolerance import records, summary
from benchmarks.tolerance.share import measure_share


@click.group()
def main() -> None:
    """The measurement behind docs/tolerance.md."""


@main.command()
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the JSON lines; gone on from.")
@click.option("--cases", default=10_000, show_default=True, help="How many cases the draw has.")
@click.option("--first", default=0, help="The case to begin with, so that several machines can share a draw.")
@click.option("--seed", default=0, help="Another draw.")
@click.option("--seconds", default=float("inf"), help="Stop after this time, at the end of a case.")
@click.option("--jobs", default=1, show_default=True, help="Processes, each with workers of its own.")
@click.option("--always", multiple=True, metavar="AXIS", help="An axis of every case that can have it.")
@click.option("--adapter", "adapters", multiple=True, help="As of `attncheck run`.")
@click.option("--backend", "backends", multiple=True, default=("ort-cpu", "wgsl"), help="As of `attncheck run`.")
def measure(
    out: Path,
    cases: int,
    first: int,
    seed: int,
    seconds: float,
    jobs: int,
    always: tuple[str, ...],
    adapters: tuple[str, ...],
    backends: tuple[str, ...],
) -> None:
    """Measure the cases of the draw that DIR lacks."""
    deadline = time.time() + seconds
    out.mkdir(parents=True, exist_ok=True)
    done = {record["index"] for record in records.read(out)[1]}
    left = [index for index in range(first, first + cases) if index not in done]
    context = multiprocessing.get_context("spawn")
    shares = [left[job::jobs] for job in range(jobs)]
    processes = [
        context.Process(target=measure_share, args=(out, seed, always, share, deadline, backends, adapters))
        for share in shares
        if share
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    now = {record["index"] for record in records.read(out)[1]}
    missing = sum(index not in now for index in left)
    click.echo(f"{len(left) - missing} cases measured, {missing} of {cases} left", err=True)
    if any(process.exitcode for process in processes):
        sys.exit(1)


@main.command("summary")
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def summarise(folders: tuple[Path, ...]) -> None:
    """Print the tables of docs/tolerance.md. Folders of one draw are taken together."""
    click.echo(summary.report([records.read(folder) for folder in folders]))


if __name__ == "__main__":
    main()
