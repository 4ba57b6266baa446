"""What `attncheck show` shows of one case."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attncheck.cli import files
from attncheck.cli.messages import Stop
from attncheck.cli.output import Printer
from attncheck.engine import sessions
from attncheck.engine.run import Given
from attncheck.graph import read
from attncheck.graph.case import Case
from attncheck.graph.session import Session
from attncheck.graph.session import session as session_of
from attncheck.reports import problem as in_words
from attncheck.reports.numbers import plural
from attncheck.vocabulary import ExitCode


def tell(given: Given, step: int | None) -> None:
    """Print the scenario or model, the graph and the problem in words; of a session its steps, or that one step."""
    session = session_of(given)
    printer = Printer()
    if len(session.cases) > 1 and step is None:
        problems = [read.problem(case.model, case.inputs) for case in session.cases]
        printer.print(in_words.session(session, problems, printer.width))
        return
    case = _case(session, step)
    printer.print(in_words.exhibit(case, read.any_problem(case.model, case.inputs), printer.width))


def save(given: Given, step: int | None, model: Path | None, inputs: Path | None) -> None:
    """Write the model and the inputs, each to a temporary file first that is then renamed."""
    session = session_of(given)
    if len(session.cases) > 1 and step is None:
        number = len(session.cases)
        message = f"{session.id} has {number} steps, each with a model: say which, --step 1 to {number}"
        raise Stop(message, ExitCode.USAGE)
    case = _case(session, step)
    if model is not None:
        files.replace(model, lambda file: file.write(case.model))
    if inputs is not None:
        files.replace(inputs, lambda file: np.savez(file, **dict(case.inputs)))  # type: ignore[arg-type]


def _case(session: Session, step: int | None) -> Case:
    """The step of a session, its past being the oracle's present of the one before; a case by itself as it is."""
    if step is None:
        return session.cases[0]
    if step > len(session.cases):
        told = f"has {plural(len(session.cases), 'step')}" if len(session.cases) > 1 else "is no session"
        raise Stop(f"there is no step {step}: {session.id} {told}", ExitCode.USAGE)
    return sessions.alone(session, step)
