"""Backends as the options of a call choose them: which there are, where they run, by which policy of kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attncheck.backends.base import BackendUnavailable
from attncheck.backends.registry import Settings, UnknownBackend
from attncheck.backends.tables import Table
from attncheck.cli.messages import Stop, unstarted
from attncheck.kernels.policy import Policy
from attncheck.kernels.thresholds import ThresholdsError, load
from attncheck.scenario.model import Kernel
from attncheck.vocabulary import ExitCode


def policy(kernel: Kernel, threshold: int | None, thresholds: str | None) -> Policy:
    """`thresholds` is a file of rules, None for the shipped ones. Raises Stop (exit code 2) where it holds none."""
    try:
        return Policy(kernel, threshold, load(Path(thresholds)) if thresholds is not None else None)
    except ThresholdsError as wrong:
        raise Stop(f"--thresholds: {wrong}\nnothing was run", ExitCode.USAGE) from None


def placing(
    given: Mapping[str, Any], tables: Mapping[str, Table], kernel: Kernel = "auto", *, forced: bool = False
) -> Settings:
    """Where backends run and which kernel, by `--adapter`, `--shaders` and, where a command has them, by its rules.

    Raises Stop (exit code 2) for a file of rules that holds none.
    """
    return Settings(
        policy=policy(kernel, given.get("threshold"), given.get("thresholds")),
        forced=forced,
        adapters=tuple(given["adapter"]),
        shaders=Path(given["shaders"]) if given["shaders"] is not None else None,
        tables=tables,
    )


@contextmanager
def known() -> Iterator[None]:
    """Raise Stop (exit code 2) where the block names a backend that there is not."""
    try:
        yield
    except UnknownBackend as unknown:
        raise Stop(str(unknown), ExitCode.USAGE) from None


@contextmanager
def serving(backend: str) -> Iterator[None]:
    """Raise Stop (exit code 4) where the backend of the block, which the call names so, cannot start."""
    try:
        yield
    except BackendUnavailable as why:
        raise Stop(unstarted(backend, why), ExitCode.BACKEND) from None
