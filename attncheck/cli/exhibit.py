"""What `attncheck show` shows of one case."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np

from attncheck.cli.messages import Stop
from attncheck.cli.output import Printer
from attncheck.engine.run import Given
from attncheck.graph import read, write
from attncheck.graph.case import Case
from attncheck.reports import problem as in_words
from attncheck.vocabulary import ExitCode


def tell(given: Given) -> None:
    """Print the scenario or model, the graph and the problem in words."""
    case = _case(given)
    printer = Printer()
    printer.print(in_words.exhibit(case, read.any_problem(case.model, case.inputs), printer.width))


def save(given: Given, model: Path | None, inputs: Path | None) -> None:
    """Write the model and the inputs, each to a temporary file first that is then renamed."""
    case = _case(given)
    if model is not None:
        _replace(model, lambda file: file.write(case.model))
    if inputs is not None:
        _replace(inputs, lambda file: np.savez(file, **dict(case.inputs)))  # type: ignore[arg-type]


def _case(given: Given) -> Case:
    return given if isinstance(given, Case) else write.build(given)


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
