"""The kernel policy that the options of a call ask for."""

from __future__ import annotations

from pathlib import Path

from attncheck.cli.messages import Stop
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
