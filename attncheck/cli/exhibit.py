"""What `attncheck show` shows of one case."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np

from attncheck.cli.messages import Stop
from attncheck.cli.output import Printer
from attncheck.graph import read, write
from attncheck.reports import problem as in_words
from attncheck.scenario.model import Scenario
from attncheck.vocabulary import ExitCode


def tell(scenario: Scenario) -> None:
    """Print the scenario, the graph and the problem in words."""
    case = write.build(scenario)
    printer = Printer()
    printer.print(in_words.exhibit(case, read.problem(case.model, case.inputs), printer.width))


def save(scenario: Scenario, model: Path | None, inputs: Path | None) -> None:
    """Write the model and the inputs, each to a temporary file first that is then renamed."""
    case = write.build(scenario)
    if model is not None:
        _replace(model, lambda file: file.write(case.model))
    if inputs is not None:
        _replace(inputs, lambda file: np.savez(file, **dict(case.inputs)))  # type: ignore[arg-type]


def _replace(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Fill a file beside `path` and rename it, so that nobody ever sees half of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("xb") as file:
            fill(file)
        beside.replace(path)
    except OSError as error:
        raise Stop(f"{path} cannot be written: {error.strerror}", ExitCode.USAGE) from None
    finally:
        beside.unlink(missing_ok=True)
